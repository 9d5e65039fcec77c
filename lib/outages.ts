/**
 * Faults of what is done again and again in the background, as few lines of the log: one when something begins to
 * fail, at most one a minute while anything does, one when all of it works again.
 */
import type { Logger } from "pino";
import type { Clock } from "./clock.ts";
import { describeDefect } from "./logger.ts";

/** What a piece of work tells. */
export interface Outage {
  readonly failed: (error: unknown) => void;
  readonly worked: () => void;
}

/** Milliseconds between two lines of one outage. */
const MINUTE = 60_000;

/** @returns the teller of one piece of work, by what it is called in the log. */
export function createOutages(
  logger: Pick<Logger, "error" | "warn">,
  clock: Clock,
): (work: string) => Outage {
  const failing = new Set<string>();
  let [failures, beganAt, toldAt] = [0, 0, 0];

  function failed(work: string, error: unknown): void {
    const now = clock.now();
    const begins = failing.size === 0;
    if (begins) [failures, beganAt] = [0, now];
    failing.add(work);
    failures += 1;
    // Either way: a clock may be set back.
    if (!begins && Math.abs(now - toldAt) < MINUTE) return;
    toldAt = now;
    const text = begins
      ? "work in the background fails; it is tried again until it works"
      : "work in the background still fails";
    logger.error({ work, failures, defect: describeDefect(error) }, text);
  }

  function worked(work: string): void {
    if (!failing.delete(work) || failing.size > 0) return;
    const seconds = Math.round((clock.now() - beganAt) / 1000);
    logger.warn({ failures, seconds }, "work in the background works again");
  }

  return (work) => ({ failed: (error) => failed(work, error), worked: () => worked(work) });
}
