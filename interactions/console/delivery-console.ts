/** The notifications as the delivery console sees them. Its pages know nothing else of the notifier. */
import type {
  DeliveryFilter,
  DeliveryState,
  RedriveResult,
  SendNowResult,
} from "../../records/deliveries/delivery.ts";

/** A delivery, without its content. Times are milliseconds since the epoch, except `at`. */
export interface ConsoleDelivery {
  readonly id: string;
  /** `service:KEY`, `group:KEY` or `portal:KEY`. */
  readonly receiver: string;
  readonly sub: string;
  readonly type: string;
  readonly state: DeliveryState;
  /** When the account changed: seconds since the epoch. */
  readonly at: number;
  readonly attempts: number;
  readonly nextAttemptAt: number | null;
  readonly finishedAt: number | null;
  /** Why it was parked or discarded. */
  readonly reason: string | null;
}

/** An attempt: the `status` of the response or, without a response, a short `error` code. */
export interface ConsoleAttempt {
  readonly number: number;
  readonly startedAt: number;
  /** Milliseconds. */
  readonly duration: number;
  readonly status: number | null;
  readonly error: string | null;
  /** The beginning of the receiver's response. */
  readonly answer: string | null;
}

/** A delivery with its attempts, oldest first. */
export interface ConsoleDeliveryDetail extends ConsoleDelivery {
  readonly history: readonly ConsoleAttempt[];
}

/** The condition of a receiver. Times are milliseconds since the epoch. */
export interface ConsoleReceiver {
  readonly receiver: string;
  /** `null` if it is no longer configured. */
  readonly url: string | null;
  readonly paused: boolean;
  /** Why it is paused. */
  readonly reason: string | null;
  /** Consecutive failed attempts. */
  readonly failures: number;
  /** When it is probed with one delivery; `null` unless it is held back after failures. */
  readonly heldUntil: number | null;
  readonly waiting: number;
  readonly parked: number;
  /** When the oldest waiting delivery was stored. */
  readonly oldest: number | null;
}

/** The result of a test. */
export interface ConsoleTest {
  readonly ok: boolean;
  readonly status: number | null;
  readonly error: string | null;
  /** Milliseconds. */
  readonly duration: number;
}

/** One page of the list, newest deliveries first. */
export interface ConsolePage extends DeliveryFilter {
  /** Starts after this delivery. */
  readonly after?: string;
  readonly limit: number;
}

/** The work continues, but the page does not wait for it any longer. */
export type UnderWay = "under way";

/** The operator who acts, for the audit log. */
export interface ByOperator {
  readonly actor: { readonly kind: "operator"; readonly id: string };
}

/** Storage faults reject with `StorageUnavailable`. */
export interface DeliveryConsole {
  /** `next` is `after` of the next page. A page with `next` may hold fewer deliveries than its limit, even none. */
  page(
    page: ConsolePage,
  ): Promise<{ readonly deliveries: readonly ConsoleDelivery[]; readonly next?: string }>;
  /** `undefined` if there is no such delivery. */
  find(id: string): Promise<ConsoleDeliveryDetail | undefined>;
  receivers(): Promise<readonly ConsoleReceiver[]>;
  /** The names of the services, groups and portals of receivers. What is no longer there has none. */
  names(receivers: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Sends it again. Unless forced, `superseded` if that would overwrite newer data. */
  redrive(id: string, options: ByOperator & { readonly force: boolean }): Promise<RedriveResult>;
  /** Sends again every parked delivery that matches. @returns how many had each result. */
  redriveAll(
    filter: Omit<DeliveryFilter, "state">,
    options: ByOperator,
  ): Promise<Readonly<Record<RedriveResult, number>> | UnderWay>;
  /** Gives it up; false unless it is waiting or parked. */
  sendNow(id: string, options: ByOperator): Promise<SendNowResult>;
  discard(id: string, options: ByOperator): Promise<boolean>;
  /** False if it is already paused. */
  pause(receiver: string, options: ByOperator): Promise<boolean>;
  /** False if it is neither paused nor held back. */
  resume(receiver: string, options: ByOperator): Promise<boolean>;
  /** `undefined` if no such receiver is configured. */
  test(receiver: string, options: ByOperator): Promise<ConsoleTest | undefined | UnderWay>;
}
