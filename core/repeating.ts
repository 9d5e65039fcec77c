/** Work in the background that is repeated as long as a process serves. */
import type { Outage } from "./outages.ts";

export interface Repeating {
  /** Resolves when the running pass has stopped. */
  stop(): Promise<void>;
}

/** @param outage gets the outcome of each pass. After a failure the next pass tries again. */
export function startRepeating(
  intervalMs: number,
  work: (signal: AbortSignal) => Promise<void>,
  outage: Outage,
): Repeating {
  const stopping = new AbortController();
  let running: Promise<void> = Promise.resolve();

  async function pass(): Promise<void> {
    if (stopping.signal.aborted) return;
    try {
      await work(stopping.signal);
      outage.worked();
    } catch (error) {
      outage.failed(error);
    }
  }

  const timer = setInterval(() => {
    running = running.then(pass);
  }, intervalMs);
  timer.unref();
  return {
    async stop() {
      stopping.abort();
      clearInterval(timer);
      await running;
    },
  };
}
