/** Edits a lane as a whole: for redriving, discarding, parking and repairing. */
import type { LaneKey } from "./delivery.ts";
import { asHead } from "./claims.ts";
import { type LaneAccess, writeDelivery } from "./lane-access.ts";
import { type Flight, type StoredDelivery, type Lane, laneRecord } from "./delivery-kinds.ts";
import type { Changes, Read } from "../records.ts";

/** One lane with its waiting deliveries while they are edited. */
export class LaneEdit {
  readonly #was: Read<Lane>;
  readonly #read = new Map<string, Read<StoredDelivery>>();
  readonly #now = new Map<string, StoredDelivery>();
  readonly #clock: LaneAccess["clock"];
  readonly #flight: Flight | null;
  #lastDelivered: number;

  private constructor(access: LaneAccess, lane: Read<Lane>, waiting: readonly Read<StoredDelivery>[]) {
    this.#was = lane;
    this.#lastDelivered = lane.value.lastDelivered;
    this.#clock = access.clock;
    for (const each of waiting) this.include(each);
    const [head] = waiting;
    this.#flight = head === undefined ? lane.value.flight : flightOf(head.value);
  }

  static async open(access: LaneAccess, key: LaneKey): Promise<LaneEdit | undefined> {
    const lane = await access.lane(key);
    // Read after the lane: a delivery that is added since then changes the lane.
    return lane && new LaneEdit(access, lane, await access.waiting(key, Number.MAX_SAFE_INTEGER));
  }

  get lane(): Lane {
    return this.#was.value;
  }

  /** The delivery that may be arriving now. */
  get flight(): Flight | null {
    return this.#flight !== null && this.#flight.end > this.#clock.now() ? this.#flight : null;
  }

  /** Remembers a delivered delivery whose record will no longer say so. */
  rememberDelivered(sequence: number): void {
    this.#lastDelivered = Math.max(this.#lastDelivered, sequence);
  }

  /** Adds a delivery of the lane that does not wait. */
  include(delivery: Read<StoredDelivery>): void {
    this.#read.set(delivery.value.id, delivery);
    this.#now.set(delivery.value.id, delivery.value);
  }

  change(id: string, parts: Partial<StoredDelivery>): void {
    this.#now.set(id, { ...(this.#now.get(id) as StoredDelivery), ...parts });
  }

  /** The waiting deliveries in their order. */
  waiting(): StoredDelivery[] {
    return [...this.#now.values()]
      .filter(({ state }) => state === "waiting")
      .toSorted((one, other) => one.sequence - other.sequence);
  }

  /** Makes the first waiting delivery the head, and writes all changes. @returns how many heads were wrong. */
  settle(changes: Changes): number {
    const [first, ...rest] = this.waiting();
    const flight = this.#flight;
    let wrong = 0;
    if (first !== undefined) {
      const isInFlight = flight?.id === first.id;
      const head = isInFlight ? { ...first, isHead: true, flight: null } : { ...asHead(first), flight };
      if (!first.isHead) wrong += 1;
      if (JSON.stringify(head) !== JSON.stringify(first)) this.#now.set(first.id, head);
    }
    for (const each of rest) {
      if (!each.isHead) continue;
      wrong += 1;
      // A delivery in flight keeps its lease, so that its result is recorded.
      this.#now.set(each.id, { ...each, isHead: false, flight: null });
    }
    for (const [id, was] of this.#read) writeDelivery(changes, was, this.#now.get(id) as StoredDelivery);
    const stored = first === undefined ? flight : null;
    const lane: Lane = { ...this.lane, flight: stored, lastDelivered: this.#lastDelivered };
    const record = laneRecord(lane);
    if (JSON.stringify(lane) === JSON.stringify(this.lane)) changes.expect(record, this.#was);
    else changes.write(record, this.#was);
    return wrong;
  }
}

/** The delivery in flight while this one is the head: itself, or the one that it waits for. */
function flightOf({ id, sequence, lease, flight }: StoredDelivery): Flight | null {
  return lease === null ? flight : { id, sequence, end: lease.end };
}
