/** Lanes: reads them, adds deliveries, and edits one as a whole for redriving, discarding, parking and repairing. */
import type { Found, Query } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import { AlreadyExists } from "../../core/errors.ts";
import { type Changes, PAGE, type Read, read, Records, type Transaction } from "../records.ts";
import type { LaneKey, NewDelivery } from "./delivery.ts";
import {
  DELIVERY,
  type Flight,
  type KnownReceiver,
  type Lane,
  laneKey,
  LANE,
  laneRef,
  newLane,
  PAYLOAD,
  type StoredDelivery,
  RECEIVER,
} from "./delivery-kinds.ts";
import { untouchedReceiver } from "./receiver-state.ts";

/** The deliveries of a lane in their order, whatever their state. */
export function laneQuery({ receiver, sub }: LaneKey): Omit<Query, "limit"> {
  return DELIVERY.where("lane", [receiver, sub]);
}

export class LaneAccess extends Records {
  delivery(id: string): Promise<Read<StoredDelivery> | undefined> {
    return this.find(DELIVERY.ref(id));
  }

  lane(lane: LaneKey): Promise<Read<Lane> | undefined> {
    return this.find(laneRef(lane));
  }

  receiver(receiver: string): Promise<Read<KnownReceiver> | undefined> {
    return this.find(RECEIVER.ref(receiver));
  }

  /** All receivers that ever had a delivery, ordered by name. */
  async receivers(): Promise<KnownReceiver[]> {
    const all = await this.all<KnownReceiver>("receiver");
    return all.toSorted((one, other) => (one.receiver < other.receiver ? -1 : 1));
  }

  deliveries(query: Omit<Query, "limit">, most?: number): Promise<Read<StoredDelivery>[]> {
    return this.list(query, most);
  }

  /** The first waiting delivery of a lane from a position on. Nearly all deliveries behind the head wait. */
  async firstWaiting(lane: LaneKey, from = 0): Promise<Read<StoredDelivery> | undefined> {
    const query = { ...laneQuery(lane), from };
    for (let page: Partial<Query> & Pick<Query, "limit"> = { limit: 2 }; ;) {
      const [found] = await this.store.list([{ ...query, ...page }]);
      const all = found?.records.map((record) => read<StoredDelivery>(record));
      const first = all?.find(({ value }) => value.state === "waiting");
      if (first !== undefined || found?.next === undefined) return first;
      page = { limit: PAGE, after: found.next };
    }
  }
}

/** Writes a delivery if it has changed. */
export function writeDelivery(changes: Changes, was: Read<StoredDelivery>, now: StoredDelivery): void {
  if (now !== was.value) changes.write(DELIVERY.record(now), was);
}

/** The delivery as the head of its lane, while no other delivery of the lane is in flight. */
export function asHead(stored: StoredDelivery): StoredDelivery {
  return { ...stored, isHead: true, lease: null, flight: null };
}

/** Returns positions among all deliveries, each later than the one before. */
export type Positions = () => number;

export function createPositions({ clock }: { readonly clock: Clock }): Positions {
  let last = 0;
  return () => (last = Math.max(last + 1, Math.floor(clock.now() * 1_000)));
}

const taken = (): Error => new AlreadyExists("a delivery with this id");

/**
 * Puts each delivery at the end of its lane. A lane says whether it is empty, so its deliveries are not read.
 * Finishing its last delivery writes the lane too, so one of two concurrent changes is retried.
 * @param now milliseconds since the epoch.
 * @throws AlreadyExists for a delivery with an id that is stored already, here or when the transaction is committed.
 */
export async function addDeliveries(
  tx: Transaction,
  deliveries: readonly NewDelivery[],
  { now, positions }: { readonly now: number; readonly positions: Positions },
): Promise<void> {
  if (deliveries.length === 0) return;
  if (new Set(deliveries.map(({ id }) => id)).size < deliveries.length) throw taken();
  const keys = new Map(deliveries.map((each) => [laneKey(each), each] as const));
  const names = [...new Set(deliveries.map(({ receiver }) => receiver))];
  const known = await tx.peekAll([
    ...[...keys.values()].map(laneRef),
    ...names.map((name) => RECEIVER.ref(name)),
  ]);
  const lanes = new Map(
    [...keys].map(([key, lane], index) => [key, (known[index] as Lane | undefined) ?? newLane(lane)]),
  );
  for (const [index, receiver] of names.entries()) {
    if (known[keys.size + index] === undefined) tx.put(RECEIVER.record({ receiver, ...untouchedReceiver }));
  }
  for (const { payload, ...delivery } of deliveries) {
    const lane = lanes.get(laneKey(delivery)) as Lane;
    const sequence = lane.lastSequence + 1;
    // The clocks of two processes may differ.
    const position = Math.max(positions(), lane.lastPosition + 1);
    const stored: StoredDelivery = {
      ...delivery,
      sequence,
      state: "waiting",
      attempts: 0,
      failures: 0,
      storedAt: now,
      nextAttemptAt: now,
      finishedAt: null,
      reason: null,
      position,
      hasPayload: true,
      attemptRecords: [],
      failedAt: null,
      isHead: lane.isEmpty,
      fence: 0,
      lease: null,
      flight: lane.isEmpty ? lane.flight : null,
    };
    tx.create(DELIVERY.record(stored), taken);
    tx.create(PAYLOAD.record({ id: delivery.id, payload }), taken);
    const next = { ...lane, lastSequence: sequence, lastPosition: position, isEmpty: false, flight: null };
    lanes.set(laneKey(delivery), next);
  }
  for (const lane of lanes.values()) tx.put(LANE.record(lane));
}

