/** What the delivery console needs of the notifications: the only thing that its pages know of them. */
import type { DeliveryFilter, DeliveryState, RedriveResult } from "../lib/deliveries/delivery.ts";

/** A delivery, without what it says. Times are milliseconds since the epoch, but for `at`. */
export interface ConsoleDelivery {
  readonly id: string;
  /** `service:KEY`, `group:KEY` or `portal:KEY`. */
  readonly receiver: string;
  readonly sub: string;
  readonly type: string;
  readonly state: DeliveryState;
  /** Seconds since the epoch: when the action happened. */
  readonly at: number;
  readonly attempts: number;
  readonly nextAttemptAt: number | null;
  readonly finishedAt: number | null;
  /** Why it is parked or discarded. */
  readonly reason: string | null;
}

/** One attempt: `status` of the answer, or `error`, a short code, when there was none. */
export interface ConsoleAttempt {
  readonly number: number;
  readonly startedAt: number;
  /** Milliseconds. */
  readonly duration: number;
  readonly status: number | null;
  readonly error: string | null;
  /** The beginning of the answer: text of the receiver. */
  readonly answer: string | null;
}

/** A delivery with its attempts, the first one first. */
export interface ConsoleDeliveryDetail extends ConsoleDelivery {
  readonly history: readonly ConsoleAttempt[];
}

/** How a receiver is doing. Times are milliseconds since the epoch. */
export interface ConsoleReceiver {
  readonly receiver: string;
  /** `null` when it is not configured any more. */
  readonly url: string | null;
  readonly paused: boolean;
  /** Why it is paused. */
  readonly reason: string | null;
  /** Failed attempts in a row. */
  readonly failures: number;
  /** When it is tried with one delivery; `null` while nothing holds it back. */
  readonly heldUntil: number | null;
  readonly waiting: number;
  readonly parked: number;
  /** When the oldest delivery that waits was stored. */
  readonly oldest: number | null;
}

/** What came of a test. */
export interface ConsoleTest {
  readonly ok: boolean;
  readonly status: number | null;
  readonly error: string | null;
  /** Milliseconds. */
  readonly duration: number;
}

/** A page of deliveries, newest first. */
export interface ConsolePage extends DeliveryFilter {
  /** Those after this delivery. */
  readonly after?: string;
  readonly limit: number;
}

/** Work that goes on when the page can't wait any longer. */
export type UnderWay = "under way";

/** Who asks, for the audit. */
export interface ConsoleAsked {
  /** The operator. */
  readonly actor: { readonly kind: "operator"; readonly id: string };
}

/** Faults of the storage reject with `StorageUnavailable`. */
export interface DeliveryConsole {
  /** `next` is `after` of the next page; a page that has it may hold fewer than its limit, even none. */
  page(
    asked: ConsolePage,
  ): Promise<{ readonly deliveries: readonly ConsoleDelivery[]; readonly next?: string }>;
  /** `undefined` when there is no such delivery. */
  find(id: string): Promise<ConsoleDeliveryDetail | undefined>;
  receivers(): Promise<readonly ConsoleReceiver[]>;
  /** Sends again; what would bring old data back is `superseded` unless forced. */
  redrive(id: string, options: ConsoleAsked & { readonly force: boolean }): Promise<RedriveResult>;
  /** Sends again whatever is parked and fits. @returns how many came to what. */
  redriveAll(
    filter: Omit<DeliveryFilter, "state">,
    options: ConsoleAsked,
  ): Promise<Readonly<Record<RedriveResult, number>> | UnderWay>;
  /** Gives one up; false when it neither waits nor is parked. */
  discard(id: string, options: ConsoleAsked): Promise<boolean>;
  /** False when it was paused already. */
  pause(receiver: string, options: ConsoleAsked): Promise<boolean>;
  /** False when nothing held it back. */
  resume(receiver: string, options: ConsoleAsked): Promise<boolean>;
  /** `undefined` when no such receiver is configured. */
  test(receiver: string, options: ConsoleAsked): Promise<ConsoleTest | undefined | UnderWay>;
}
