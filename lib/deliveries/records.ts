/** Deliveries, lanes and receivers as records: what is kept of each, and where it is found. */
import type { Delivery, DeliveryAttempt, LaneKey, ReceiverState } from "../../adapters/deliveries.ts";
import type { IndexEntry, RecordData, Ref } from "../../adapters/record-store.ts";
import { json, keyPart } from "../records.ts";

/**
 * A delivery that is on its way: until `end` nothing else of its lane may go, and what became of it is recorded until
 * something else has been claimed.
 */
export interface Flight {
  readonly id: string;
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly end: number;
}

/** A delivery as it is kept, with its attempts. */
export interface KeptDelivery extends Delivery {
  /** Its place among all deliveries: microseconds since the epoch, more or less. */
  readonly position: number;
  readonly attemptRecords: readonly DeliveryAttempt[];
  /** Waiting only: when its last attempt failed. */
  readonly failedAt: number | null;
  /** Whether it is the first of its lane that waits. */
  readonly isHead: boolean;
  /** How often it was claimed. */
  readonly fence: number;
  /** Of its last claim, while no result of that has been recorded. */
  readonly lease: { readonly owner: string; readonly end: number } | null;
  /** A head only: another delivery of the lane that was claimed before this one became the head. */
  readonly flight: Flight | null;
}

/** What a lane remembers beside its deliveries. */
export interface Lane extends LaneKey {
  /** The highest sequence that was given out. */
  readonly lastSequence: number;
  /** The highest one that was delivered and has been purged; 0: none. */
  readonly lastDelivered: number;
  /** Of a lane in which nothing waits: what is on its way all the same, because it was given up meanwhile. */
  readonly flight: Flight | null;
}

/** A receiver to which something was ever to be sent. */
export interface KnownReceiver extends ReceiverState {
  readonly receiver: string;
}

export function laneKey({ receiver, sub }: LaneKey): string {
  return `${keyPart(receiver)}~${keyPart(sub)}`;
}

export const deliveryRef = (id: string): Ref => ({ kind: "delivery", key: keyPart(id) });
export const laneRef = (lane: LaneKey): Ref => ({ kind: "lane", key: laneKey(lane) });
export const receiverRef = (receiver: string): Ref => ({ kind: "receiver", key: keyPart(receiver) });

/** When a head may be claimed, in milliseconds since the epoch. */
export function dueAt({ lease, flight, nextAttemptAt }: KeptDelivery): number {
  return lease?.end ?? Math.max(flight?.end ?? 0, nextAttemptAt ?? 0);
}

/** Whether what is over still has its payload, and so is looked at twice before it is gone. */
export type PurgeStage = "payload" | "record";

function deliveryEntries(delivery: KeptDelivery): IndexEntry[] {
  const { receiver, sub, state, sequence, position, isHead, failedAt, finishedAt, payload } = delivery;
  const entries: IndexEntry[] = [
    { name: "state", at: `${state}~${keyPart(receiver)}`, order: position },
    { name: "lane", at: `${state}~${laneKey(delivery)}`, order: sequence },
    { name: "user", at: `${state}~${keyPart(sub)}`, order: position },
  ];
  if (isHead) {
    entries.push({ name: "due", at: keyPart(receiver), order: Math.floor(dueAt(delivery)) });
    if (failedAt !== null)
      entries.push({ name: "failed", at: keyPart(receiver), order: Math.floor(failedAt) });
  }
  if (finishedAt !== null) {
    const stage: PurgeStage = payload === null || state === "parked" ? "record" : "payload";
    entries.push({ name: "purge", at: stage, order: Math.floor(finishedAt) });
  }
  return entries;
}

export function deliveryRecord(delivery: KeptDelivery): RecordData {
  return { ...deliveryRef(delivery.id), value: json(delivery), index: deliveryEntries(delivery) };
}

export function laneRecord(lane: Lane): RecordData {
  return { ...laneRef(lane), value: json(lane) };
}

export function receiverRecord(receiver: KnownReceiver): RecordData {
  return { ...receiverRef(receiver.receiver), value: json(receiver) };
}

/** The delivery as others see it. */
export function toDelivery(kept: KeptDelivery): Delivery {
  const { id, receiver, sub, type, payload, at, sequence, state, attempts, failures } = kept;
  const { storedAt, nextAttemptAt, finishedAt, reason } = kept;
  return {
    id,
    receiver,
    sub,
    type,
    payload,
    at,
    sequence,
    state,
    attempts,
    failures,
    storedAt,
    nextAttemptAt,
    finishedAt,
    reason,
  };
}
