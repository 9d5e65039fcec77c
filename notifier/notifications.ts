/** The public calls for notifications: lists, reports and operations. */
import type { NotificationType } from "../accounts/plan.ts";
import type { AuditAction } from "../records/audit/actions.ts";
import type { AuditDetail } from "../records/audit/audit-event.ts";
import {
  type Delivery,
  type DeliveryAttempt,
  type DeliveryFilter,
  type DeliveryStore,
  type ReceiverState,
  type RedriveResult,
  RESTORED,
  type SpanCounts,
  type SendNowResult,
  untouchedReceiver,
} from "../records/deliveries/delivery.ts";
import { answerContext } from "../records/deliveries/delivery-kinds.ts";
import { callerFor, type CallOptions, checked } from "../accounts/arguments.ts";
import { type ExplainedAction, explain, type Explanation } from "./explain.ts";
import {
  anyText,
  callOptions,
  deliveryFilter,
  deliveryPage,
  explainedAction,
  pauseOptions,
  receiverName,
  redriveOptions,
} from "./notifications-schema.ts";
import type { DeliveryPageInput } from "./notifications-schema.ts";
import type { ReceiverReport, TestResult } from "./receivers.ts";
import { inSeconds } from "../core/clock.ts";
import type { NotifierServices } from "./services.ts";

/** A delivery without its payload. Times are seconds since the epoch. */
export interface ShownDelivery extends Omit<
  Delivery,
  "isHead" | "storedAt" | "nextAttemptAt" | "finishedAt" | "lastError"
> {
  readonly stored_at: number;
  /**
   * Waiting only: the earliest time of the next attempt, which is in the past if it is made as soon as a worker is free.
   * `null` while nothing says when: the receiver is paused, or an earlier delivery of the lane comes first.
   */
  readonly next_attempt_at: number | null;
  /** When the delivery was delivered, parked or discarded; `null` while it waits. */
  readonly finished_at: number | null;
  /** How the last attempt failed: `HTTP 503`, or a short code; `null` if none was made, or it succeeded. */
  readonly last_error: string | null;
  /**
   * Why the delivery was parked or discarded; or why it still waits: `receiver_paused`, `receiver_held`, `behind` (an
   * earlier one about the same user comes first) or `attempt_failed`. `null` if it was delivered, or is due.
   */
  readonly reason: string | null;
}

/** One attempt: `status` of the response, or `error`, a short code, when no response came. */
export interface ShownAttempt extends Omit<DeliveryAttempt, "answer" | "startedAt" | "duration"> {
  /** Seconds since the epoch. */
  readonly started_at: number;
  readonly duration_ms: number;
  /** The first 4 KiB of the response: text of the receiver, so escape it. `null` without a response. */
  readonly answer: string | null;
}

/** A delivery about an account: whether and when its receiver accepted it. */
export interface Acknowledgement {
  /** Its `webhook-id`. */
  readonly id: string;
  readonly receiver: string;
  readonly type: string;
  /** Seconds since the epoch: when the action happened. */
  readonly at: number;
  readonly state: ShownDelivery["state"];
  /** When the receiver last answered with 2xx, in seconds since the epoch; `null` if it never has. */
  readonly acknowledged_at: number | null;
}

/** One page of deliveries. */
export interface ShownDeliveryPage {
  readonly deliveries: readonly ShownDelivery[];
  /** `after` of the next page; missing at the end. */
  readonly next?: string;
}

/**
 * Receivers are named `service:KEY`, `group:KEY` and `portal:KEY`. A fault of the storage rejects with
 * `StorageUnavailable`, a wrong argument with an `InvalidArgument` that names it.
 * Every call that changes or sends something first writes an audit record; `actor` is recorded there.
 */
