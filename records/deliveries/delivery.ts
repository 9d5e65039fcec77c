/**
 * A delivery is one record for one notification and one receiver. It is written in the transaction of the change that
 * caused it, and it is the source of truth for what has been sent. The deliveries about one user to one receiver form a
 * lane. Adding a delivery and finishing the last one of a lane both write the lane's record, so that they conflict and
 * no head is missed.
 *
 * Promises in addition to those of `storage.ts`:
 * - the head of a lane is its waiting delivery with the lowest `sequence`, derived from the deliveries;
 * - each operation is one atomic step, decided by the clock that the storage was opened with;
 * - times are milliseconds since the epoch unless stated otherwise; spans are milliseconds.
 */
import type { Transaction } from "../records.ts";
import type { ReceiverState } from "./receiver-state.ts";

/** A delivery as the account change that causes it creates it. */
export interface NewDelivery {
  /** Its `webhook-id`, the same on every attempt. */
  readonly id: string;
  /** `service:KEY`, `group:KEY`, `portal:KEY` or `events:KEY`. Together with `sub` it identifies the lane. */
  readonly receiver: string;
  /** The account; `invitation:ID` for an event about an invitation. */
  readonly sub: string;
  /** The documented `notification_type`, or the `type` of an account event. */
  readonly type: string;
  /** The documented body, sealed because it contains personal data. */
  readonly payload: string;
  /** Seconds since the epoch: when the action happened. */
  readonly at: number;
  /**
   * Milliseconds since the epoch: from then on it is not worth sending. It is given up, and never parked. Missing: it is always
   * worth sending.
   */
  readonly until?: number;
}

/** How long a delivery with `until` is worth sending, also after it is redriven. */
export const WORTH_SENDING_MS = 3_600_000;

/** Why a delivery is discarded that is no longer worth sending. */
export const TOO_LATE = "too_late";

/**
 * `waiting`: to be sent, now or later. `delivered`: answered with 2xx. `parked`: no longer retried, stored until an
 * operator redrives it. `discarded`: given up, by an operator or because it is no longer worth sending.
 */
export const DELIVERY_STATES = ["waiting", "delivered", "parked", "discarded"] as const;

export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** A stored delivery, without its payload. */
export interface Delivery extends Omit<NewDelivery, "payload"> {
  /** Position in its lane, counted from 1 without gaps. */
  readonly sequence: number;
  readonly state: DeliveryState;
  /** How many attempts were made in total. Each has a record. */
  readonly attempts: number;
  /** How many attempts of the retry schedule were used up since the delivery was stored or redriven. */
  readonly failures: number;
  readonly storedAt: number;
  /** Waiting only: the earliest time of the next attempt. In the past if it may be sent now. */
  readonly nextAttemptAt: number | null;
  /** When the delivery was delivered, parked or discarded; `null` while it waits. */
  readonly finishedAt: number | null;
  /** Why the delivery was parked or discarded: a short code; otherwise `null`. */
  readonly reason: string | null;
  /** How the last attempt failed, see `failureOf`; `null` if none was made, or it succeeded. */
  readonly lastError: string | null;
  /** Whether it is the first waiting delivery of its lane. */
  readonly isHead: boolean;
}

/** A stored delivery with its payload. */
export interface WholeDelivery extends Delivery {
  /** `null` once it has been purged. */
  readonly payload: string | null;
}

/** The result of one attempt. */
export interface AttemptRecord {
  readonly startedAt: number;
  readonly duration: number;
  /** The HTTP status; `null` without a response. */
  readonly status: number | null;
  /** A short code without a response; otherwise `null`. */
  readonly error: string | null;
  /** The beginning of the response, sealed; `null` without one, or after it was purged. */
  readonly answer: string | null;
}

/** How an attempt failed: `HTTP 503`, or its short code, such as `ECONNREFUSED`; `null` if it succeeded. */
export function failureOf({ status, error }: Pick<AttemptRecord, "status" | "error">): string | null {
  if (status === null) return error;
  return status >= 200 && status < 300 ? null : `HTTP ${status}`;
}

/** A stored attempt. */
export interface DeliveryAttempt extends AttemptRecord {
  /** Counted from 1 for each delivery; redriving does not reset it. */
  readonly number: number;
}

export interface LaneKey {
  readonly receiver: string;
  readonly sub: string;
}

/** How long a claim is valid, and for which worker. */
export interface LeaseTerms {
  /** The worker that claims: a process name that operators can recognize. */
  readonly owner: string;
  /**
   * The length of the lease: at least the total time-out of an attempt plus 15 seconds. After the claim of a probe the circuit
   * stays open for as long.
   */
  readonly span: number;
}

/** The head of a lane, which only the worker that claimed it may send until the lease ends. */
export interface Claim {
  readonly delivery: WholeDelivery;
  /** A fencing token: each claim of the delivery gets a different number, so that a late result is recognized. */
  readonly fence: number;
  /** After this time another worker may claim the lane. */
  readonly leaseEnd: number;
  /** The circuit is open, and this delivery probes whether it has recovered. */
  readonly probe: boolean;
}

