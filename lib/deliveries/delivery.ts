/**
 * One record for each notification and receiver: written with the change that caused it, and the truth about
 * what has been sent. Deliveries about one user to one receiver form a lane, and a lane is one record: whatever
 * changes what is first in it writes that record too, so that two writers conflict and no head is missed.
 *
 * Promises beside those of `storage.ts`:
 * - the head of a lane is its waiting delivery with the lowest `sequence`; it is worked out from the deliveries;
 * - each operation is one atomic step, and is decided by the clock that the storage was opened with;
 * - times are milliseconds since the epoch unless it says seconds, spans are milliseconds.
 */

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

/**
 * `waiting`: to be sent, now or later. `delivered`: answered with 2xx. `parked`: not tried any more, kept until
 * somebody redrives it. `discarded`: given up on purpose.
 */
export type DeliveryState = "waiting" | "delivered" | "parked" | "discarded";

/** A stored delivery. */
export interface Delivery extends Omit<NewDelivery, "payload"> {
  /** `null` once it has been purged. */
  readonly payload: string | null;
  /** Position in its lane, counted up from 1 without a gap. */
  readonly sequence: number;
  readonly state: DeliveryState;
  /** How many attempts were made in all: that many have a record. */
  readonly attempts: number;
  /** How many attempts of the retry schedule are used up since it was stored or redriven. */
  readonly failures: number;
  readonly storedAt: number;
  /** Waiting only: not before. In the past for what may go at once. */
  readonly nextAttemptAt: number | null;
  /** When it was delivered, parked or discarded; `null` while it waits. */
  readonly finishedAt: number | null;
  /** Why it is parked or discarded: a short code; `null` else. */
  readonly reason: string | null;
}

/** What one attempt came to. */
export interface AttemptRecord {
  readonly startedAt: number;
  readonly duration: number;
  /** The HTTP status; `null` when there was no answer. */
  readonly status: number | null;
  /** A short code when there was no answer; `null` else. */
  readonly error: string | null;
  /** The beginning of the answer, sealed; `null` without one, and once it has been purged. */
  readonly answer: string | null;
}

/** A kept attempt. */
export interface DeliveryAttempt extends AttemptRecord {
  /** Counted up from 1 for each delivery, redriven or not. */
  readonly number: number;
}

export interface LaneKey {
  readonly receiver: string;
  readonly sub: string;
}

/** For how long a claim is good, and for whom. */
export interface LeaseTerms {
  /** Who claims: a name of the process, to be seen by operators. */
  readonly owner: string;
  /** At least the total time-out of an attempt plus 15 seconds. */
  readonly span: number;
  /** A receiver that is held back gives one claim at the end of its hold; this is how long it is held then. */
  readonly holdAgain: number;
}

/** The head of a lane, for whoever claimed it to send, until the lease ends. */
export interface Claim {
  readonly delivery: Delivery;
  /** Another number at every claim of the delivery: tells a claim from the one that came after it. */
  readonly fence: number;
  /** After this another worker may claim the lane. */
  readonly leaseEnd: number;
  /** The receiver is held back, and this one is to show how it is. */
  readonly probe: boolean;
}

/** What becomes of a claimed delivery. */
export type Outcome =
  | { readonly kind: "delivered" }
  /** It failed and is due again after so many milliseconds. */
  | { readonly kind: "retry"; readonly after: number }
  | { readonly kind: "parked"; readonly reason: string }
  /** As it was: it stays the head, is due at once and has used up nothing. */
  | { readonly kind: "kept" };

/** What goes with an outcome. */
export interface FinishOptions {
  readonly attempt?: AttemptRecord;
  /** Claims the next of the lane in the same step if it may go now. */
  readonly lease?: LeaseTerms;
  /**
   * With `lease`: where the next claim may come from. `lane` (the default) claims the next of the lane. `receiver` also
   * claims from another lane of the receiver if this one has nothing that may be sent now, under the conditions of
   * `claimDue`, but never a probe; it may miss one that is due.
   */
  readonly claimFrom?: "lane" | "receiver";
}

/** Whether the result counted, and what comes next in the lane when it was asked for. */
export interface Finished {
  /** False when the lane was claimed by somebody else in between: nothing was written. */
  readonly recorded: boolean;
  /** The next of the lane, or of the receiver, claimed in the same step. */
  readonly next?: Claim;
}

/** A receiver that has something waiting and is not paused. */
export interface DueReceiver {
  readonly receiver: string;
  /** When the first of its lanes may be claimed; a hold is counted in, and a lease that has not ended. */
  readonly dueAt: number;
}

/** A lane with a head. */
export interface LaneHead extends LaneKey {
  readonly dueAt: number;
  /** `id` and `attempts` of the head. */
  readonly id: string;
  readonly attempts: number;
}

/** How a receiver is doing. One that was never touched has {@link untouchedReceiver}. */
export interface ReceiverState {
  /** Nothing is claimed while it is. */
  readonly paused: boolean;
  /** Why it is paused, for operators to read; `null` when it is not. */
  readonly reason: string | null;
  /** Failed attempts in a row. */
  readonly failures: number;
  /** Nothing is claimed before; at this time one delivery is, to see how the receiver is. `null`: not held. */
  readonly heldUntil: number | null;
  /** How long it is held after the next failed probe; 0 when it is not held. */
  readonly holdSpan: number;
  /** Deliveries that failed up to this time are to be made due, see `releaseHeld`; `null`: none. */
  readonly releaseUntil: number | null;
}

/** The state of a receiver about which nothing is kept. */
export const untouchedReceiver: ReceiverState = Object.freeze({
  paused: false,
  reason: null,
  failures: 0,
  heldUntil: null,
  holdSpan: 0,
  releaseUntil: null,
});

