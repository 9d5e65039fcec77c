/** A bound on how much heavy work runs at once: the rest waits, and people who wait at a form go first. */
import { StorageUnavailable } from "../errors.ts";

/** Who is asking: a person who waits for an answer, or work that may take its time. */
export type Urgency = "urgent" | "patient";

/** Runs work with a bound. */
export type WorkQueue = <T>(urgency: Urgency, work: () => Promise<T>) => Promise<T>;

function tooMany(): StorageUnavailable {
  return new StorageUnavailable("too many passwords are being checked at once");
}

/** How long the queue may become. */
export interface QueueBounds {
  /** How many urgent ones may wait. */
  readonly maxWaiting: number;
  /** Milliseconds after which nobody waits for the answer of an urgent one any more: it is not begun. */
  readonly longestWait: number;
}

/**
 * @param parallel how many pieces of work run at once.
 * @param bounds of urgent work; what is beyond them is refused with `StorageUnavailable`, which is a 503 with
 *   `Retry-After` at the edge. Patient work waits without a bound.
 */
export function createWorkQueue(parallel: number, { maxWaiting, longestWait }: QueueBounds): WorkQueue {
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
        throw tooMany();
      }
      const since = performance.now();
      await new Promise<void>((resolve) => waiting[urgency].push(resolve));
      if (urgency === "urgent" && performance.now() - since > longestWait) {
        // Else work that nobody waits for would make the next ones late as well, for as long as the load lasts.
        next();
        throw tooMany();
      }
    }
    try {
      return await work();
    } finally {
      next();
    }
  };
}
