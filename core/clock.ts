/** The clocks of the service. */

/** The source of time. Tests and hosts can replace it. */
export interface Clock {
  /** Milliseconds since the epoch, with fractions if the clock has them. */
  now(): number;
  /**
   * Whether it tells a time of its own, as in tests that skip days. It is then not compared with the clocks of the
   * storage. Default: `false`.
   */
  readonly virtual?: boolean;
}

/** The precise clock is reset when it differs from the system's by more than this. */
const TOLERANCE_MS = 2;

/**
 * The system's clock with microseconds, so that two requests in one millisecond keep their order. It follows the
 * system's clock when that is stepped or slewed.
 */
export function createSystemClock(): Clock {
  let origin = performance.timeOrigin;
  return {
    now() {
      const coarse = Date.now();
      const fine = origin + performance.now();
      if (Math.abs(fine - coarse) <= TOLERANCE_MS) return fine;
      origin += coarse - fine;
      return coarse;
    },
  };
}

/**
 * Milliseconds since this process started, for measuring durations. It never goes back, and means nothing to other
 * processes.
 */
export const monotonic: Clock = { now: () => performance.now() };

/** For durations in a log: a clock that was set would make them wrong, also by days. */
export function clockOfDurations(clock: Clock): Clock {
  return clock.virtual === true ? clock : monotonic;
}

/** Whole seconds since the epoch, the unit of the protocols and the notifications. */
export function seconds(clock: Clock): number {
  return Math.floor(clock.now() / 1000);
}

/** Milliseconds in whole seconds. */
export function inSeconds<T extends number | null>(ms: T): T {
  return (ms === null ? null : Math.floor(ms / 1000)) as T;
}
