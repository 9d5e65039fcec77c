/** One record for each notification and receiver: written with the change that caused it. */

/** A delivery at the moment when the account change decides that it has to happen. */
export interface NewDelivery {
  /** Its `webhook-id`, the same on every attempt. */
  readonly id: string;
  /** `service:KEY`, `group:KEY` or `portal:KEY`. Together with `sub` it names the lane. */
  readonly receiver: string;
  readonly sub: string;
  /** The documented `notification_type`. */
  readonly type: string;
  /** The documented body, sealed: it holds personal data. */
  readonly payload: string;
  /** Seconds since the epoch: when the action happened. */
  readonly at: number;
}

/** A stored delivery. */
export interface Delivery extends NewDelivery {
  /** Position in its lane, counted up from 1 without a gap. */
  readonly sequence: number;
}

export interface DeliveryStore {
  find(id: string): Promise<Delivery | undefined>;
  /** In the order in which they were stored; those after the delivery `after`, at most `limit`. */
  list(page: { readonly after?: string; readonly limit: number; readonly sub?: string }): Promise<Delivery[]>;
}
