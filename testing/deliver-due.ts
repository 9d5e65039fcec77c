/** Delivers what is due by the clock of a test, and waits for it. */
import { createDeliverer } from "../notifier/sending/deliver.ts";
import { CircuitBreaker } from "../notifier/sending/breaker.ts";
import { LaneWorker } from "../notifier/sending/lane-worker.ts";
import { Receivers } from "../notifier/receivers.ts";
import type { Sealer } from "../core/sealing.ts";
import type { SignInService } from "../lib/service.ts";
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
  { deliveries, directory }: Storage,
  sealer: Sealer,
): TestDelivering {
  const { notifications: settings, clock } = configuration;
  const deliverer = createDeliverer({ settings, clock });
  const worker = new LaneWorker({
    deliveries,
    receivers: new Receivers(directory, sealer),
    breaker: new CircuitBreaker(deliveries, settings.breaker, events, clock),
    sealer,
    attempt: deliverer.attempt,
    settings,
    events,
    clock,
    owner: "test",
    // Each delay is exactly that of `notifications.retryDelays`.
    random: () => 0.5,
  });
  return {
    async deliverDue() {
      for (;;) {
        const due = (await deliveries.dueReceivers()).filter(({ dueAt }) => dueAt <= clock.now());
        const claims = await Promise.all(
          due.map(({ receiver }) => deliveries.claimDue(receiver, LANES, worker.lease)),
        );
        if (claims.flat().length === 0) return;
        await Promise.all(claims.flat().map((claim) => worker.run(claim)));
      }
    },
    async close() {
      await worker.stop(0);
      deliverer.close();
    },
  };
}
