/** The records of deliveries, lanes and receivers, and their indexes. */
import { randomUUID } from "node:crypto";
import { type Delivery, type DeliveryAttempt, failureOf, type LaneKey, RESTORED } from "./delivery.ts";
import { afterPause, type ReceiverState } from "./receiver-state.ts";
import { defineKind, type Kind, type IndexPosition } from "../kinds.ts";
import type { RefTo } from "../records.ts";

/**
 * A delivery in flight. Until `end` no other delivery of its lane may be sent. Its result can be recorded until another
 * one is claimed.
 */
export interface Flight {
  readonly id: string;
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly end: number;
}

/**
 * A stored delivery with its attempts. Its payload is a record of its own, which is written once and not again with every
 * claim and attempt.
 */
export interface StoredDelivery extends Omit<Delivery, "lastError"> {
  /** Its position among all deliveries: approximately microseconds since the epoch. It grows with `sequence` in a lane. */
  readonly position: number;
  /** `false` once the payload was purged. */
  readonly hasPayload: boolean;
  readonly attemptRecords: readonly DeliveryAttempt[];
  /** Waiting only: when the last attempt failed. */
  readonly failedAt: number | null;
  /** How often it was claimed. */
  readonly fence: number;
  /** The lease of the last claim until its result is recorded. */
  readonly lease: { readonly owner: string; readonly end: number } | null;
  /** Heads only: another delivery of the lane that was claimed before this one became the head. */
  readonly flight: Flight | null;
}

/** The payload of a delivery. */
export interface StoredPayload {
  /** The delivery's. */
  readonly id: string;
  readonly payload: string;
}

/** What is stored about a lane besides its deliveries. */
export interface Lane extends LaneKey {
  /** The highest sequence so far. */
  readonly lastSequence: number;
  /** The highest position so far. */
  readonly lastPosition: number;
  /** Whether nothing waits. Written when the first delivery is added and when the last one is finished. */
  readonly isEmpty: boolean;
  /** The highest sequence that was delivered and then purged; 0: none. */
  readonly lastDelivered: number;
  /** Only if nothing waits: a delivery that is still in flight although it was given up in the meantime. */
  readonly flight: Flight | null;
}

/** A receiver that ever had a delivery. */
export interface KnownReceiver extends ReceiverState {
  readonly receiver: string;
}

export const newLane = ({ receiver, sub }: LaneKey): Lane => ({
  receiver,
  sub,
  lastSequence: 0,
  lastPosition: 0,
  isEmpty: true,
  lastDelivered: 0,
  flight: null,
});

/** Hexadecimal digits of a time in seconds: enough for thirty thousand years. */
const TIME_DIGITS = 10;

/**
 * Starts with the time, so that ids of the same period are neighbors in the index, however large it is. The rest has
 * 82 random bits, taken from a UUID: Node makes UUIDs from a pool, in a fraction of the time of `randomBytes`.
 */
export function newDeliveryId(at: number): string {
  const random = randomUUID().replaceAll("-", "").slice(TIME_DIGITS);
  return `msg_${at.toString(16).padStart(TIME_DIGITS, "0")}${random}`;
}

/** What stands in place of an account where a delivery is about an invitation. */
export const invitationLane = (id: string): string => `invitation:${id}`;

/** The sealing context of a delivery's payload. */
export const deliveryContext = (id: string): string => `delivery ${id}`;
/** The sealing context of a receiver's response. */
export const answerContext = (id: string): string => `answer ${id}`;

/** When a head may be claimed, in milliseconds since the epoch. */
export function dueAt({ lease, flight, nextAttemptAt }: StoredDelivery): number {
  return lease?.end ?? Math.max(flight?.end ?? 0, nextAttemptAt ?? 0);
}

/** The part of a finished delivery that is purged next: first its payload, later its record. */
export type PurgeStage = "payload" | "record";

function purgePositions({ finishedAt, hasPayload, state }: StoredDelivery): IndexPosition[] {
  if (finishedAt === null) return [];
  const stage: PurgeStage = !hasPayload || state === "parked" ? "record" : "payload";
  return [{ at: stage, order: Math.floor(finishedAt) }];
}

/** Positions in the index `waiting` of deliveries that are not the head of their lane: after all heads. */
export const BEHIND_HEADS: number = 2 ** 52;

/** A delivery whose payload was removed. */
export function withoutPayload(delivery: StoredDelivery): StoredDelivery {
  const attemptRecords = delivery.attemptRecords.map((each) => ({ ...each, answer: null }));
  return { ...delivery, hasPayload: false, attemptRecords };
}

/** What becomes of a delivery that is given up without an operator: only what stays worth sending is parked. */
export const givenUp = ({ until }: Pick<StoredDelivery, "until">): "parked" | "discarded" =>
  until === undefined ? "parked" : "discarded";

type DeliveryIndex = "receiver" | "lane" | "waiting" | "failed" | "parked" | "deletion" | "until" | "purge";

