/** The parts that this floor adds to those of the storage. */
import type { StorageServices } from "../records/services.ts";
import { Receivers } from "./receivers.ts";
import { createDeliverer, type Deliverer } from "./sending/deliver.ts";

export interface NotifierServices extends StorageServices {
  readonly receivers: Receivers;
  readonly deliverer: Deliverer;
}

/** @param replaced parts that are not made here. */
export function createNotifierServices(
  given: StorageServices,
  replaced: Partial<Pick<NotifierServices, "deliverer">> = {},
): NotifierServices {
  const { configuration, clock, telemetry } = given;
  const deliverer =
    replaced.deliverer ?? createDeliverer({ settings: configuration.notifications, clock, telemetry });
  return { ...given, receivers: new Receivers({ ...given, deliverer }), deliverer };
}
