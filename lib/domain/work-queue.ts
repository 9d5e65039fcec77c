/** A bound on how much heavy work runs at once: the rest waits, and people who wait at a form go first. */
import { StorageUnavailable } from "../errors.ts";

/** Who is asking: a person who waits for an answer, or work that may take its time. */
export type Urgency = "urgent" | "patient";

/** Runs work with a bound. */
export type WorkQueue = <T>(urgency: Urgency, work: () => Promise<T>) => Promise<T>;

/**
 * @param parallel how many pieces of work run at once.
 * @param maxWaiting how many urgent ones may wait; one more is refused with `StorageUnavailable`, which is a
 *   503 with `Retry-After` at the edge. Patient ones wait without a bound.
 */
export function createWorkQueue(parallel: number, maxWaiting: number): WorkQueue {
  const waiting: Record<Urgency, (() => void)[]> = { urgent: [], patient: [] };
  let running = 0;
  const next = (): void => {
    const start = waiting.urgent.shift() ?? waiting.patient.shift();
    // A finished piece hands its place over, so nobody who comes in between can take it.
    if (start === undefined) running -= 1;
    else start();
  };
  return async (urgency, work) => {
    if (running < parallel) running += 1;
    else {
      if (urgency === "urgent" && waiting.urgent.length >= maxWaiting) {
        throw new StorageUnavailable("too many passwords are being checked at once");
      }
      await new Promise<void>((resolve) => waiting[urgency].push(resolve));
    }
    try {
      return await work();
    } finally {
      next();
    }
  };
}