/**
 * A delivery keeps its entries in `receiver` and `lane` for as long as it is stored, so that no list misses it while
 * its state changes. When it is delivered, its entry in `waiting` is replaced by one in `purge`.
 */
export const DELIVERY: Kind<StoredDelivery, DeliveryIndex> = defineKind({
  name: "delivery",
  holds: "a notification for one receiver, with its attempts",
  key: "its id",
  keyOf: ({ id }) => id,
  index: {
    receiver: ({ receiver, position }) => [{ at: receiver, order: position }],
    lane: ({ receiver, sub, position }) => [{ at: [receiver, sub], order: position }],
    waiting: (delivery) =>
      delivery.state === "waiting"
        ? [
            {
              at: delivery.receiver,
              order: delivery.isHead ? Math.floor(dueAt(delivery)) : BEHIND_HEADS,
            },
          ]
        : [],
    failed: ({ isHead, failedAt, receiver, position }) =>
      isHead && failedAt !== null ? [{ at: receiver, order: position }] : [],
    parked: ({ state, receiver, position }) =>
      state === "parked" ? [{ at: receiver, order: position }] : [],
    deletion: ({ state, type, position }) =>
      type === "DELETE_ACCOUNT" && (state === "waiting" || state === "parked")
        ? [{ at: state, order: position }]
        : [],
    until: ({ state, until }) =>
      state === "waiting" && until !== undefined ? [{ at: state, order: Math.floor(until) }] : [],
    purge: purgePositions,
  },
  indexFor: {
    receiver: "`notifications.list` for a receiver, or for all of them",
    lane: "the next delivery of a lane; `notifications.list` for an account",
    waiting: "claiming what is due next; counting what waits",
    failed: "resuming a receiver: what to try again. Only after a failed attempt",
    parked: "listing and counting what is parked",
    deletion: "the metric of the oldest deletion that waits. Only for notifications of deleted accounts",
    until: "giving up what is no longer worth sending. Only for events such as sign-ins",
    purge: "purging payloads and records",
  },
  expires: "purged by the worker, see `notifications` of the configuration",
  sealed: (delivery, replace) => ({
    ...delivery,
    attemptRecords: delivery.attemptRecords.map((each) =>
      each.answer === null ? each : { ...each, answer: replace(answerContext(delivery.id), each.answer) },
    ),
  }),
  store: "storage",
  exported: true,
  afterRestore: "kept",
  afterReset: {
    becomes: "without its payload and what the receiver answered; parked if it was waiting",
    change: withoutPayload,
  },
  personal: "the `sub`; what the receiver answered",
});

export const PAYLOAD: Kind<StoredPayload> = defineKind<StoredPayload>({
  name: "payload",
  holds: "the body of a notification",
  key: "the id of its delivery",
  keyOf: ({ id }) => id,
  references: ({ id }) => [DELIVERY.ref(id)],
  expires: "purged by the worker, see `notifications` of the configuration",
  sealed: ({ id, payload }, replace) => ({ id, payload: replace(deliveryContext(id), payload) }),
  store: "storage",
  exported: true,
  afterRestore: "kept",
  afterReset: "removed",
  personal: "the data of the account after the change",
});

/** Without an index: the lanes of an account are one for each receiver, and receivers are few. */
export const LANE: Kind<Lane> = defineKind<Lane>({
  name: "lane",
  holds: "the progress of the notifications about one account at one receiver",
  key: "the receiver and the `sub`",
  keyOf: ({ receiver, sub }) => [receiver, sub],
  expires: "with its last delivery",
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "the `sub`",
});

/** Paused until deliveries are resumed. A receiver that an operator had paused keeps its reason. */
export const held = (receiver: KnownReceiver): KnownReceiver => ({
  ...receiver,
  ...afterPause(receiver, { reason: RESTORED }),
});

export const RECEIVER: Kind<KnownReceiver> = defineKind<KnownReceiver>({
  name: "receiver",
  holds: "the state of a receiver that fails, is paused or has an open circuit",
  key: "its name",
  keyOf: ({ receiver }) => receiver,
  store: "storage",
  exported: true,
  afterRestore: { becomes: "paused until `deliveries resume`", change: held },
  afterReset: "kept",
  personal: undefined,
});

export const laneRef = ({ receiver, sub }: LaneKey): RefTo<Lane> => LANE.ref([receiver, sub]);
export const laneKey = (lane: LaneKey): string => laneRef(lane).key;

/** The delivery without what only the storage needs. */
export function toDelivery(stored: StoredDelivery): Delivery {
  const { id, receiver, sub, type, at, sequence, state, attempts, failures } = stored;
  const { storedAt, nextAttemptAt, finishedAt, reason, isHead, attemptRecords, until } = stored;
  const progress = { sequence, state, attempts, failures, storedAt, nextAttemptAt, finishedAt, reason };
  const last = attemptRecords.at(-1);
  const lastError = last === undefined ? null : failureOf(last);
  const late = until !== undefined && { until };
  return { id, receiver, sub, type, at, ...late, ...progress, lastError, isHead };
}
