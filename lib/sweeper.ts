/** Deletes what has expired, a little at a time, in the background. */
import type { Storage } from "./storage.ts";
import type { Outage } from "./outages.ts";

/** Milliseconds between two passes, and records deleted in one go. */
const INTERVAL = 30_000;
const BATCH = 500;

export interface Sweeper {
  /** Waits for the pass that is running. */
  stop(): Promise<void>;
}

/** @param outage told what came of each pass; after one that failed the next one tries again. */
export function startSweeper(storage: Pick<Storage, "sweep">, outage: Outage): Sweeper {
  const stopping = new AbortController();
  let running: Promise<void> = Promise.resolve();

  async function pass(): Promise<void> {
    try {
      while (!stopping.signal.aborted && (await storage.sweep(BATCH)) === BATCH);
      outage.worked();
    } catch (error) {
      outage.failed(error);
    }
  }

  const timer = setInterval(() => {
    running = running.then(pass);
  }, INTERVAL);
  timer.unref();
  return {
    async stop() {
      stopping.abort();
      clearInterval(timer);
      await running;
    },
  };
}
