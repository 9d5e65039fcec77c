/** The records of deliveries, lanes and receivers, and their indexes. */
import type { Delivery, DeliveryAttempt, LaneKey, ReceiverState } from "./delivery.ts";
import type { RecordData, Ref } from "../../adapters/record-store.ts";
import { defineKind, type Kind, type IndexPosition } from "../kinds.ts";

/**
 * A delivery in flight. Until `end` no other delivery of its lane may be sent. Its result is recorded until another one
 * is claimed.
 */
export interface Flight {
  readonly id: string;
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly end: number;
}

/** A stored delivery with its attempts. */
export interface StoredDelivery extends Delivery {
  /** Its position among all deliveries: approximately microseconds since the epoch. */
  readonly position: number;
  readonly attemptRecords: readonly DeliveryAttempt[];
  /** Waiting only: when the last attempt failed. */
  readonly failedAt: number | null;
  /** Whether it is the first waiting delivery of its lane. */
  readonly isHead: boolean;
  /** How often it was claimed. */
  readonly fence: number;
  /** The lease of the last claim until its result is recorded. */
  readonly lease: { readonly owner: string; readonly end: number } | null;
  /** Heads only: another delivery of the lane that was claimed before this one became the head. */
  readonly flight: Flight | null;
}

/** What a lane remembers besides its deliveries. */
export interface Lane extends LaneKey {
  /** The highest sequence so far. */
  readonly lastSequence: number;
  /** The highest sequence that was delivered and then purged; 0: none. */
  readonly lastDelivered: number;
  /** Only if nothing waits: a delivery that is still in flight although it was given up in the meantime. */
  readonly flight: Flight | null;
}

/** A receiver that ever had a delivery. */
export interface KnownReceiver extends ReceiverState {
  readonly receiver: string;
}

/** What the payload of a delivery is sealed for. */
export const deliveryContext = (id: string): string => `delivery ${id}`;
/** What the response of a receiver is sealed for. */
export const answerContext = (id: string): string => `answer ${id}`;

/** When a head may be claimed, in milliseconds since the epoch. */
export function dueAt({ lease, flight, nextAttemptAt }: StoredDelivery): number {
  return lease?.end ?? Math.max(flight?.end ?? 0, nextAttemptAt ?? 0);
}

/** The part of a finished delivery that is purged next: first its payload, later its record. */
export type PurgeStage = "payload" | "record";

function purgePositions({ finishedAt, payload, state }: StoredDelivery): IndexPosition[] {
  if (finishedAt === null) return [];
  const stage: PurgeStage = payload === null || state === "parked" ? "record" : "payload";
  return [{ at: stage, order: Math.floor(finishedAt) }];
}

type DeliveryIndex =
  | "open"
  | "deletion"
  | "receiver"
  | "user"
  | "lane"
  | "waiting"
  | "due"
  | "failed"
  | "purge";

/**
 * A delivery keeps its entries in `receiver`, `user` and `lane` for as long as it is stored, so that no list misses it
 * while its state changes.
 */
export const DELIVERY: Kind<StoredDelivery, DeliveryIndex> = defineKind({
  name: "delivery",
  holds: "a notification for one receiver, with its attempts",
  key: "its id",
  keyOf: ({ id }) => id,
  index: {
    open: ({ state, receiver, position }) =>
      state === "waiting" || state === "parked" ? [{ at: [state, receiver], order: position }] : [],
    deletion: ({ state, type, position }) =>
      type === "DELETE_ACCOUNT" && (state === "waiting" || state === "parked")
        ? [{ at: state, order: position }]
        : [],
    receiver: ({ receiver, position }) => [{ at: receiver, order: position }],
    user: ({ sub, position }) => [{ at: sub, order: position }],
    lane: ({ receiver, sub, sequence }) => [{ at: [receiver, sub], order: sequence }],
    waiting: ({ state, receiver, sub, sequence }) =>
      state === "waiting" ? [{ at: [receiver, sub], order: sequence }] : [],
    due: (delivery) =>
      delivery.isHead ? [{ at: delivery.receiver, order: Math.floor(dueAt(delivery)) }] : [],
    failed: ({ isHead, failedAt, receiver }) =>
      isHead && failedAt !== null ? [{ at: receiver, order: Math.floor(failedAt) }] : [],
    purge: purgePositions,
  },
  indexFor: {
    open: "the console's list of what waits or is parked, and discarding it for a receiver",
    deletion: "the metric of the oldest deletion that waits",
    receiver: "the console's list for a receiver",
    user: "the console's list for an account",
    lane: "what was delivered before in a lane",
    waiting: "adding a delivery: the head of its lane",
    due: "claiming what is to be sent next",
    failed: "resuming a receiver: what to try again",
    purge: "purging payloads and records",
  },
  expires: "purged by the worker, see `notifications` of the configuration",
  sealed: (delivery, replace) => ({
    ...delivery,
    payload: delivery.payload === null ? null : replace(deliveryContext(delivery.id), delivery.payload),
    attemptRecords: delivery.attemptRecords.map((each) =>
      each.answer === null ? each : { ...each, answer: replace(answerContext(delivery.id), each.answer) },
    ),
  }),
  store: "storage",
  exported: true,
  personal: "the payload, with the data of the account after the change; the `sub`",
});

export const LANE: Kind<Lane> = defineKind<Lane>({
  name: "lane",
  holds: "the progress of the notifications about one account at one receiver",
  key: "the receiver and the `sub`",
  keyOf: ({ receiver, sub }) => [receiver, sub],
  expires: "with its last delivery",
  store: "storage",
  exported: true,
  personal: "the `sub`",
});

export const RECEIVER: Kind<KnownReceiver> = defineKind<KnownReceiver>({
  name: "receiver",
  holds: "whether a receiver is paused or held back",
  key: "its name",
  keyOf: ({ receiver }) => receiver,
  store: "storage",
  exported: true,
  personal: undefined,
});

export const deliveryRef = (id: string): Ref => DELIVERY.ref(id);
export const laneRef = ({ receiver, sub }: LaneKey): Ref => LANE.ref([receiver, sub]);
export const laneKey = (lane: LaneKey): string => laneRef(lane).key;
export const receiverRef = (receiver: string): Ref => RECEIVER.ref(receiver);
export const deliveryRecord = (delivery: StoredDelivery): RecordData => DELIVERY.record(delivery);
export const laneRecord = (lane: Lane): RecordData => LANE.record(lane);
export const receiverRecord = (receiver: KnownReceiver): RecordData => RECEIVER.record(receiver);

/** The delivery without what only the storage needs. */
export function toDelivery(stored: StoredDelivery): Delivery {
  const { id, receiver, sub, type, payload, at, sequence, state, attempts, failures } = stored;
  const { storedAt, nextAttemptAt, finishedAt, reason } = stored;
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
