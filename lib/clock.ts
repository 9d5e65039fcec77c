/** The clocks of the service. */
import type { Clock } from "../adapters/clock.ts";

export type { Clock } from "../adapters/clock.ts";

/** How far the fine clock may be from the system's before it is set again, in milliseconds. */
const TOLERANCE = 2;

/**
 * The system's clock with microseconds, so that two requests in one millisecond keep their order.
 * It follows the system's clock when that is stepped or slewed.
 */
export function createSystemClock(): Clock {
  let origin = performance.timeOrigin;
  return {
    now() {
      const coarse = Date.now();
      const fine = origin + performance.now();
      if (Math.abs(fine - coarse) <= TOLERANCE) return fine;
      origin += coarse - fine;
      return coarse;
    },
  };
}

/**
 * Milliseconds that have passed since this process began. Nobody sets it, it only goes on: for measuring how long
 * something took. It says nothing to another process.
 */
export const monotonic: Clock = { now: () => performance.now() };

/** Whole seconds since the epoch: what the protocols and the notifications count in. */
export function seconds(clock: Clock): number {
  return Math.floor(clock.now() / 1000);
}
