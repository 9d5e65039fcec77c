/** Nothing is waited for without an end: what takes longer is given up. */
import { InFlight, type Place } from "./in-flight.ts";

/**
 * Waits for the work until a moment, then rejects: the work goes on, and nobody hears what becomes of it. When that
 * moment has passed already it rejects at once, even if the work is done.
 * @param end on the clock of `performance`.
 */
export type Until = <T>(end: number, work: Promise<T>) => Promise<T>;

interface Waiting {
  readonly end: number;
  readonly giveUp: (reason: unknown) => void;
}

/**
 * One timer for all that is waited for: one each would cost a request as much as its answer.
 * @param late makes the error of what was given up.
 */
export function createUntil(late: () => Error): Until {
  const waiting = new InFlight<Waiting>();
  let timer: NodeJS.Timeout | undefined;
  /** The moment for which the timer is set. */
  let next = Infinity;

  function watch(end: number): void {
    clearTimeout(timer);
    next = end;
    // Between a look at the clock and this one the moment may have passed; Node warns about a negative delay.
    timer = setTimeout(look, Math.max(0, end - performance.now())).unref();
  }

  function look(): void {
    const now = performance.now();
    let first = Infinity;
    for (const place of waiting.all()) {
      const { end, giveUp } = place.what;
      if (end > now) {
        first = Math.min(first, end);
        continue;
      }
      waiting.end(place);
      giveUp(late());
    }
    next = Infinity;
    if (first < Infinity) watch(first);
  }

  async function settle<T>(place: Place<Waiting>, work: Promise<T>, done: (value: T) => void): Promise<void> {
    try {
      done(await work);
    } catch (error) {
      place.what.giveUp(error);
    } finally {
      waiting.end(place);
    }
  }

  return (end, work) =>
    new Promise((resolve, reject) => {
      const place = waiting.add({ end, giveUp: reject });
      void settle(place, work, resolve);
      if (end <= performance.now()) {
        waiting.end(place);
        reject(late());
      } else if (end < next) {
        watch(end);
      }
    });
}
