/**
 * When a delivery that failed is tried again. The table itself is `notifications.retryDelays` of the configuration.
 * Specification: `decisions.md`, "Retries".
 */

/** Each delay is moved by up to so much of itself, so that what failed together is not tried together. */
const JITTER = 0.2;
/** `Retry-After` may ask for so many seconds at least, and for twice the delay when that is more. */
const PATIENCE = 3600;

export interface RetryRequest {
  /** Attempts of the schedule that are used up, from 1: the one that failed just now is counted in. */
  readonly failures: number;
  /** Seconds that the receiver asked for. */
  readonly retryAfter: number | undefined;
}

/**
 * Milliseconds until the next attempt; `undefined` when there is none left.
 * @param delays seconds before each further attempt.
 * @param random gives numbers from 0 to 1.
 */
export function nextDelay(
  delays: readonly number[],
  { failures, retryAfter = 0 }: RetryRequest,
  random: () => number,
): number | undefined {
  const delay = delays[failures - 1];
  if (delay === undefined) return undefined;
  const planned = delay * (1 + JITTER * (2 * random() - 1));
  const longest = Math.max(2 * delay, PATIENCE);
  return Math.max(planned, Math.min(retryAfter, longest)) * 1000;
}
