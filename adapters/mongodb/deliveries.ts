/** The deliveries part of the storage, and how deliveries are read. */
import type { Filter, ObjectId } from "mongodb";
import type { DeliveryPage, DeliveryStore, ReceiverCounts } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { createClaims } from "./delivery-claims.ts";
import { type StoredAttempt, type StoredDelivery, toAttempt, toDelivery } from "./delivery-documents.ts";
import { createDue } from "./delivery-due.ts";
import { createFinish } from "./delivery-finish.ts";
import { createLanes } from "./delivery-lanes.ts";
import { createMoves } from "./delivery-moves.ts";
import { createReceiverCalls, createReceivers } from "./delivery-receivers.ts";
import { createReconcile } from "./delivery-reconcile.ts";
import { createUpkeep } from "./delivery-upkeep.ts";
import { clearKey, toKey, toOptionalKey } from "./keys.ts";

/** How many deliveries of one receiver are in one state. */
interface StateCount {
  readonly _id: { readonly receiver: string; readonly state: "waiting" | "parked" };
  readonly n: number;
  readonly oldest: number;
}

const COUNTS = [
  { $match: { state: { $in: ["waiting", "parked"] } } },
  {
    $group: {
      _id: { receiver: "$receiver", state: "$state" },
      n: { $sum: 1 },
      oldest: { $min: "$stored_at" },
    },
  },
];

function toFilter(page: DeliveryPage, after: ObjectId | undefined): Filter<StoredDelivery> {
  const { state, first = "oldest" } = page;
  const keys = (["receiver", "sub", "type"] as const).map((name) => [name, toOptionalKey(page[name])]);
  return {
    ...(Object.fromEntries(keys.filter(([, key]) => key !== undefined)) as Record<string, string>),
    ...(state !== undefined && { state }),
    ...(after !== undefined && { order: first === "newest" ? { $lt: after } : { $gt: after } }),
  };
}

/** The index that has the page in its order, of the fewest deliveries that the filter lets be. */
function indexOf({ sub, receiver, state }: DeliveryPage): Readonly<Record<string, 1>> {
  if (sub !== undefined) return { sub: 1, order: 1 };
  if (receiver !== undefined && state !== undefined) return { state: 1, receiver: 1, order: 1, stored_at: 1 };
  if (receiver !== undefined) return { receiver: 1, order: 1 };
  return state === undefined ? { order: 1 } : { state: 1, order: 1 };
}

function createReading(connection: Connection): Pick<DeliveryStore, "find" | "list" | "attempts" | "counts"> {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  const attempts = connection.collection<StoredAttempt>("attempts");

  async function list(page: DeliveryPage): Promise<StoredDelivery[]> {
    const { after, limit, first = "oldest" } = page;
    const from = after === undefined ? null : await deliveries.findOne({ _id: toKey(after) });
    if (limit < 1 || (after !== undefined && from === null)) return [];
    const sort = { order: first === "newest" ? -1 : 1 } as const;
    return deliveries.find(toFilter(page, from?.order), { sort, limit, hint: indexOf(page) }).toArray();
  }

  /** The name of a receiver that is stored under a key. */
  async function nameOf({ receiver, state }: StateCount["_id"]): Promise<string> {
    const clear = clearKey(receiver);
    if (clear !== undefined) return clear;
    const one = await deliveries.findOne({ state, receiver });
    return one === null ? receiver : toDelivery(one).receiver;
  }

  async function count(): Promise<ReceiverCounts[]> {
    const found = await deliveries.aggregate<StateCount>(COUNTS).toArray();
    const counts = new Map<string, ReceiverCounts>();
    for (const { _id, n, oldest } of found) {
      const receiver = await nameOf(_id);
      const before = counts.get(receiver) ?? { receiver, waiting: 0, parked: 0, oldest: null };
      const more = _id.state === "waiting" ? { waiting: n, oldest } : { parked: n };
      counts.set(receiver, { ...before, ...more });
    }
    return [...counts.values()].toSorted((one, other) => (one.receiver < other.receiver ? -1 : 1));
  }

  return {
    find: (id) =>
      connection.run(async () => {
        const found = await deliveries.findOne({ _id: toKey(id) });
        return found === null ? undefined : toDelivery(found);
      }),
    list: (page) => connection.run(async () => (await list(page)).map((each) => toDelivery(each))),
    attempts: (id) =>
      connection.run(async () => {
        const found = attempts.find({ delivery: toKey(id) }, { sort: { number: 1 } });
        return (await found.toArray()).map((each) => toAttempt(each));
      }),
    counts: () => connection.run(count),
  };
}

/** The deliveries part of the storage. */
export function createDeliveryStore(connection: Connection): DeliveryStore {
  const lanes = createLanes(connection);
  const receivers = createReceivers(connection);
  return {
    ...createReading(connection),
    ...createDue(connection, lanes, receivers),
    ...createClaims(connection, lanes, receivers),
    ...createFinish(connection, lanes, receivers),
    ...createReceiverCalls(connection, receivers),
    ...createMoves(connection, lanes, receivers),
    ...createUpkeep(connection, lanes),
    reconcile: createReconcile(connection, lanes),
  };
}
