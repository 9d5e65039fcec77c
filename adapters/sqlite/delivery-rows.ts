/** Deliveries, attempts and lanes as rows. */
import type { AttemptRecord, Delivery, DeliveryAttempt, DeliveryState } from "../deliveries.ts";
import type { Parameter } from "./connection.ts";
import { numberAt, optionalNumberAt, optionalStringAt, type Row, stringAt, textAt } from "./rows.ts";
import { toOptionalText } from "./text.ts";

/** A lane: the stored form of its receiver, and its number. */
export type Lane = readonly [receiver: string, id: number];

/** The columns of `toDelivery`, in its order. */
export const DELIVERY_COLUMNS =
  "id, receiver, sub, type, payload, at, sequence, state, attempts, failures, stored_at, next_attempt_at, finished_at, reason, position, lane";

/** The position of the head of the lane that `lanes` stands for: worked out, never remembered. */
export const HEAD = `(SELECT position FROM deliveries AS d
  WHERE d.receiver = lanes.receiver AND d.lane = lanes.id AND d.state = 'waiting' ORDER BY d.sequence LIMIT 1)`;

const STATES: Readonly<Record<string, DeliveryState>> = {
  waiting: "waiting",
  delivered: "delivered",
  parked: "parked",
  discarded: "discarded",
};

function stateAt(row: Row, column: number): DeliveryState {
  const state = STATES[stringAt(row, column)];
  if (state === undefined) throw new TypeError(`column ${column} holds no state`);
  return state;
}

export function toDelivery(row: Row): Delivery {
  return {
    id: stringAt(row, 0),
    receiver: stringAt(row, 1),
    sub: stringAt(row, 2),
    type: stringAt(row, 3),
    payload: optionalStringAt(row, 4),
    at: numberAt(row, 5),
    sequence: numberAt(row, 6),
    state: stateAt(row, 7),
    attempts: numberAt(row, 8),
    failures: numberAt(row, 9),
    storedAt: numberAt(row, 10),
    nextAttemptAt: optionalNumberAt(row, 11),
    finishedAt: optionalNumberAt(row, 12),
    reason: optionalStringAt(row, 13),
  };
}

/** The position beside the columns of a delivery. */
export function positionAt(row: Row): number {
  return numberAt(row, 14);
}

/** The lane beside the columns of a delivery. */
export function laneOf(row: Row): Lane {
  return [textAt(row, 1), numberAt(row, 15)];
}

/** The columns of `toAttempt`, in its order. */
export const ATTEMPT_COLUMNS = "number, started_at, duration, status, error, answer";

export function toAttempt(row: Row): DeliveryAttempt {
  return {
    number: numberAt(row, 0),
    startedAt: numberAt(row, 1),
    duration: numberAt(row, 2),
    status: optionalNumberAt(row, 3),
    error: optionalStringAt(row, 4),
    answer: optionalStringAt(row, 5),
  };
}

/** The parameters of an attempt, after the delivery and its number. */
export function attemptValues(attempt: AttemptRecord): Parameter[] {
  const { startedAt, duration, status, error, answer } = attempt;
  return [startedAt, duration, status, toOptionalText(error), toOptionalText(answer)];
}
