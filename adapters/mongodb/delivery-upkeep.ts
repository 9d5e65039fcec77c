/** What operators do with deliveries, and what is purged. */
import type { AnyBulkWriteOperation, ClientSession, Collection } from "mongodb";
import type { DeliveryStore, PurgeLimits, RedriveResult } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import {
  byId,
  DELIVERY_STATES,
  MAKE_DUE,
  type StoredAttempt,
  type StoredDelivery,
  UNSET_FINISHED,
  UNSET_WAITING,
} from "./delivery-documents.ts";
import type { Lanes } from "./delivery-lanes.ts";
import { toKey } from "./keys.ts";

type Redrivable = Pick<StoredDelivery, "_id" | "lane" | "type" | "sequence" | "state" | "payload">;

const WAIT_AGAIN = [
  { $set: { state: "waiting", failures: 0, next_attempt_at: "$stored_at" } },
  { $unset: ["failed_at", ...Object.keys(UNSET_FINISHED)] },
];

/**
 * What is to become of one delivery.
 * @param passed the highest sequence of its lane that was delivered or is being sent.
 */
function redriveOne(
  found: Redrivable | undefined,
  passed: number,
  passable: ReadonlySet<string>,
): RedriveResult {
  if (found === undefined) return "unknown";
  if (found.state === "waiting") return "waiting";
  if (found.payload === undefined) return "purged";
  return passed > found.sequence && passable.has(found.type) ? "superseded" : "redriven";
}

/** What failed behind the first one that is redriven in its lane waits for that alone. */
async function hurry(
  deliveries: Collection<StoredDelivery>,
  redriven: readonly Redrivable[],
  session: ClientSession,
): Promise<void> {
  const first = new Map<string, number>();
  for (const { lane, sequence } of redriven) first.set(lane, Math.min(sequence, first.get(lane) ?? sequence));
  const writes = [...first].map(([lane, sequence]): AnyBulkWriteOperation<StoredDelivery> => {
    const filter = {
      lane,
      state: "waiting",
      sequence: { $gt: sequence },
      failed_at: { $exists: true },
    } as const;
    return { updateMany: { filter, update: MAKE_DUE } };
  });
  await deliveries.bulkWrite(writes, { session });
}

function createRedrive(connection: Connection, lanes: Lanes): DeliveryStore["redrive"] {
  const deliveries = connection.collection<StoredDelivery>("deliveries");

  /** Of each lane the highest sequence that was delivered or is being sent. */
  async function readPassed(ids: readonly string[], session: ClientSession): Promise<Map<string, number>> {
    const projection = { last_delivered: 1, lease_end: 1, claimed: 1 } as const;
    const found = await lanes.collection.find({ _id: { $in: [...ids] } }, { session, projection }).toArray();
    const now = connection.clock.now();
    const claimed = found.flatMap(({ lease_end: end = 0, claimed: id }) =>
      id === undefined || end <= now ? [] : [toKey(String(JSON.parse(id)))],
    );
    const passed = new Map(found.map(({ _id, last_delivered: last = 0 }) => [_id, last] as const));
    if (claimed.length === 0) return passed;
    const all = { _id: { $in: claimed } };
    const options = { session, projection: { lane: 1, sequence: 1 } } as const;
    for (const { lane, sequence } of await deliveries.find(all, options).toArray()) {
      passed.set(lane, Math.max(sequence, passed.get(lane) ?? 0));
    }
    return passed;
  }

  async function redrive(
    ids: ReadonlyMap<string, string>,
    types: ReadonlySet<string>,
    session: ClientSession,
  ): Promise<Map<string, RedriveResult>> {
    const all = { _id: { $in: [...ids.values()] } };
    const found = byId(await deliveries.find(all, { session }).toArray());
    const lanesOf = [...found.values()].map(({ lane }) => lane);
    const passed = await readPassed(lanesOf, session);
    const results = new Map<string, RedriveResult>();
    const waiting: StoredDelivery[] = [];
    for (const [id, key] of ids) {
      const delivery = found.get(key);
      const result = redriveOne(delivery, passed.get(delivery?.lane ?? "") ?? 0, types);
      results.set(id, result);
      if (delivery !== undefined && result === "redriven") waiting.push(delivery);
    }
    if (waiting.length > 0) {
      const redriven = { _id: { $in: waiting.map(({ _id }) => _id) } };
      await deliveries.updateMany(redriven, WAIT_AGAIN, { session });
      await hurry(deliveries, waiting, session);
      await lanes.settle(
        waiting.map(({ lane }) => lane),
        session,
      );
    }
    return results;
  }

  return (ids, { passable }) => {
    const keys = new Map(ids.map((id) => [id, toKey(id)]));
    const types = new Set(passable.map((type) => toKey(type)));
    return connection.inTransaction((session) => redrive(keys, types, session));
  };
}

