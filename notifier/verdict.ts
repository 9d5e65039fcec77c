/** What the result of an attempt means for the delivery and for its receiver. Pure. */
import type { Delivery, Outcome } from "../lib/deliveries/delivery.ts";
import type { AttemptResult } from "./attempt.ts";
import { nextDelay } from "./retry-schedule.ts";

/** `decisions.md`, "Retries": 410 Gone. */
const GONE = 410;

export interface Verdict {
  readonly outcome: Outcome;
  /** Whether the attempt is kept: not when it was broken off by ourselves. */
  readonly kept: boolean;
  /** What it says of the receiver. `nothing`: it was not asked. */
  readonly receiver: "well" | "failing" | "nothing" | { readonly paused: string };
}

/** Why a delivery is parked after its last attempt. */
export const USED_UP = "attempts_used_up";

/** Whether the attempt was broken off, as `Attempt` says it. */
function isAborted(result: AttemptResult, signal: AbortSignal): boolean {
  return signal.aborted && result.kind === "failed" && result.code === "aborted";
}

export function verdictOf(
  result: AttemptResult,
  delivery: Pick<Delivery, "failures">,
  schedule: {
    readonly delays: readonly number[];
    readonly random: () => number;
    readonly signal: AbortSignal;
  },
): Verdict {
  if (isAborted(result, schedule.signal)) {
    return { outcome: { kind: "kept" }, kept: false, receiver: "nothing" };
  }
  if (result.kind === "refused") {
    return { outcome: { kind: "kept" }, kept: true, receiver: { paused: result.reason } };
  }
  if (result.kind === "answered") {
    if (result.status >= 200 && result.status < 300) {
      return { outcome: { kind: "delivered" }, kept: true, receiver: "well" };
    }
    if (result.status === GONE) {
      return { outcome: { kind: "kept" }, kept: true, receiver: { paused: "it answered 410 Gone" } };
    }
  }
  const retryAfter = result.kind === "answered" ? result.retryAfter : undefined;
  const request = { failures: delivery.failures + 1, retryAfter };
  const after = nextDelay(schedule.delays, request, schedule.random);
  const outcome: Outcome =
    after === undefined ? { kind: "parked", reason: USED_UP } : { kind: "retry", after };
  return { outcome, kept: true, receiver: "failing" };
}
