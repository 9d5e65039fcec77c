/** The delivery store on the record store: lists and counts, and all other calls together. */
import {
  type Delivery,
  type DeliveryFilter,
  type DeliveryList,
  type DeliveryPage,
  type DeliveryStore,
  MOST_COUNTED,
  type ReceiverCounts,
  type SpanCounts,
} from "./delivery.ts";
import type { Query } from "../../adapters/record-store.ts";
import { createClaims } from "./claims.ts";
import { addDeliveries, type LaneAccess, laneQuery, type Positions } from "./lanes.ts";
import {
  DELIVERY,
  type StoredDelivery,
  PAYLOAD,
  RECEIVER,
  type StoredPayload,
  toDelivery,
} from "./delivery-kinds.ts";
import { createByHand, createReceivers, createUpkeep } from "./upkeep.ts";
import { PAGE, read } from "../records.ts";

/**
 * Changes to these kinds mean that there may be more to send: adding a delivery writes its payload, and resuming a
 * receiver writes the receiver. Sending a delivery changes neither, so workers don't wake each other.
 */
export const WATCHED_DELIVERY_KINDS: readonly string[] = [PAYLOAD.name, RECEIVER.name];

/** Deliveries that one page looks at, approximately, before it leaves the rest to the next page. */
const MAX_READ = 1_000;
/** How many deliveries of each index entry are read at a time once the first ones did not match. */
const STEP = 200;

/** Up to this many waiting deliveries are all read and sorted, because their index is not in the order of positions. */
const FEW = PAGE;
/** Waiting deliveries of one receiver that `counts` looks at. */
const MAX_OLDEST = 100;

/** The index entries in which a filter's deliveries are found, each in the order of positions. */
async function entriesFor(access: LaneAccess, filter: DeliveryFilter): Promise<Omit<Query, "limit">[]> {
  const { receiver, sub, state } = filter;
  const receivers = receiver === undefined ? await access.receivers() : [{ receiver }];
  if (sub !== undefined) return receivers.map((each) => laneQuery({ receiver: each.receiver, sub }));
  const index = state === "parked" ? "parked" : "receiver";
  return receivers.map((each) => DELIVERY.where(index, each.receiver));
}

/** All waiting deliveries that a filter looks at, in the order of positions; `undefined` if they are many. */
async function fewWaiting(
  access: LaneAccess,
  { receiver, sub, state }: DeliveryFilter,
): Promise<StoredDelivery[] | undefined> {
  if (state !== "waiting" || sub !== undefined) return undefined;
  const receivers = receiver === undefined ? await access.receivers() : [{ receiver }];
  const found: StoredDelivery[] = [];
  for (const each of receivers) {
    const waiting = await access.deliveries(DELIVERY.where("waiting", each.receiver), FEW + 1 - found.length);
    found.push(...waiting.map(({ value }) => value));
    if (found.length > FEW) return undefined;
  }
  return found.toSorted((one, other) => one.position - other.position);
}

function fits(filter: DeliveryFilter, delivery: StoredDelivery): boolean {
  return (["receiver", "sub", "type", "state"] as const).every(
    (name) => filter[name] === undefined || filter[name] === delivery[name],
  );
}

/** One read of all index entries, merged. */
interface ReadPage {
  /** In the order of positions, whether they match or not; complete up to the last of them. */
  readonly inOrder: readonly StoredDelivery[];
  readonly isEnd: boolean;
  /** How many were read. */
  readonly count: number;
}

async function readEntries(
  access: LaneAccess,
  queries: readonly Query[],
  direction: 1 | -1,
): Promise<ReadPage> {
  const pages = await access.store.list(queries);
  const all = pages.map(({ records }) => records.map((record) => read<StoredDelivery>(record).value));
  // If an entry has more, deliveries beyond what was read of it would come too early.
  const ends = all.flatMap((records, index) => {
    const last = records.at(-1);
    return last === undefined || pages[index]?.next === undefined ? [] : [last.position * direction];
  });
  const end = Math.min(...ends);
  const found = all.flat();
  const inOrder = found
    .filter(({ position }) => position * direction <= end)
    .toSorted((one, other) => (one.position - other.position) * direction);
  return { inOrder, isEnd: ends.length === 0, count: found.length };
}

/** The matching deliveries after a position, and the last one that was read if there may be more. */
async function search(
  access: LaneAccess,
  { first, limit, ...filter }: Omit<DeliveryPage, "after">,
  position: number | undefined,
): Promise<{ readonly found: readonly StoredDelivery[]; readonly last?: StoredDelivery | undefined }> {
  const descending = first === "newest";
  const direction = descending ? -1 : 1;
  const few = await fewWaiting(access, filter);
  if (few !== undefined) {
    const start = position ?? -Infinity * direction;
    const all = (descending ? few.toReversed() : few).filter(
      (delivery) => (delivery.position - start) * direction > 0 && fits(filter, delivery),
    );
    const last = all[limit - 1];
    return { found: all.slice(0, limit), last: all.length > limit ? last : undefined };
  }
  const where = await entriesFor(access, filter);
  const found: StoredDelivery[] = [];
  let last: StoredDelivery | undefined;
  for (let looked = 0; looked < MAX_READ;) {
    const behind = last?.position ?? position;
    const bounds = behind === undefined ? {} : { [descending ? "to" : "from"]: behind + direction };
    // If the first ones did not match, matches may be rare.
    const most = Math.min(PAGE, looked === 0 ? limit + 1 : Math.max(limit + 1, STEP));
    const how = { ...bounds, descending, limit: most };
    const queries = where.map((each) => Object.assign({}, each, how));
    const { inOrder, isEnd, count } = await readEntries(access, queries, direction);
    for (const delivery of inOrder) {
      if (found.length === limit) return { found, last };
      if (fits(filter, delivery)) found.push(delivery);
      last = delivery;
    }
    if (isEnd) return { found };
    looked += count;
  }
  return { found, last };
}

