/** Delivers what is due by the clock of a test, and waits for it. */
import { createLogger } from "../core/logger.ts";
import { LaneWorker } from "../notifier/sending/lane-worker.ts";
import { createNotifierServices } from "../notifier/services.ts";
import type { Sealer } from "../core/sealing.ts";
import type { SignInService } from "../lib/service.ts";
import { createStorageServices } from "../records/services.ts";
import type { Storage } from "../records/storage.ts";

/** Lanes of one receiver that are delivered in parallel. */
const LANES = 20;

export interface TestDelivering {
  /**
   * Makes every attempt that is due, and those that become due as a result. Retries of failed attempts are due later.
   */
  deliverDue(): Promise<void>;
  close(): Promise<void>;
}

export function createTestDelivering(
  { configuration, events }: SignInService,
  storage: Storage,
  sealer: Sealer,
): TestDelivering {
  const { clock, logger = createLogger() } = configuration;
  const base = createStorageServices({ configuration, storage, sealer, logger }, { events });
  const services = createNotifierServices(base);
  // Each delay is exactly that of `notifications.retryDelays`.
  const worker = new LaneWorker(services, "test", () => 0.5);
  const { deliveries } = storage;
  return {
    async deliverDue() {
      for (;;) {
        const due = (await deliveries.dueReceivers(LANES)).filter(({ dueAt }) => dueAt <= clock.now());
        const claims = await Promise.all(due.map((each) => deliveries.claimDue(each, LANES, worker.lease)));
        if (claims.flat().length === 0) return;
        await Promise.all(claims.flat().map((claim) => worker.run(claim)));
      }
    },
    async close() {
      await worker.stop(0);
      services.deliverer.close();
    },
  };
}
