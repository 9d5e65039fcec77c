/** What attempts say of a receiver: recorded, and told. The rules are in `breaker.ts`. */
import type { DeliveryStore } from "../lib/deliveries/delivery.ts";
import type { NotificationSettings } from "../config/configuration.ts";
import type { Clock } from "../lib/clock.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import { afterFailure, afterPause, afterSuccess } from "./breaker.ts";

export interface ReceiverWatchDeps {
  readonly deliveries: Pick<DeliveryStore, "receiver" | "changeReceiver" | "releaseHeld">;
  readonly settings: Pick<NotificationSettings, "breaker">;
  readonly events: ServiceEmitter;
  readonly clock: Clock;
}

export interface ReceiverWatch {
  well(receiver: string): Promise<void>;
  /** @param probe whether the attempt was one of a receiver that is held back. */
  failing(receiver: string, probe: boolean): Promise<void>;
  /** @param reason for operators to read. @returns false when it was paused already. */
  paused(receiver: string, reason: string): Promise<boolean>;
}

/** At most so many lanes are made due in one step, so that nobody waits long for the storage. */
const STEP = 500;

/** Makes due what is marked to be, however much it is. */
export async function releaseAll(
  deliveries: Pick<DeliveryStore, "releaseHeld">,
  receiver: string,
): Promise<void> {
  while ((await deliveries.releaseHeld(receiver, STEP)) === STEP);
}

export function createReceiverWatch({
  deliveries,
  settings,
  events,
  clock,
}: ReceiverWatchDeps): ReceiverWatch {
  return {
    async well(receiver) {
      // Looked at first: most receivers are well and stay so, and then nothing is written.
      const now = clock.now();
      if (afterSuccess(await deliveries.receiver(receiver), now) === undefined) return;
      const { before } = await deliveries.changeReceiver(receiver, (state) => afterSuccess(state, now));
      if (before.heldUntil === null) return;
      events.emit("receiver.recovered", { receiver });
      await releaseAll(deliveries, receiver);
    },
    async failing(receiver, probe) {
      const now = clock.now();
      const { before, after } = await deliveries.changeReceiver(receiver, (state) =>
        afterFailure(state, settings.breaker, { now, probe }),
      );
      if (before.heldUntil === null && after.heldUntil !== null) {
        events.emit("receiver.held", { receiver, until: after.heldUntil });
      }
    },
    async paused(receiver, reason) {
      const { before, after } = await deliveries.changeReceiver(receiver, (state) =>
        afterPause(state, reason),
      );
      if (before === after || before.paused) return false;
      events.emit("receiver.paused", { receiver, reason });
      return true;
    },
  };
}