/** The position after which a page begins; `null` after an unknown delivery. */
async function positionOf(access: LaneAccess, after: string | undefined): Promise<number | undefined | null> {
  if (after === undefined) return undefined;
  return (await access.delivery(after))?.value.position ?? null;
}

async function page(access: LaneAccess, { after, ...filter }: DeliveryPage): Promise<DeliveryList> {
  const position = await positionOf(access, after);
  if (position === null) return { deliveries: [] };
  const { found, last } = await search(access, filter, position);
  return { deliveries: found.map(toDelivery), ...(last !== undefined && { next: last.id }) };
}

/** As many deliveries as requested, however many must be skipped. */
async function list(access: LaneAccess, { after, ...filter }: DeliveryPage): Promise<Delivery[]> {
  const deliveries: Delivery[] = [];
  let position = await positionOf(access, after);
  if (position === null) return [];
  while (deliveries.length < filter.limit) {
    const limit = Math.min(PAGE, filter.limit - deliveries.length);
    const { found, last } = await search(access, { ...filter, limit }, position);
    deliveries.push(...found.map(toDelivery));
    if (last === undefined) break;
    ({ position } = last);
  }
  return deliveries;
}

async function counts(access: LaneAccess): Promise<ReceiverCounts[]> {
  const receivers = await access.receivers();
  const queries = (index: "waiting" | "parked" | "failed", limit: number): Query[] =>
    receivers.map(({ receiver }) => ({ ...DELIVERY.where(index, receiver), limit }));
  const [waiting, parked, next, failed] = await Promise.all([
    access.store.count(queries("waiting", MOST_COUNTED)),
    access.store.count(queries("parked", MOST_COUNTED)),
    access.store.list(queries("waiting", MAX_OLDEST)),
    access.store.list(queries("failed", 1)),
  ]);
  return receivers
    .map(({ receiver }, index) => {
      const found = [...(next[index]?.records ?? []), ...(failed[index]?.records ?? [])];
      const oldest = Math.min(...found.map((record) => read<StoredDelivery>(record).value.storedAt));
      return {
        receiver,
        waiting: waiting[index] ?? 0,
        parked: parked[index] ?? 0,
        oldest: Number.isFinite(oldest) ? oldest : null,
      };
    })
    .filter((each) => each.waiting > 0 || each.parked > 0);
}

/** Counts entries of indexes. Positions are microseconds. */
async function recent(
  access: LaneAccess,
  { number, lengthMs }: Parameters<DeliveryStore["recent"]>[0],
): Promise<SpanCounts[]> {
  const receivers = await access.receivers();
  const end = Math.floor(access.clock.now());
  const spans = Array.from({ length: number }, (_, index) => end - (number - index) * lengthMs);
  const queries = (index: "receiver" | "parked") =>
    spans.flatMap((from) =>
      receivers.map(({ receiver }) => ({
        ...DELIVERY.where(index, receiver),
        from: from * 1_000,
        to: (from + lengthMs) * 1_000 - 1,
        limit: MOST_COUNTED,
      })),
    );
  const [stored, parked] = await Promise.all([
    access.store.count(queries("receiver")),
    access.store.count(queries("parked")),
  ]);
  const sum = (found: readonly number[], span: number): number =>
    found
      .slice(span * receivers.length, (span + 1) * receivers.length)
      .reduce((all, count) => all + count, 0);
  return spans.map((from, span) => ({ from, stored: sum(stored, span), parked: sum(parked, span) }));
}

/** Two reads of one record each. */
async function oldestDeletions({
  store,
}: LaneAccess): Promise<Record<"waiting" | "parked", number | undefined>> {
  const pages = await store.list(
    ["waiting", "parked"].map((state) => Object.assign(DELIVERY.where("deletion", state), { limit: 1 })),
  );
  const [waiting, parked] = pages.map(({ records: [first] }) => first && read<StoredDelivery>(first));
  return { waiting: waiting?.value.storedAt, parked: parked?.value.storedAt };
}

/** The deliveries part of the storage. */
export function createDeliveryStore(access: LaneAccess, positions: Positions): DeliveryStore {
  return {
    add: (tx, deliveries) => addDeliveries(tx, deliveries, { now: access.clock.now(), positions }),
    async find(id) {
      const [found, payload] = await access.get<[StoredDelivery, StoredPayload]>([
        DELIVERY.ref(id),
        PAYLOAD.ref(id),
      ]);
      return found && { ...toDelivery(found.value), payload: payload?.value.payload ?? null };
    },
    page: (options) => page(access, options),
    list: (options) => list(access, options),
    attempts: async (id) => [...((await access.delivery(id))?.value.attemptRecords ?? [])],
    counts: () => counts(access),
    async countWaiting(receiver, most) {
      const [count = 0] = await access.store.count([{ ...DELIVERY.where("waiting", receiver), limit: most }]);
      return count;
    },
    async countParked(most) {
      const receivers = await access.receivers();
      const parked = await access.store.count(
        receivers.map(({ receiver }) => Object.assign(DELIVERY.where("parked", receiver), { limit: most })),
      );
      return parked.reduce((sum, count) => sum + count, 0);
    },
    recent: (spans) => recent(access, spans),
    oldestDeletions: () => oldestDeletions(access),
    watch: (onChange) => access.store.watch?.(WATCHED_DELIVERY_KINDS, onChange) ?? (() => undefined),
    ...createClaims(access),
    ...createByHand(access),
    ...createReceivers(access),
    ...createUpkeep(access),
  };
}
