/** Nothing is waited for without an end: what a request waits for is given up after a time. */

/** Waits for the work, or gives it up with an error: then it goes on unheard. */
export type WithinTime = (work: Promise<void>) => Promise<void>;

interface Waiting {
  /** On the clock of `performance`. */
  readonly until: number;
  readonly giveUp: (reason: unknown) => void;
}

/**
 * One timer for all requests of a service: they all have the same time, so the first one to end is the oldest.
 * @param patience milliseconds.
 * @param late makes the error of what was given up.
 */
export function createWithinTime(patience: number, late: () => Error): WithinTime {
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
      one.giveUp(late());
    }
  }

  async function settle(one: Waiting, work: Promise<void>, done: () => void): Promise<void> {
    try {
      await work;
      done();
    } catch (error) {
      one.giveUp(error);
    } finally {
      waiting.delete(one);
    }
  }

  return (work) =>
    new Promise((resolve, reject) => {
      const one = { until: performance.now() + patience, giveUp: reject };
      waiting.add(one);
      if (!isWatching) watch(patience);
      void settle(one, work, resolve);
    });
}
