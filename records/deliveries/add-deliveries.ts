/** Adds deliveries, in the transaction of the change that causes them. */
import type { Clock } from "../../core/clock.ts";
import { AlreadyExists } from "../../core/errors.ts";
import type { Transaction } from "../records.ts";
import type { NewDelivery } from "./delivery.ts";
import { untouchedReceiver } from "./delivery.ts";
import {
  deliveryRecord,
  deliveryRef,
  type Lane,
  laneKey,
  laneRecord,
  laneRef,
  receiverRecord,
  receiverRef,
  type StoredDelivery,
} from "./delivery-kinds.ts";
import { laneQuery } from "./lane-access.ts";

/** Returns positions among all deliveries, each later than the one before. */
export type Positions = () => number;

export function createPositions({ clock }: { readonly clock: Clock }): Positions {
  let last = 0;
  return () => (last = Math.max(last + 1, Math.floor(clock.now() * 1_000)));
}

const taken = (): Error => new AlreadyExists("a delivery with this id");

/** A lane to which deliveries are being added. */
interface OpenLane {
  lane: Lane;
  /** The waiting head; `undefined`: the first delivery that is added becomes the head. */
  readonly head: StoredDelivery | undefined;
  isEmpty: boolean;
}

/**
 * Puts each delivery at the end of its lane. It writes the lane and expects its head unchanged, so that of two writers
 * that add, or of one that adds and one that finishes the head, one decides again.
 * @param now milliseconds since the epoch.
 * @throws AlreadyExists for a delivery with an id that is stored already, here or when the transaction is committed.
 */
export async function addDeliveries(
  tx: Transaction,
  deliveries: readonly NewDelivery[],
  { now, positions }: { readonly now: number; readonly positions: Positions },
): Promise<void> {
  if (deliveries.length === 0) return;
  const ids = new Set(deliveries.map(({ id }) => id));
  if (ids.size < deliveries.length) throw taken();

  const keys = new Map(deliveries.map((each) => [laneKey(each), each] as const));
  const names = [...new Set(deliveries.map(({ receiver }) => receiver))];
  const known = await tx.peekAll([...[...keys.values()].map(laneRef), ...names.map(receiverRef)]);
  // Read after the lanes: a delivery that is added in between has changed its lane.
  const waiting = await tx.list<StoredDelivery>([...keys.values()].map((lane) => laneQuery(lane, "waiting")));
  const lanes = new Map<string, OpenLane>(
    [...keys].map(([key, { receiver, sub }], index) => {
      const fresh: Lane = { receiver, sub, lastSequence: 0, lastDelivered: 0, flight: null };
      const head = waiting[index]?.[0];
      return [key, { lane: (known[index] as Lane | undefined) ?? fresh, head, isEmpty: head === undefined }];
    }),
  );
  for (const { head } of lanes.values()) {
    if (head === undefined) continue;
    if (ids.has(head.id)) throw taken();
    await tx.get(deliveryRef(head.id));
  }

  for (const [index, receiver] of names.entries()) {
    if (known[keys.size + index] === undefined) tx.put(receiverRecord({ receiver, ...untouchedReceiver }));
  }
  for (const delivery of deliveries) {
    const open = lanes.get(laneKey(delivery)) as OpenLane;
    const { lane, isEmpty } = open;
    const sequence = lane.lastSequence + 1;
    tx.create(
      deliveryRecord({
        ...delivery,
        sequence,
        state: "waiting",
        attempts: 0,
        failures: 0,
        storedAt: now,
        nextAttemptAt: now,
        finishedAt: null,
        reason: null,
        position: positions(),
        attemptRecords: [],
        failedAt: null,
        isHead: isEmpty,
        fence: 0,
        lease: null,
        flight: isEmpty ? lane.flight : null,
      }),
      taken,
    );
    open.lane = { ...lane, lastSequence: sequence, flight: isEmpty ? null : lane.flight };
    open.isEmpty = false;
  }
  for (const { lane } of lanes.values()) tx.put(laneRecord(lane));
}
