/**
 * Logs faults of recurring background work in few lines: one when something starts to fail, at most one a minute
 * while anything fails, and one when everything works again.
 */
import type { Logger } from "pino";
import type { Clock } from "./clock.ts";
import { describeDefect } from "./logger.ts";

/** Receives the outcomes of one kind of work. */
export interface Outage {
  readonly failed: (error: unknown) => void;
  readonly worked: () => void;
}

/** Between two log lines about one outage. */
const LOG_INTERVAL_MS = 60_000;

/**
 * @param clock of durations: see `clockOfDurations`.
 * @returns a function that takes the name of the work in the log.
 */
export function createOutages(
  logger: Pick<Logger, "error" | "warn">,
  clock: Clock,
): (work: string) => Outage {
  const failing = new Set<string>();
  let [failures, beganAt, loggedAt] = [0, 0, 0];

  function failed(work: string, error: unknown): void {
    const now = clock.now();
    const begins = failing.size === 0;
    if (begins) [failures, beganAt] = [0, now];
    failing.add(work);
    failures += 1;
    // The absolute difference, because the clock may be set back.
    if (!begins && Math.abs(now - loggedAt) < LOG_INTERVAL_MS) return;
    loggedAt = now;
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
