/** Deliveries and attempts as the public calls show them: without their payloads. */
import type { Delivery, DeliveryAttempt } from "../lib/deliveries/delivery.ts";

/** Times are milliseconds since the epoch, but for `at`. */
export type ShownDelivery = Omit<Delivery, "payload">;

/** One attempt: `status` of the answer, or `error`, a short code, when there was none. */
export interface ShownAttempt extends Omit<DeliveryAttempt, "answer"> {
  /** The beginning of the answer, at most 4 KiB: text of the receiver, so escape it. `null` without one. */
  readonly answer: string | null;
}

export function shownDelivery({ payload: _sealed, ...delivery }: Delivery): ShownDelivery {
  return delivery;
}

/** @param answer the opened one. */
export function shownAttempt(attempt: DeliveryAttempt, answer: string | null): ShownAttempt {
  return { ...attempt, answer };
}
