/** What a request waits for is given up after a time, the same for all. */
import { createUntil } from "../lib/until.ts";

/** Waits for the work, or gives it up with an error: then it goes on unheard. */
export type WithinTime = (work: Promise<void>) => Promise<void>;

/**
 * @param patience milliseconds.
 * @param late makes the error of what was given up.
 */
export function createWithinTime(patience: number, late: () => Error): WithinTime {
  const until = createUntil(late);
  return (work) => until(performance.now() + patience, work);
}
