/**
 * What happens to a delivery after an attempt: whether it is delivered, retried or parked, and when the next attempt is
 * due. The table of delays is `notifications.retryDelays` in the configuration. Pure functions.
 * Specification: `decisions.md`, "Retries".
 */
import { type Delivery, type Outcome, TOO_LATE } from "../records/deliveries/delivery.ts";
import type { AttemptResult } from "./sending/deliver.ts";

/** Each delay varies by up to this fraction of itself, so that deliveries that failed together spread out. */
const JITTER = 0.2;
/** The longest `Retry-After` that is always honored; twice the planned delay may exceed it. */
const MAX_RETRY_AFTER_SECONDS = 3600;

export interface RetryRequest {
  /** How many attempts of the schedule are used up, including the one that just failed. */
  readonly failures: number;
  /** Seconds from the receiver's `Retry-After`. */
  readonly retryAfter: number | undefined;
}

/**
 * Milliseconds until the next attempt; `undefined` when none is left.
 * @param delays seconds before each further attempt.
 * @param random returns numbers from 0 to 1.
 */
export function nextDelay(
  delays: readonly number[],
  { failures, retryAfter = 0 }: RetryRequest,
  random: () => number,
): number | undefined {
  const delay = delays[failures - 1];
  if (delay === undefined) return undefined;
  const planned = delay * (1 + JITTER * (2 * random() - 1));
  const longest = Math.max(2 * delay, MAX_RETRY_AFTER_SECONDS);
  return Math.max(planned, Math.min(retryAfter, longest)) * 1000;
}

/** `decisions.md`, "Retries": 410 Gone pauses the receiver. */
const GONE = 410;

/** The reason of a delivery that is parked after its last attempt. */
const USED_UP = "attempts_used_up";

export interface Verdict {
  readonly outcome: Outcome;
  /** Whether the attempt is recorded. An attempt that the worker itself aborted is not. */
  readonly recorded: boolean;
  /** What the attempt says about the receiver. `nothing`: the receiver was not reached. */
  readonly receiver: "well" | "failing" | "nothing" | { readonly paused: string };
}

/**
 * What the result of an attempt means for the delivery and for its receiver.
 * @param signal the one that the worker passed to the attempt.
 */
export function verdictOf(
  result: AttemptResult,
  delivery: Pick<Delivery, "failures" | "until">,
  schedule: {
    readonly delays: readonly number[];
    readonly random: () => number;
    readonly signal: AbortSignal;
    /** Milliseconds since the epoch. */
    readonly now: number;
  },
): Verdict {
  if (schedule.signal.aborted && result.kind === "failed" && result.code === "aborted") {
    return { outcome: { kind: "kept" }, recorded: false, receiver: "nothing" };
  }
  if (result.kind === "refused") {
    return { outcome: { kind: "kept" }, recorded: true, receiver: { paused: result.reason } };
  }
  if (result.kind === "answered") {
    if (result.status >= 200 && result.status < 300) {
      return { outcome: { kind: "delivered" }, recorded: true, receiver: "well" };
    }
    if (result.status === GONE) {
      return { outcome: { kind: "kept" }, recorded: true, receiver: { paused: "it answered 410 Gone" } };
    }
  }
  const retryAfter = result.kind === "answered" ? result.retryAfter : undefined;
  const after = nextDelay(schedule.delays, { failures: delivery.failures + 1, retryAfter }, schedule.random);
  const isLate = after !== undefined && schedule.now + after >= (delivery.until ?? Infinity);
  const outcome: Outcome =
    after === undefined || isLate
      ? { kind: "parked", reason: isLate ? TOO_LATE : USED_UP }
      : { kind: "retry", after };
  return { outcome, recorded: true, receiver: "failing" };
}