function createDiscard(connection: Connection, lanes: Lanes): DeliveryStore["discard"] {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  return (id, reason) =>
    connection.inTransaction(async (session) => {
      const now = connection.clock.now();
      const given = {
        state: "discarded" as const,
        finished_at: now,
        spent_at: now,
        reason: JSON.stringify(reason),
      };
      const discarded = await deliveries.findOneAndUpdate(
        { _id: toKey(id), state: { $in: ["waiting", "parked"] } },
        { $set: given, $unset: { ...UNSET_WAITING } },
        { session, projection: { lane: 1 } },
      );
      if (discarded === null) return false;
      await lanes.settle([discarded.lane], session);
      return true;
    });
}

function createPurge(connection: Connection, lanes: Lanes): DeliveryStore["purge"] {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  const attempts = connection.collection<StoredAttempt>("attempts");
  const projection = { _id: 1, lane: 1 } as const;

  /** Lanes of which nothing is left go too. A delivery that is added meanwhile writes its lane as well. */
  async function removeEmpty(ids: readonly string[], session: ClientSession): Promise<void> {
    const left = await deliveries
      .aggregate<{ _id: string }>(
        [{ $match: { state: { $in: DELIVERY_STATES }, lane: { $in: ids } } }, { $group: { _id: "$lane" } }],
        { session },
      )
      .toArray();
    const kept = new Set(left.map(({ _id }) => _id));
    const empty = ids.filter((id) => !kept.has(id));
    if (empty.length > 0) await lanes.collection.deleteMany({ _id: { $in: empty } }, { session });
  }

  async function removeRecords(until: number, limit: number, session: ClientSession): Promise<number> {
    const options = { sort: { finished_at: 1 }, limit, projection, session } as const;
    const old = await deliveries.find({ finished_at: { $lte: until } }, options).toArray();
    if (old.length === 0) return 0;
    const ids = old.map(({ _id }) => _id);
    await attempts.deleteMany({ delivery: { $in: ids } }, { session });
    await deliveries.deleteMany({ _id: { $in: ids } }, { session });
    await removeEmpty([...new Set(old.map(({ lane }) => lane))], session);
    return old.length;
  }

  async function removePayloads(until: number, limit: number, session: ClientSession): Promise<number> {
    if (limit < 1) return 0;
    const options = { sort: { spent_at: 1 }, limit, projection, session } as const;
    const spent = await deliveries.find({ spent_at: { $lte: until } }, options).toArray();
    if (spent.length === 0) return 0;
    const ids = spent.map(({ _id }) => _id);
    await attempts.updateMany({ delivery: { $in: ids } }, { $unset: { answer: "" } }, { session });
    await deliveries.updateMany(
      { _id: { $in: ids } },
      { $unset: { payload: "", spent_at: "" } },
      { session },
    );
    return spent.length;
  }

  return async ({ payloads, records, limit }: PurgeLimits) => {
    if (limit < 1) return 0;
    return connection.inTransaction(async (session) => {
      const removed = await removeRecords(records, limit, session);
      return removed + (await removePayloads(payloads, limit - removed, session));
    });
  };
}

export function createUpkeep(
  connection: Connection,
  lanes: Lanes,
): Pick<DeliveryStore, "redrive" | "discard" | "purge"> {
  return {
    redrive: createRedrive(connection, lanes),
    discard: createDiscard(connection, lanes),
    purge: createPurge(connection, lanes),
  };
}