export interface Notifications {
  /** All deliveries, or those that match the filter, in pages of at most 500 (default 100), oldest first by default. */
  list(filter?: DeliveryPageInput): Promise<ShownDelivery[]>;
  /**
   * One page of the same, with `next` to pass as `after` for the next page. To stay fast when matches are rare, a call
   * looks at about a thousand deliveries: a page may have fewer than `limit`, even none, although there is a next one.
   */
  page(filter?: DeliveryPageInput): Promise<ShownDeliveryPage>;
  /** A delivery by its `webhook-id`, with its attempts. */
  find(id: string): Promise<(ShownDelivery & { readonly history: readonly ShownAttempt[] }) | undefined>;
  /**
   * Sends a delivery again, immediately and as the head of its lane, with all attempts of the schedule. `superseded`: it is
   * a `PROFILE_CHANGED` older than what its lane has delivered since; only `force` sends it.
   */
  redrive(id: string, options?: CallOptions & { readonly force?: boolean }): Promise<RedriveResult>;
  /**
   * Sends a waiting delivery now instead of at its next attempt. `due`: it is sent as soon as a worker is free. `sending`:
   * it is being sent already. `behind`: it waits for an earlier one about the same user. `held`: the receiver is paused or
   * held back, see `resume`. `over`: it was delivered, parked or discarded.
   */
  sendNow(id: string, options?: CallOptions): Promise<SendNowResult>;
  /** Redrives all parked deliveries that match the filter, in order. @returns how many had each result. */
  redriveAll(
    filter?: Omit<DeliveryFilter, "state">,
    options?: CallOptions & { readonly force?: boolean },
  ): Promise<Readonly<Record<RedriveResult, number>>>;
  /** Gives up a waiting or parked delivery; `false` when there is no such delivery. */
  discard(id: string, options?: CallOptions): Promise<boolean>;
  /** Starts no more deliveries to this receiver; `false` when it was paused already. */
  pause(receiver: string, options?: CallOptions & { readonly reason?: string }): Promise<boolean>;
  /**
   * Sends everything that waits for this receiver, whatever held it back; `false` when nothing did: it was neither paused
   * nor held back, and no delivery waited for its next attempt.
   */
  resume(receiver: string, options?: CallOptions): Promise<boolean>;
  /**
   * Resumes every receiver, and sends all mail, that has been held since the storage was restored or promoted. Receivers that
   * are paused for another reason stay so.
   * @returns the names of the receivers, and how many mails there were.
   */
  resumeRestored(
    options?: CallOptions,
  ): Promise<{ readonly receivers: readonly string[]; readonly mails: number }>;
  /** How many mails are held since the storage was restored or promoted. */
  heldMails(): Promise<number>;
  /**
   * Sends one notification about no real account, without retries: a documented body with the nil UUID and the
   * `user_id` 0. `undefined` when no such receiver is configured.
   */
  test(receiver: string, options?: CallOptions): Promise<TestResult | undefined>;
  /** Which receivers would get what for such an action, and why others would not. Sends nothing. `undefined` without the account. */
  explain(action: ExplainedAction): Promise<Explanation[] | undefined>;
  /** The notifications about an account, oldest first, for as long as the records are kept. */
  acknowledgements(sub: string): Promise<Acknowledgement[]>;
  /** All receivers that are configured or have deliveries or state, ordered by name. */
  receivers(): Promise<ReceiverReport[]>;
  /** What was stored in the last hour, in spans of five minutes, and how much of it is parked. */
  lastHour(): Promise<SpanCounts[]>;
}

/** Twelve spans of five minutes. */
const LAST_HOUR = { number: 12, lengthMs: 300_000 };

/** Deliveries that `acknowledgements` reads at a time. */
const PAGE = 500;
const BY_HAND = "by_hand";

/**
 * The calls on one storage. They work whether or not a worker runs in this process.
 * @param wake.deliveries called when more may be due than before.
 * @param wake.mail called when mail is due.
 */