/** The outcome of a claim. */
export type Outcome =
  | { readonly kind: "delivered" }
  /** The attempt failed, and the delivery is due again after this many milliseconds. */
  | { readonly kind: "retry"; readonly after: number }
  /** No further attempt. A delivery with `until` is discarded instead of parked. */
  | { readonly kind: "parked"; readonly reason: string }
  /** Unchanged: the delivery stays the head, is due immediately and has used up no attempt. */
  | { readonly kind: "kept" };

/** Options of `finish`. */
export interface FinishOptions {
  readonly attempt?: AttemptRecord;
  /** Claims the next delivery of the lane in the same step if it may be sent now. */
  readonly lease?: LeaseTerms;
  /**
   * With `lease`: where the next claim may come from. `lane` (the default) claims the next of the lane. `receiver` also
   * claims from another lane of the receiver if this one has nothing that may be sent now, under the conditions of
   * `claimDue`, but never a probe; it may miss one that is due.
   */
  readonly claimFrom?: "lane" | "receiver";
}

/** Whether the outcome was recorded, and the next claim if `lease` requested one. */
export interface Finished {
  /** `false` if another worker has claimed the lane in the meantime: nothing was written. */
  readonly recorded: boolean;
  /** The next delivery of the lane or of the receiver, claimed in the same step. */
  readonly next?: Claim;
  /** With `next`: the state of the receiver, which was read to claim it. */
  readonly receiver?: ReceiverState | undefined;
}

/** A receiver that is not paused and has waiting deliveries, with those that `dueReceivers` has read. */
export interface DueReceiver {
  readonly receiver: string;
  /** When the first of its lanes may be claimed, taking open circuits and current leases into account. */
  readonly dueAt: number;
}

/** Of what `deliveries resume` sends. */
export const HELD_SINCE = "held since the storage was restored or promoted";

/** Why a receiver is paused since then: `deliveries resume` resumes all that are. */
export const RESTORED: string = `${HELD_SINCE}, until deliveries resume`;

export interface DeliveryFilter {
  readonly receiver?: string;
  readonly sub?: string;
  readonly type?: string;
  readonly state?: DeliveryState;
}

export interface DeliveryPage extends DeliveryFilter {
  /** The id of the last delivery of the page before. After an unknown delivery the page is empty. */
  readonly after?: string;
  readonly limit: number;
  /** Default `oldest`. */
  readonly first?: "oldest" | "newest";
}

/** One page of deliveries. */
export interface DeliveryList {
  readonly deliveries: readonly Delivery[];
  /** `after` of the next page; missing at the end. A page with `next` may have fewer deliveries than its limit, even none. */
  readonly next?: string;
}

/** The result of a redrive. `superseded`: it would restore old data. `purged`: the payload is gone. */
export type RedriveResult = "redriven" | "superseded" | "waiting" | "purged" | "unknown";

/**
 * The result of sending a waiting delivery now. `due`: it is sent as soon as a worker is free. `sending`: it is being sent
 * already. `behind`: an earlier one of its lane must be delivered or parked first. `stopped`: its receiver is paused, or its
 * circuit is open. `over`: it does not wait.
 */
export type SendNowResult = "due" | "sending" | "behind" | "stopped" | "over" | "unknown";

/** Counts stop here, so that a look at a large backlog takes no longer than at a small one. */
export const MOST_COUNTED = 10_000;

/** The sum of such counts for people: `10000+` if there may be more. */
export function countText(counts: readonly number[]): string {
  const sum = counts.reduce((all, count) => all + count, 0);
  return counts.some((count) => count >= MOST_COUNTED) ? `${sum}+` : String(sum);
}

/** How many deliveries of one receiver wait or are parked. At most {@link MOST_COUNTED}. Receivers with neither are left out. */
export interface ReceiverCounts {
  readonly receiver: string;
  readonly waiting: number;
  readonly parked: number;
  /**
   * When the oldest waiting delivery was stored. While many wait, those that are being sent for the first time don't
   * count.
   */
  readonly oldest: number | null;
}

/** How many deliveries were stored in a span of time, and how many of them are parked. */
export interface SpanCounts {
  /** The beginning of the span. */
  readonly from: number;
  readonly stored: number;
  readonly parked: number;
}

/** The ages at which data is purged, as points in time. */
export interface PurgeLimits {
  /** Payloads and responses of deliveries that were delivered or discarded until then. */
  readonly payloads: number;
  /** Everything that was finished until then, parked deliveries included. */
  readonly records: number;
  /** The most deliveries in one step. */
  readonly limit: number;
}

/** Receives the delivery as the change leaves it, so that the caller need not read it again. Called once for each try. */
export type Changed = (delivery: Delivery) => void;

