/** A request is answered within 5 seconds, whatever it waits for. */
import { StorageUnavailable } from "../lib/errors.ts";

/**
 * Milliseconds after which a request is given up: later than its deadline, after which nothing of it is committed,
 * so that a commit that is under way can still say what became of it.
 */
const PATIENCE = 4_800;

/** Waits for the work, or gives it up: then it goes on unheard, and its commit is refused. */
export type WithinTime = (work: Promise<void>) => Promise<void>;

interface Waiting {
  /** On the clock of `performance`. */
  readonly until: number;
  readonly giveUp: (reason: StorageUnavailable) => void;
}

/** One timer for all requests of a service: they all have the same time, so the first one to end is the oldest. */
export function createWithinTime(): WithinTime {
  const waiting = new Set<Waiting>();
  let isWatching = false;

  function watch(milliseconds: number): void {
    isWatching = true;
    setTimeout(giveUpLate, milliseconds).unref();
  }

  function giveUpLate(): void {
    isWatching = false;
    const now = performance.now();
    for (const one of waiting) {
      if (one.until > now) return watch(one.until - now);
      waiting.delete(one);
      one.giveUp(new StorageUnavailable("the request was not done in time"));
    }
  }

  return (work) =>
    new Promise((resolve, reject) => {
      const one = { until: performance.now() + PATIENCE, giveUp: reject };
      waiting.add(one);
      if (!isWatching) watch(PATIENCE);
      work.then(resolve, reject).finally(() => waiting.delete(one));
    });
}