export function createNotifications(
  {
    storage,
    receivers,
    breaker,
    sealer,
    deliverer,
    events,
    clock,
  }: Pick<
    NotifierServices,
    "storage" | "receivers" | "breaker" | "sealer" | "deliverer" | "events" | "clock"
  >,
  wake: { readonly deliveries: () => void; readonly mail: () => void },
): Notifications {
  const { deliveries, directory, audit, outbox } = storage;

  /**
   * Writes the audit record of a request before it is carried out, so that nothing happens without one. It says what
   * was requested, not the result. The subject is a `webhook-id` or the name of a receiver.
   */
  function record(
    action: Extract<AuditAction, `delivery.${string}` | `receiver.${string}`>,
    subject: string,
    { actor }: CallOptions,
    detail?: AuditDetail,
  ): Promise<void> {
    return audit.append({ ...callerFor(actor), action, subject, ...(detail && { detail }) });
  }

  function openAttempt(
    id: string,
    { startedAt, duration, answer: sealed, ...attempt }: DeliveryAttempt,
  ): ShownAttempt {
    const answer = sealed === null ? null : openAnswer(id, sealed);
    return { ...attempt, started_at: inSeconds(startedAt), duration_ms: duration, answer };
  }

  function openAnswer(id: string, sealed: string): string | null {
    try {
      return sealer.open(answerContext(id), sealed);
    } catch {
      // No key opens it any more. The rest can still be shown.
      return null;
    }
  }

  return {
    async list(filter = {}) {
      const { limit = 100, ...page } = checked("filter", deliveryPage, filter);
      const [found, states] = await Promise.all([
        deliveries.list({ ...page, limit }),
        deliveries.receivers(),
      ]);
      return found.map((each) => shown(each, states));
    },
    async page(filter = {}) {
      const { limit = 100, ...page } = checked("filter", deliveryPage, filter);
      const [found, states] = await Promise.all([
        deliveries.page({ ...page, limit }),
        deliveries.receivers(),
      ]);
      return { ...found, deliveries: found.deliveries.map((each) => shown(each, states)) };
    },
    async find(id) {
      const found = await deliveries.find(checked("id", anyText, id));
      if (found === undefined) return undefined;
      const { payload: _sealed, ...delivery } = found;
      const [attempts, states] = await Promise.all([deliveries.attempts(id), deliveries.receivers()]);
      const history = attempts.map((each) => openAttempt(id, each));
      return { ...shown(delivery, states), history };
    },
    async redrive(id, options = {}) {
      const { force = false, ...caller } = checked("options", redriveOptions, options);
      const key = checked("id", anyText, id);
      if ((await deliveries.find(key)) === undefined) return "unknown";
      await record("delivery.redrive_requested", key, caller, { force });
      const results = await deliveries.redrive([key], { supersedable: force ? [] : SUPERSEDABLE });
      const result = results.get(key) ?? "unknown";
      if (result === "redriven") events.emit("delivery.redriven", { id: key });
      wake.deliveries();
      return result;
    },
    async redriveAll(filter = {}, options = {}) {
      const { force = false, ...caller } = checked("options", redriveOptions, options);
      const wanted = checked("filter", deliveryFilter, filter);
      const { receiver = "*", ...rest } = wanted;
      await record("delivery.redrive_all_requested", receiver, caller, { ...rest, force });
      return redriveMatching(deliveries, wanted, force ? [] : SUPERSEDABLE, (redriven) => {
        for (const id of redriven) events.emit("delivery.redriven", { id });
        wake.deliveries();
      });
    },
    async sendNow(id, options = {}) {
      const caller = checked("options", callOptions, options);
      if ((await deliveries.find(checked("id", anyText, id))) === undefined) return "unknown";
      await record("delivery.send_now_requested", id, caller);
      const result = await deliveries.sendNow(id);
      wake.deliveries();
      return result;
    },
    async discard(id, options = {}) {
      const caller = checked("options", callOptions, options);
      if ((await deliveries.find(checked("id", anyText, id))) === undefined) return false;
      await record("delivery.discard_requested", id, caller);
      const discarded = await deliveries.discard(id, BY_HAND);
      if (discarded) events.emit("delivery.discarded", { id });
      wake.deliveries();
      return discarded;
    },
    async pause(receiver, options = {}) {
      // The reason is free text, so it is kept with the receiver while it is paused, and not in the audit.
      const { reason = "by hand", ...caller } = checked("options", pauseOptions, options);
      const name = checked("receiver", receiverName, receiver);
      await record("receiver.pause_requested", name, caller);
      return breaker.pause(name, reason);
    },
    async resume(receiver, options = {}) {
      const name = checked("receiver", receiverName, receiver);
      await record("receiver.resume_requested", name, checked("options", callOptions, options));
      const resumed = await breaker.resume(name);
      wake.deliveries();
      return resumed;
    },
    async resumeRestored(options = {}) {
      const caller = checked("options", callOptions, options);
      const resumed: string[] = [];
      for (const [receiver, { reason }] of await deliveries.receivers()) {
        if (reason !== RESTORED) continue;
        await record("receiver.resume_requested", receiver, caller);
        if (await breaker.resume(receiver, RESTORED)) resumed.push(receiver);
      }
      const held = await outbox.held();
      if (held > 0) await audit.append({ ...callerFor(caller.actor), action: "mail.resume_requested" });
      const mails = held > 0 ? await outbox.release() : 0;
      wake.deliveries();
      wake.mail();
      return { receivers: resumed.toSorted(), mails };
    },
    heldMails: () => outbox.held(),
    async test(receiver, options = {}) {
      const name = checked("receiver", receiverName, receiver);
      await record("receiver.test_requested", name, checked("options", callOptions, options));
      return receivers.test(name, deliverer.attempt, clock);
    },
    async explain(action) {
      return explain(checked("action", explainedAction, action), directory, deliveries, clock);
    },
    async acknowledgements(sub) {
      return acknowledgements(deliveries, checked("sub", anyText, sub));
    },
    receivers: () => receivers.report(),
    lastHour: () => deliveries.recent(LAST_HOUR),
  };
}

