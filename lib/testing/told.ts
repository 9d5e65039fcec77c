/** What the receivers of a test service are told, as the bodies that they get. */
import type { DeliveryState, DeliveryStore } from "../deliveries/delivery.ts";
import type { NotificationBody } from "../../notifier/plan.ts";
import { deliveryContext } from "../domain/account-plan.ts";
import type { Sealer } from "../sealing.ts";

/** One notification for one receiver. */
export interface ToldNotification {
  /** Its `webhook-id`. */
  readonly id: string;
  /** `service:KEY`, `group:KEY` or `portal:KEY`. */
  readonly receiver: string;
  /** `waiting` as long as the service delivers nothing, which is the default of a test service. */
  readonly state: DeliveryState;
  /** The documented body. */
  readonly body: NotificationBody;
}

const PAGE = 500;

/** All of them, in the order in which they were stored. */
export async function readTold(deliveries: DeliveryStore, sealer: Sealer): Promise<ToldNotification[]> {
  const told: ToldNotification[] = [];
  for (let after: string | undefined; ;) {
    const page = await deliveries.list({ limit: PAGE, ...(after !== undefined && { after }) });
    for (const { id, receiver, state, payload } of page) {
      if (payload === null) continue;
      const body = JSON.parse(sealer.open(deliveryContext(id), payload)) as NotificationBody;
      told.push({ id, receiver, state, body });
    }
    after = page.at(-1)?.id;
    if (page.length < PAGE) return told;
  }
}
