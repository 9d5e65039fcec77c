/** Deliveries, their attempts and the lanes as documents. Strings that MongoDB can't hold or find are keys or JSON. */
import type { Document, ObjectId } from "mongodb";
import type { AttemptRecord, Delivery, DeliveryAttempt, DeliveryState, NewDelivery } from "../deliveries.ts";
import { toKey } from "./keys.ts";

/** What never changes of a delivery, but for its payload. */
type Fixed = Pick<NewDelivery, "id" | "receiver" | "sub" | "type" | "at">;

export interface StoredDelivery {
  readonly _id: string;
  readonly lane: string;
  /** The keys of what a list can be asked for. */
  readonly receiver: string;
  readonly sub: string;
  readonly type: string;
  readonly sequence: number;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly failures: number;
  readonly stored_at: number;
  /** Waiting only. */
  readonly next_attempt_at?: number;
  /** Waiting only, and only after an attempt that failed. */
  readonly failed_at?: number;
  /** Left out while it waits. */
  readonly finished_at?: number;
  /** The same while there is a payload that is not needed any more. */
  readonly spent_at?: number;
  /** As JSON, like the payload. */
  readonly reason?: string;
  /** Left out once it has been purged. */
  readonly payload?: string;
  /** In the order of these they were stored. */
  readonly order: ObjectId;
  /** {@link Fixed} as JSON. */
  readonly json: string;
}

export const DELIVERY_STATES: readonly DeliveryState[] = ["waiting", "delivered", "parked", "discarded"];

/** What is left out at the end of waiting, and at its beginning. */
export const UNSET_WAITING = { next_attempt_at: "", failed_at: "" } as const;
/** Due at once: when it was stored it was due. */
export const MAKE_DUE: Document[] = [{ $set: { next_attempt_at: "$stored_at" } }, { $unset: "failed_at" }];
export const UNSET_FINISHED = { finished_at: "", spent_at: "", reason: "" } as const;

/** A new delivery, without what only its transaction knows. */
export type PlannedDelivery = Omit<StoredDelivery, "sequence" | "stored_at" | "next_attempt_at" | "order">;

export function planDelivery({ payload, ...fixed }: NewDelivery): PlannedDelivery {
  const { id, receiver, sub, type, at } = fixed;
  return {
    _id: toKey(id),
    lane: toKey(receiver, sub),
    receiver: toKey(receiver),
    sub: toKey(sub),
    type: toKey(type),
    state: "waiting",
    attempts: 0,
    failures: 0,
    payload: JSON.stringify(payload),
    json: JSON.stringify({ id, receiver, sub, type, at } satisfies Fixed),
  };
}

function fromJson(text: string | undefined): string | null {
  return text === undefined ? null : (JSON.parse(text) as string);
}

export function toDelivery(stored: StoredDelivery): Delivery {
  return {
    ...(JSON.parse(stored.json) as Fixed),
    payload: fromJson(stored.payload),
    sequence: stored.sequence,
    state: stored.state,
    attempts: stored.attempts,
    failures: stored.failures,
    storedAt: stored.stored_at,
    nextAttemptAt: stored.next_attempt_at ?? null,
    finishedAt: stored.finished_at ?? null,
    reason: fromJson(stored.reason),
  };
}

export interface StoredAttempt {
  readonly _id: string;
  /** The `_id` of its delivery. */
  readonly delivery: string;
  readonly number: number;
  readonly started_at: number;
  readonly duration: number;
  readonly status: number | null;
  /** As JSON, like the answer. */
  readonly error?: string;
  /** Left out without one, and once it has been purged. */
  readonly answer?: string;
}

/** @param delivery its `_id`. */
export function fromAttempt(delivery: string, number: number, attempt: AttemptRecord): StoredAttempt {
  const { startedAt, duration, status, error, answer } = attempt;
  return {
    _id: toKey(delivery, String(number)),
    delivery,
    number,
    started_at: startedAt,
    duration,
    status,
    ...(error === null ? {} : { error: JSON.stringify(error) }),
    ...(answer === null ? {} : { answer: JSON.stringify(answer) }),
  };
}

export function toAttempt(stored: StoredAttempt): DeliveryAttempt {
  return {
    number: stored.number,
    startedAt: stored.started_at,
    duration: stored.duration,
    status: stored.status,
    error: fromJson(stored.error),
    answer: fromJson(stored.answer),
  };
}

/** Documents by their `_id`. */
export function byId<Stored extends { readonly _id: string }>(
  documents: readonly Stored[],
): ReadonlyMap<string, Stored> {
  return new Map(
    documents.map((document) => {
      const { _id: id } = document;
      return [id, document];
    }),
  );
}