/** A waiting delivery with why it waits. @param states the receivers that don't work. */
function shown(
  { isHead, storedAt, nextAttemptAt, finishedAt, lastError, ...others }: Delivery,
  states: ReadonlyMap<string, Pick<ReceiverState, "paused" | "heldUntil">>,
): ShownDelivery {
  const delivery = {
    ...others,
    stored_at: inSeconds(storedAt),
    next_attempt_at: null,
    finished_at: inSeconds(finishedAt),
    last_error: lastError,
  };
  if (delivery.state !== "waiting") return delivery;
  if (!isHead) return { ...delivery, reason: "behind" };
  const { paused, heldUntil } = states.get(delivery.receiver) ?? untouchedReceiver;
  if (paused) return { ...delivery, reason: "receiver_paused" };
  const next_attempt_at = inSeconds(Math.max(nextAttemptAt ?? 0, heldUntil ?? 0));
  if (heldUntil !== null) return { ...delivery, next_attempt_at, reason: "receiver_held" };
  return { ...delivery, next_attempt_at, reason: lastError === null ? null : "attempt_failed" };
}

/** A delivery that was accepted and then redriven still counts as accepted: its attempts show it. */
async function acknowledgedAtMs(
  deliveries: DeliveryStore,
  { id, state, finishedAt, attempts }: Delivery,
): Promise<number | null> {
  if (state === "delivered") return finishedAt;
  if (attempts === 0) return null;
  const history = await deliveries.attempts(id);
  const taken = history.findLast(({ status }) => status !== null && status >= 200 && status < 300);
  return taken === undefined ? null : Math.round(taken.startedAt + taken.duration);
}

async function acknowledgements(deliveries: DeliveryStore, sub: string): Promise<Acknowledgement[]> {
  const all = new Map<string, Acknowledgement>();
  for (let after: string | undefined; ;) {
    const page = await deliveries.list({ sub, limit: PAGE, ...(after !== undefined && { after }) });
    for (const delivery of page) {
      const { id, receiver, type, at, state } = delivery;
      const acknowledged = { acknowledged_at: inSeconds(await acknowledgedAtMs(deliveries, delivery)) };
      all.set(id, { id, receiver, type, at, state, ...acknowledged });
    }
    // A page after a delivery that was purged in the meantime is empty: start over.
    const isPurged = page.length === 0 && after !== undefined && !(await deliveries.find(after));
    after = isPurged ? undefined : page.at(-1)?.id;
    if (page.length < PAGE && !isPurged) return [...all.values()];
  }
}

/** Types that would restore old data if the lane has delivered something since. */
export const SUPERSEDABLE: readonly NotificationType[] = ["PROFILE_CHANGED"];

type Redrivable = Pick<DeliveryStore, "find" | "list" | "redrive">;
type Filter = Omit<DeliveryFilter, "state">;

/** Deliveries in one page, and lanes in one step. */
const REDRIVE_PAGE = 100;

/**
 * All matching parked deliveries of the lanes that a page touches. They are redriven in one step, so that a lane whose
 * deliveries span two pages sends nothing out of order.
 */
async function withTheirLanes(
  deliveries: Redrivable,
  filter: Filter,
  page: readonly Delivery[],
): Promise<string[]> {
  const lanes = new Map(
    page.map(({ receiver, sub }) => [JSON.stringify([receiver, sub]), { receiver, sub }]),
  );
  const ids: string[] = [];
  for (const lane of lanes.values()) {
    const parked = await deliveries.list({ ...filter, ...lane, state: "parked", limit: 100_000 });
    ids.push(...parked.map(({ id }) => id));
  }
  return ids;
}

/**
 * Redrives all parked deliveries that match.
 * @param supersedable types that are left out when their lane has delivered something later.
 * @param onPage called with the ids that a page has redriven.
 * @returns how many had each result.
 */
export async function redriveMatching(
  deliveries: Redrivable,
  filter: Filter,
  supersedable: readonly NotificationType[],
  onPage: (redriven: readonly string[]) => void,
): Promise<Record<RedriveResult, number>> {
  const results = new Map<string, RedriveResult>();
  for (let after: string | undefined; ;) {
    const from = after === undefined ? {} : { after };
    const page = await deliveries.list({ ...filter, state: "parked", limit: REDRIVE_PAGE, ...from });
    const fresh = page.filter(({ id }) => !results.has(id));
    const ids = await withTheirLanes(deliveries, filter, fresh);
    const made = await deliveries.redrive(ids, { supersedable });
    for (const [id, result] of made) results.set(id, result);
    onPage([...made].flatMap(([id, result]) => (result === "redriven" ? [id] : [])));
    // A page after a delivery that was purged in the meantime is empty: start over, and skip what was handled.
    const isPurged = page.length === 0 && after !== undefined && !(await deliveries.find(after));
    after = isPurged ? undefined : page.at(-1)?.id;
    if (page.length < REDRIVE_PAGE && !isPurged) return counted(results.values());
  }
}

function counted(results: Iterable<RedriveResult>): Record<RedriveResult, number> {
  const counts = { redriven: 0, superseded: 0, waiting: 0, purged: 0, unknown: 0 };
  for (const result of results) counts[result] += 1;
  return counts;
}
