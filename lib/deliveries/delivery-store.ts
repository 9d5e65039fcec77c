/** The deliveries of a service, over the record store: how they are found, and all calls together. */
import type {
  DeliveryFilter,
  DeliveryPage,
  DeliveryState,
  DeliveryStore,
  ReceiverCounts,
} from "./delivery.ts";
import type { Query } from "../../adapters/record-store.ts";
import { createClaims } from "./claims.ts";
import { type LaneAccess } from "./lane-access.ts";
import { type KeptDelivery, type KnownReceiver, LANE, RECEIVER, toDelivery } from "./records.ts";
import { createByHand, createReceivers, createUpkeep } from "./upkeep.ts";
import { keyPart, PAGE, type Read, read } from "../records.ts";

/**
 * The kinds that change when there may be more to send: a lane is written by whoever adds to it, a receiver by whoever
 * resumes it. What workers write while they deliver wakes nobody.
 */
export const WATCHED_DELIVERY_KINDS: readonly string[] = [LANE.name, RECEIVER.name];

const STATES: readonly DeliveryState[] = ["waiting", "delivered", "parked", "discarded"];

/** Where deliveries are found that a filter asks for, each place in the order of their positions. */
async function places(access: LaneAccess, filter: DeliveryFilter): Promise<Omit<Query, "limit">[]> {
  const { receiver, sub, state } = filter;
  const states = state === undefined ? STATES : [state];
  const at = (index: string, name: string): Omit<Query, "limit">[] =>
    states.map((one) => ({ kind: "delivery", index, at: `${one}~${keyPart(name)}` }));
  if (sub !== undefined) return at("user", sub);
  const receivers = receiver === undefined ? await access.receivers() : [{ receiver }];
  return receivers.flatMap((each) => at("state", each.receiver));
}

function fits(filter: DeliveryFilter, delivery: KeptDelivery): boolean {
  return (["receiver", "sub", "type", "state"] as const).every(
    (name) => filter[name] === undefined || filter[name] === delivery[name],
  );
}

async function list(access: LaneAccess, page: DeliveryPage): Promise<KeptDelivery[]> {
  const { first = "oldest", after, limit, ...filter } = page;
  const descending = first === "newest";
  let from: number | undefined;
  if (after !== undefined) {
    const last = await access.delivery(after);
    if (last === undefined) return [];
    from = last.value.position;
  }
  const bounds = from === undefined ? {} : descending ? { to: from - 1 } : { from: from + 1 };
  const found = await Promise.all(
    (await places(access, filter)).map((query) =>
      matching(access, { ...query, ...bounds, descending }, filter, limit),
    ),
  );
  const direction = descending ? -1 : 1;
  return found
    .flat()
    .toSorted((one, other) => (one.position - other.position) * direction)
    .slice(0, Math.max(0, limit));
}

/** The first of a place that fit: those that don't are passed over. */
async function matching(
  access: LaneAccess,
  query: Omit<Query, "limit">,
  filter: DeliveryFilter,
  limit: number,
): Promise<KeptDelivery[]> {
  const found: KeptDelivery[] = [];
  for (let after: string | undefined; found.length < limit;) {
    const [page] = await access.store.list([
      { ...query, limit: Math.min(PAGE, Math.max(1, limit)), ...(after === undefined ? {} : { after }) },
    ]);
    const records = page?.records.map((record) => read<KeptDelivery>(record).value) ?? [];
    found.push(...records.filter((delivery) => fits(filter, delivery)));
    if (page?.next === undefined) break;
    after = page.next;
  }
  return found.slice(0, limit);
}

/** What each receiver has in one state. */
function byReceiver(receivers: readonly KnownReceiver[], state: DeliveryState): Query[] {
  return receivers.map(({ receiver }) => ({
    kind: "delivery",
    index: "state",
    at: `${state}~${keyPart(receiver)}`,
    limit: 1,
  }));
}

async function counts(access: LaneAccess): Promise<ReceiverCounts[]> {
  const receivers = await access.receivers();
  const [waiting, parked, oldest] = await Promise.all([
    access.store.count(byReceiver(receivers, "waiting")),
    access.store.count(byReceiver(receivers, "parked")),
    access.store.list(byReceiver(receivers, "waiting")),
  ]);
  return receivers
    .map(({ receiver }, index) => {
      const [first] = oldest[index]?.records ?? [];
      return {
        receiver,
        waiting: waiting[index] ?? 0,
        parked: parked[index] ?? 0,
        oldest: first === undefined ? null : (first as unknown as Read<KeptDelivery>).value.storedAt,
      };
    })
    .filter((each) => each.waiting > 0 || each.parked > 0);
}

/** The deliveries part of the storage. */
export function createDeliveryStore(access: LaneAccess): DeliveryStore {
  return {
    async find(id) {
      const found = await access.delivery(id);
      return found && toDelivery(found.value);
    },
    list: async (page) => (await list(access, page)).map(toDelivery),
    attempts: async (id) => [...((await access.delivery(id))?.value.attemptRecords ?? [])],
    counts: () => counts(access),
    watch: (onChange) => access.store.watch?.(WATCHED_DELIVERY_KINDS, onChange) ?? (() => undefined),
    ...createClaims(access),
    ...createByHand(access),
    ...createReceivers(access),
    ...createUpkeep(access),
  };
}