/** One lane with its deliveries while they are edited. */
export class LaneEdit {
  readonly lane: Lane;
  readonly #tx: Transaction;
  readonly #now: number;
  readonly #found = new Map<string, Found>();
  readonly #before = new Map<string, StoredDelivery>();
  readonly #deliveries = new Map<string, StoredDelivery>();
  readonly #flight: Flight | null;
  #lastDelivered: number;

  private constructor(tx: Transaction, lane: Lane, found: readonly Found[], now: number) {
    this.#tx = tx;
    this.lane = lane;
    this.#now = now;
    this.#lastDelivered = lane.lastDelivered;
    for (const record of found) {
      const delivery = read<StoredDelivery>(record).value;
      this.#found.set(delivery.id, record);
      this.#before.set(delivery.id, delivery);
      this.#deliveries.set(delivery.id, delivery);
    }
    const [head] = this.waiting();
    this.#flight = head === undefined ? lane.flight : flightOf(head);
  }

  /** The lane becomes a condition of the transaction, and so does each delivery that is changed. */
  static async open(tx: Transaction, access: LaneAccess, key: LaneKey): Promise<LaneEdit | undefined> {
    const lane = await tx.get(laneRef(key));
    // Read after the lane: a delivery that is added since then changes the lane.
    return lane && new LaneEdit(tx, lane, await access.found(laneQuery(key)), access.clock.now());
  }

  /** The delivery that may be arriving now. */
  get flight(): Flight | null {
    return this.#flight !== null && this.#flight.end > this.#now ? this.#flight : null;
  }

  /** The highest sequence that was delivered: everything before it is older. */
  get lastDelivered(): number {
    const delivered = [...this.#deliveries.values()].filter(({ state }) => state === "delivered");
    return Math.max(this.#lastDelivered, ...delivered.map(({ sequence }) => sequence));
  }

  get(id: string): StoredDelivery | undefined {
    return this.#deliveries.get(id);
  }

  change(id: string, parts: Partial<StoredDelivery>): void {
    const delivery = this.#deliveries.get(id) as StoredDelivery;
    // Kept in the lane, because the delivery's record will no longer show it.
    if (delivery.state === "delivered")
      this.#lastDelivered = Math.max(this.#lastDelivered, delivery.sequence);
    this.#deliveries.set(id, { ...delivery, ...parts });
  }

  /** The waiting deliveries in their order. */
  waiting(): StoredDelivery[] {
    return [...this.#deliveries.values()]
      .filter(({ state }) => state === "waiting")
      .toSorted((one, other) => one.sequence - other.sequence);
  }

  /** Makes the first waiting delivery the head, and puts all changes. @returns whether anything was wrong about the lane. */
  settle(): boolean {
    const [first, ...rest] = this.waiting();
    const flight = this.#flight;
    let isWrong = this.lane.isEmpty !== (first === undefined);
    if (first !== undefined) {
      const isInFlight = flight?.id === first.id;
      const head = isInFlight ? { ...first, isHead: true, flight: null } : { ...asHead(first), flight };
      isWrong ||= !first.isHead;
      if (JSON.stringify(head) !== JSON.stringify(first)) this.#deliveries.set(first.id, head);
    }
    for (const each of rest) {
      if (!each.isHead) continue;
      isWrong = true;
      // A delivery in flight keeps its lease, so that its result is recorded.
      this.#deliveries.set(each.id, { ...each, isHead: false, flight: null });
    }
    // The end of a flight looks for what follows, and would miss a delivery that waits since then: writing the head repeats it.
    const isJoined = rest.some(({ id }) => this.#before.get(id)?.state !== "waiting");
    for (const [id, found] of this.#found) {
      const now = this.#deliveries.get(id) as StoredDelivery;
      if (now === this.#before.get(id) && !(isJoined && id === first?.id)) continue;
      this.#tx.adopt(found);
      this.#tx.put(DELIVERY.record(now));
    }
    const lane: Lane = {
      ...this.lane,
      flight: first === undefined ? flight : null,
      isEmpty: first === undefined,
      lastDelivered: this.#lastDelivered,
    };
    if (JSON.stringify(lane) !== JSON.stringify(this.lane)) this.#tx.put(LANE.record(lane));
    return isWrong;
  }
}

/** The delivery in flight while this one is the head: itself, or the one that it waits for. */
function flightOf({ id, sequence, lease, flight }: StoredDelivery): Flight | null {
  return lease === null ? flight : { id, sequence, end: lease.end };
}