export interface DeliveryStore {
  /**
   * Stores deliveries with the change that causes them, each at the end of its lane.
   * @throws AlreadyExists for an id that is stored already.
   */
  add(tx: Transaction, deliveries: readonly NewDelivery[]): Promise<void>;
  find(id: string): Promise<WholeDelivery | undefined>;
  /** In the order of storing or the reverse. Looks at a bounded number of deliveries, so that it stays fast. */
  page(page: DeliveryPage): Promise<DeliveryList>;
  /** The same, but looks at as many deliveries as it takes to find `limit`. */
  list(page: DeliveryPage): Promise<Delivery[]>;
  /** The attempts of a delivery, oldest first. */
  attempts(id: string): Promise<DeliveryAttempt[]>;
  /** For metrics; ordered by receiver. */
  counts(): Promise<ReceiverCounts[]>;
  /** How many deliveries wait for a receiver, at most `most`. */
  countWaiting(receiver: string, most: number): Promise<number>;
  /** How many are parked, of all receivers. The count of each stops at `most`. */
  countParked(most: number): Promise<number>;
  /**
   * The deliveries of all receivers in spans of this length that end now, the oldest span first. Counts index entries, so
   * that it stays fast whatever was stored.
   */
  recent(spans: { readonly number: number; readonly lengthMs: number }): Promise<SpanCounts[]>;
  /** When the oldest waiting and the oldest parked notification of a deleted account were stored. One indexed read. */
  oldestDeletions(): Promise<Readonly<Record<"waiting" | "parked", number | undefined>>>;

  /**
   * Calls back soon after another process may have stored something to send. A hint, which may never come.
   * @returns a function that ends the watch.
   */
  watch(onChange: () => void): () => void;

  /**
   * Ordered by receiver, including those that are due later. The cost grows with the receivers, not with the lanes.
   * @param most how many deliveries `claimDue` will claim for each at most. Default: none.
   */
  dueReceivers(most?: number): Promise<DueReceiver[]>;
  /**
   * Claims the due heads of a receiver's lanes, first due first, at most `limit`. Claims nothing while the receiver is
   * paused or its circuit is open; when that may be probed, it claims one head and keeps the circuit open for another lease.
   * @param due the receiver as `dueReceivers` has just found it: only what it found is claimed, without reading it again. By
   * name, what is due is read.
   */
  claimDue(due: string | DueReceiver, limit: number, lease: LeaseTerms): Promise<Claim[]>;
  /**
   * Records the outcome of a claim, with the attempt if one was made, and releases the lane; or, with `lease`,
   * claims the next delivery of the lane in the same step if it may be sent now. A delivery that was discarded in the
   * meantime stays discarded, unless it was delivered. If the storage's machine loses power, the outcome `delivered` may
   * be lost, and the delivery is sent again. All other outcomes are durable when the call resolves.
   */
  finish(claim: Claim, outcome: Outcome, more?: FinishOptions): Promise<Finished>;

  receiver(name: string): Promise<ReceiverState>;
  /** The receivers whose state is not the initial one. */
  receivers(): Promise<ReadonlyMap<string, ReceiverState>>;
  /**
   * Changes the state of a receiver in one step.
   * @param decide pure, because it may be called again; `undefined` leaves the state unchanged.
   * @returns the state before and after.
   */
  changeReceiver(
    name: string,
    decide: (state: ReceiverState) => ReceiverState | undefined,
  ): Promise<{ readonly before: ReceiverState; readonly after: ReceiverState }>;
  /**
   * Makes deliveries due that failed until `releaseUntil`, oldest first, at most `limit` lanes; clears the mark when
   * none is left.
   * @returns how many were made due.
   */
  releaseFailed(receiver: string, limit: number): Promise<number>;
  /**
   * Parks waiting deliveries of a receiver, at most `limit`; discards those that are only worth sending for a while.
   * @returns how many.
   */
  parkWaiting(receiver: string, reason: string, limit: number): Promise<number>;
  /** Discards waiting deliveries that are no longer worth sending, at most `limit`. @returns how many of each receiver. */
  discardLate(limit: number): Promise<ReadonlyMap<string, number>>;

  /**
   * Makes deliveries wait again, due immediately and with all attempts of the schedule, in one step. A redriven delivery
   * becomes the head of its lane, after redriven ones with a lower sequence. Deliveries behind it that had failed are due
   * as soon as they are the head.
   * @param supersedable types that are `superseded` if their lane has delivered something later or is sending it now,
   *   because that may arrive first.
   */
  redrive(
    ids: readonly string[],
    options: { readonly supersedable: readonly string[]; readonly changed?: Changed },
  ): Promise<ReadonlyMap<string, RedriveResult>>;
  /** Makes a waiting delivery due, whatever the retry schedule says. The order of its lane stays. */
  sendNow(id: string, changed?: Changed): Promise<SendNowResult>;
  /** Gives up a waiting or parked delivery; `false` when there is no such delivery. */
  discard(id: string, reason: string, changed?: Changed): Promise<boolean>;

  /** Purges old data. @returns how many deliveries were changed; if `limit`, there may be more. */
  purge(limits: PurgeLimits): Promise<number>;
  /**
   * Derives the heads of lanes from their deliveries and corrects lanes that differ: those after `after`, at most
   * `limit`.
   * @returns how many were wrong, and `after` for the next call; no `after` at the end.
   */
  reconcile(page: {
    readonly after?: LaneKey;
    readonly limit: number;
  }): Promise<{ readonly repaired: number; readonly after?: LaneKey }>;
}
