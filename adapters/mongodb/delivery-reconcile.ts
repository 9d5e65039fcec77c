/** Lanes are worked out from their deliveries again, a page at a time, and put right where they differ. */
import type { ClientSession, Collection, Document, Filter } from "mongodb";
import type { DeliveryStore, LaneKey } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { byId, DELIVERY_STATES, type StoredDelivery } from "./delivery-documents.ts";
import { type Head, laneId, laneJson, type Lanes, type StoredLane } from "./delivery-lanes.ts";

/** What the deliveries of a lane say of it. */
export interface Numbers {
  readonly _id: string;
  readonly last: number;
  readonly delivered: number;
}

type Waiting = Head & Pick<StoredDelivery, "json">;

const HEAD_FIELDS = { lane: 1, receiver: 1, next_attempt_at: 1, failed_at: 1, json: 1 } as const;

/** Whether a lane does not say what its deliveries say. */
function isWrong(lane: StoredLane | undefined, head: Head, last: number): boolean {
  return (
    lane === undefined ||
    lane.due?.at !== (lane.lease_end ?? head.next_attempt_at) ||
    lane.due?.receiver !== head.receiver ||
    lane.failed?.at !== head.failed_at ||
    lane.last_sequence < last
  );
}

function laneOf({ json }: Pick<StoredDelivery, "json">): LaneKey {
  const { receiver, sub } = JSON.parse(json) as LaneKey;
  return { receiver, sub };
}

/** One that is at least this. */
function atLeast(field: string, value = 0): Document {
  return { $max: [{ $ifNull: [`$${field}`, 0] }, value] };
}

/** The heads of the next lanes in which something waits. */
async function readHeads(
  deliveries: Collection<StoredDelivery>,
  after: string | undefined,
  limit: number,
): Promise<Waiting[]> {
  const heads = new Map<string, Waiting>();
  for (let place = after; heads.size < limit;) {
    const filter: Filter<StoredDelivery> = {
      state: "waiting",
      ...(place !== undefined && { lane: { $gt: place } }),
    };
    // Most lanes have one delivery that waits; what others have more is passed over.
    const size = limit - heads.size + 1;
    const options = { sort: { lane: 1, sequence: 1 }, limit: size, projection: HEAD_FIELDS } as const;
    const found = await deliveries.find(filter, options).toArray();
    for (const head of found) if (!heads.has(head.lane)) heads.set(head.lane, head);
    if (found.length < size) break;
    place = found.at(-1)?.lane;
  }
  return [...heads.values()].slice(0, limit);
}

/** The highest sequences, of all deliveries and of those that were delivered. */
export async function readNumbers(
  deliveries: Collection<StoredDelivery>,
  ids: readonly string[],
  session?: ClientSession,
): Promise<ReadonlyMap<string, Numbers>> {
  const isDelivered = { $eq: ["$state", "delivered"] };
  const group = {
    _id: "$lane",
    last: { $max: "$sequence" },
    delivered: { $max: { $cond: [isDelivered, "$sequence", 0] } },
  };
  const pipeline = [{ $match: { state: { $in: DELIVERY_STATES }, lane: { $in: ids } } }, { $group: group }];
  return byId(await deliveries.aggregate<Numbers>(pipeline, session && { session }).toArray());
}

/**
 * Makes what works lanes out from their deliveries, in the caller's transaction. What the deliveries don't know, such as
 * who is at it, stays.
 */
export function createLaneRepair(
  connection: Connection,
  lanes: Lanes,
): (wrong: readonly Pick<StoredDelivery, "lane" | "json">[], session: ClientSession) => Promise<void> {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  return async (wrong, session) => {
    const ids = wrong.map(({ lane }) => lane);
    const numbers = await readNumbers(deliveries, ids, session);
    const writes = wrong.map((one) => {
      const update = {
        json: { $ifNull: ["$json", { $literal: laneJson(laneOf(one)) }] },
        version: { $add: [{ $ifNull: ["$version", 0] }, 1] },
        last_sequence: atLeast("last_sequence", numbers.get(one.lane)?.last),
        last_delivered: atLeast("last_delivered", numbers.get(one.lane)?.delivered),
      };
      return { updateOne: { filter: { _id: one.lane }, update: [{ $set: update }], upsert: true } };
    });
    await lanes.collection.bulkWrite(writes, { session });
    await lanes.settle(ids, session);
  };
}

export function createReconcile(connection: Connection, lanes: Lanes): DeliveryStore["reconcile"] {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  const repair = createLaneRepair(connection, lanes);

  async function findWrong(heads: readonly Waiting[], session?: ClientSession): Promise<Waiting[]> {
    const ids = heads.map(({ lane }) => lane);
    const all = { _id: { $in: ids } };
    const stored = byId(await lanes.collection.find(all, session && { session }).toArray());
    const numbers = await readNumbers(deliveries, ids, session);
    return heads.filter((head) => isWrong(stored.get(head.lane), head, numbers.get(head.lane)?.last ?? 0));
  }

  /** Looked at again in one moment: what seemed wrong may have been somebody's change. */
  function repairAll(suspects: readonly Waiting[]): Promise<number> {
    return connection.inTransaction(async (session) => {
      const heads: Waiting[] = [];
      for (const { lane } of suspects) {
        const head = await lanes.head(lane, session);
        if (head !== undefined) heads.push(head);
      }
      const wrong = await findWrong(heads, session);
      if (wrong.length > 0) await repair(wrong, session);
      return wrong.length;
    });
  }

  return async ({ after, limit }) => {
    if (limit < 1) return { repaired: 0 };
    const heads = await connection.run(() => readHeads(deliveries, after && laneId(after), limit));
    const last = heads.length < limit ? undefined : heads.at(-1);
    const next = last && { after: laneOf(last) };
    const suspects = await connection.run(() => findWrong(heads));
    const repaired = suspects.length === 0 ? 0 : await repairAll(suspects);
    return { repaired, ...next };
  };
}