export interface DeliveryFilter {
  readonly receiver?: string;
  readonly sub?: string;
  readonly type?: string;
  readonly state?: DeliveryState;
}

export interface DeliveryPage extends DeliveryFilter {
  /** Those after this delivery; after an unknown one there is nothing. */
  readonly after?: string;
  readonly limit: number;
  /** Default `oldest`. */
  readonly first?: "oldest" | "newest";
}

/** One page of deliveries. */
export interface DeliveryList {
  readonly deliveries: readonly Delivery[];
  /** `after` of the next page; missing at the end. A page that has it may hold fewer than its limit, even none. */
  readonly next?: string;
}

/** What a redrive came to. `superseded`: it would bring old data back. `purged`: its payload is gone. */
export type RedriveResult = "redriven" | "superseded" | "waiting" | "purged" | "unknown";

/** How much one receiver has. Receivers with neither are left out. */
export interface ReceiverCounts {
  readonly receiver: string;
  readonly waiting: number;
  readonly parked: number;
  /** When the oldest waiting one was stored. */
  readonly oldest: number | null;
}

/** What is old enough to go, as points in time. */
export interface PurgeLimits {
  /** Payloads and answers of what was delivered or discarded until then. */
  readonly payloads: number;
  /** All that was finished until then, parked deliveries too. */
  readonly records: number;
  /** At most so many deliveries in one step. */
  readonly limit: number;
}

export interface DeliveryStore {
  find(id: string): Promise<Delivery | undefined>;
  /** In the order in which they were stored, or the other way round; looks at so many that nobody waits long. */
  page(page: DeliveryPage): Promise<DeliveryList>;
  /** The same, however many have to be looked at until there are `limit`. */
  list(page: DeliveryPage): Promise<Delivery[]>;
  /** The attempts of a delivery, the first one first. */
  attempts(id: string): Promise<DeliveryAttempt[]>;
  /** For metrics; ordered by receiver. */
  counts(): Promise<ReceiverCounts[]>;

  /**
   * Calls back soon after another process may have stored something to send; a hint that may never come.
   * @returns what ends it.
   */
  watch(onChange: () => void): () => void;

  /** Ordered by receiver, those that are due later included. Costs as much as there are receivers, not lanes. */
  dueReceivers(): Promise<DueReceiver[]>;
  /** The lanes of a receiver, first due first, those that are due `within` so many milliseconds, at most `limit`. */
  dueLanes(receiver: string, page: { readonly within: number; readonly limit: number }): Promise<LaneHead[]>;
  /**
   * Claims the heads of the lanes of a receiver that are due, first due first, at most `limit`. Nothing while the
   * receiver is paused or held; at the end of a hold one, and it is held again.
   */
  claimDue(receiver: string, limit: number, lease: LeaseTerms): Promise<Claim[]>;
  /** Claims the head of one lane if it is due, under the same conditions. */
  claimLane(lane: LaneKey, lease: LeaseTerms): Promise<Claim | undefined>;
  /**
   * Records what became of a claim, with the attempt if one was made, and lets the lane go; or, with `lease`,
   * claims the next of the lane in the same step if it may go now. A delivery that was discarded meanwhile stays
   * so, unless it was delivered. That something was delivered may be forgotten when the power of the storage's
   * machine is lost, and then it goes again; what is claimed and everything else is told when it lasts.
   */
  finish(claim: Claim, outcome: Outcome, more?: FinishOptions): Promise<Finished>;

  receiver(name: string): Promise<ReceiverState>;
  /** The receivers about which something is kept. */
  receivers(): Promise<ReadonlyMap<string, ReceiverState>>;
  /**
   * Changes the state of a receiver in one step.
   * @param decide pure, for it may be called again; `undefined` leaves it as it is.
   * @returns the state before and after.
   */
  changeReceiver(
    name: string,
    decide: (state: ReceiverState) => ReceiverState | undefined,
  ): Promise<{ readonly before: ReceiverState; readonly after: ReceiverState }>;
  /**
   * Makes due at once what failed until `releaseUntil`, the oldest first, at most `limit` lanes; takes the mark
   * away when nothing is left.
   * @returns how many were made due.
   */
  releaseHeld(receiver: string, limit: number): Promise<number>;
  /** Parks what waits for a receiver, at most `limit`. @returns how many. */
  parkWaiting(receiver: string, reason: string, limit: number): Promise<number>;

  /**
   * Makes deliveries wait again, due at once and with all attempts before them, all of them in one step. One that
   * was redriven is the head of its lane, before it others that were redriven and come earlier. What has failed behind
   * it is due as soon as it is the head.
   * @param supersedable types that are `superseded` when their lane has delivered something later, or is sending it now:
   *   it might arrive before them.
   */
  redrive(
    ids: readonly string[],
    options: { readonly supersedable: readonly string[] },
  ): Promise<ReadonlyMap<string, RedriveResult>>;
  /** Gives up a delivery that waits or is parked; false when there is none such. */
  discard(id: string, reason: string): Promise<boolean>;

  /** Purges. @returns how many deliveries were touched; as many as `limit` means that there may be more. */
  purge(limits: PurgeLimits): Promise<number>;
  /**
   * Works the lanes in which something waits out from the deliveries, those after `after`, at most `limit` of
   * them, and puts right what differs.
   * @returns how many were wrong, and where to go on; no `after` at the end.
   */
  reconcile(page: {
    readonly after?: LaneKey;
    readonly limit: number;
  }): Promise<{ readonly repaired: number; readonly after?: LaneKey }>;
}
