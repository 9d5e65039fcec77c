/** The public calls about notifications: what operators see and do. */
import type {
  Delivery,
  DeliveryAttempt,
  DeliveryFilter,
  DeliveryStore,
  RedriveResult,
} from "../lib/deliveries/delivery.ts";
import type { DirectoryStore } from "../lib/directory/directory.ts";
import type { Clock } from "../lib/clock.ts";
import { checked } from "../lib/domain/arguments.ts";
import type { CallOptions } from "../lib/domain/arguments.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import type { Sealer } from "../lib/sealing.ts";
import type { Attempt } from "./attempt.ts";
import { type AuditDeps, createAudit } from "./audit.ts";
import { afterResume } from "./breaker.ts";
import { type ExplainedAction, explain, type Explanation } from "./explain.ts";
import { answerContext } from "./lane-run.ts";
import {
  anyText,
  askedOptions,
  deliveryFilter,
  deliveryPage,
  explainedAction,
  pauseOptions,
  receiverName,
  redriveOptions,
} from "./notifications-schema.ts";
import type { DeliveryPageInput } from "./notifications-schema.ts";
import type { NotificationType } from "./plan.ts";
import { createReceiverWatch, type ReceiverWatchDeps, releaseAll } from "./receiver-watch.ts";
import { type ReceiverReport, reportReceivers } from "./receiver-reports.ts";
import { redriveMatching, SUPERSEDABLE } from "./redrive.ts";
import { type ShownAttempt, type ShownDelivery, shownAttempt, shownDelivery } from "./shown-delivery.ts";
import { sendTest, type TestResult } from "./test-notification.ts";

/** A delivery about an account: whether and when its receiver took it. */
export interface Acknowledgement {
  /** Its `webhook-id`. */
  readonly id: string;
  readonly receiver: string;
  readonly type: string;
  /** Seconds since the epoch: when the action happened. */
  readonly at: number;
  readonly state: ShownDelivery["state"];
  /** When the receiver answered with 2xx last, in milliseconds since the epoch; `null` while it never has. */
  readonly acknowledgedAt: number | null;
}

/** One page of deliveries. */
export interface ShownDeliveryPage {
  readonly deliveries: readonly ShownDelivery[];
  /** `after` of the next page; missing at the end. */
  readonly next?: string;
}

/**
 * Receivers are named `service:KEY`, `group:KEY` and `portal:KEY`. A fault of the storage is `StorageUnavailable`, a wrong
 * argument a `TypeError` that names it.
 * Whatever changes or sends something leaves an audit record first; `actor` says there who asked for it.
 */
export interface Notifications {
  /** Everything, or what fits the filter, by pages of at most 500 (default 100), oldest first unless asked. */
  list(filter?: DeliveryPageInput): Promise<ShownDelivery[]>;
  /**
   * One page of the same, with `next` as `after` of the next page. A rare filter does not take long: a page looks at about
   * a thousand deliveries, and may hold fewer than its limit, even none, though there is a next one.
   */
  page(filter?: DeliveryPageInput): Promise<ShownDeliveryPage>;
  /** A delivery by its `webhook-id`, with its attempts. */
  find(id: string): Promise<(ShownDelivery & { readonly history: readonly ShownAttempt[] }) | undefined>;
  /**
   * Sends again, with all attempts before it: at once, as the head of its lane. `superseded` is a
   * `PROFILE_CHANGED` from before what its lane has delivered since: only `force` sends it.
   */
  redrive(id: string, options?: CallOptions & { readonly force?: boolean }): Promise<RedriveResult>;
  /** The same for everything that is parked and fits the filter, in order. @returns how many came to what. */
  redriveAll(
    filter?: Omit<DeliveryFilter, "state">,
    options?: CallOptions & { readonly force?: boolean },
  ): Promise<Readonly<Record<RedriveResult, number>>>;
  /** Gives up a delivery that waits or is parked; `false` when there is none such. */
  discard(id: string, options?: CallOptions): Promise<boolean>;
  /** Begins nothing more for this receiver; `false` when it was paused already. */
  pause(receiver: string, options?: CallOptions & { readonly reason?: string }): Promise<boolean>;
  /** Sends everything that waits for this receiver, whatever held it back; `false` when nothing did. */
  resume(receiver: string, options?: CallOptions): Promise<boolean>;
  /**
   * Sends one notification about nobody, now and without a retry: a documented body with the nil UUID and the
   * `user_id` 0. `undefined` when no such receiver is configured.
   */
  test(receiver: string, options?: CallOptions): Promise<TestResult | undefined>;
  /** Which receivers such an action would tell what, and why not: nothing is sent. `undefined` without the account. */
  explain(action: ExplainedAction): Promise<Explanation[] | undefined>;
  /** Who was told about an account, oldest first: as long as the records are kept. */
  acknowledgements(sub: string): Promise<Acknowledgement[]>;
  /** All receivers that are configured or for which something is kept, ordered by name. */
  receivers(): Promise<ReceiverReport[]>;
}

export interface NotificationsDeps extends ReceiverWatchDeps, AuditDeps {
  readonly deliveries: DeliveryStore;
  readonly directory: Pick<DirectoryStore, "findEntry" | "listEntries" | "findAccount">;
  readonly sealer: Sealer;
  readonly events: ServiceEmitter;
  readonly clock: Clock;
  readonly attempt: Attempt;
  /** Told when there may be more to send than before. */
  readonly wake: () => void;
}

const PAGE = 500;
const BY_HAND = "by_hand";

/** The calls over one storage. They work whether or not a worker runs in this process. */
export function createNotifications(deps: NotificationsDeps): Notifications {
  const { deliveries } = deps;
  return {
    async list(filter = {}) {
      const { limit = 100, ...page } = checked("filter", deliveryPage, filter);
      return (await deliveries.list({ ...page, limit })).map((each) => shownDelivery(each));
    },
    async page(filter = {}) {
      const { limit = 100, ...asked } = checked("filter", deliveryPage, filter);
      const { deliveries: found, next } = await deliveries.page({ ...asked, limit });
      return { deliveries: found.map((each) => shownDelivery(each)), ...(next !== undefined && { next }) };
    },
    async find(id) {
      const delivery = await deliveries.find(checked("id", anyText, id));
      if (delivery === undefined) return undefined;
      const history = await deliveries.attempts(id);
      const shown = history.map((attempt) => shownAttempt(attempt, openAnswer(deps, id, attempt)));
      return { ...shownDelivery(delivery), history: shown };
    },
    async explain(action) {
      return explain(deps, checked("action", explainedAction, action));
    },
    async acknowledgements(sub) {
      return acknowledgements(deliveries, checked("sub", anyText, sub));
    },
    receivers: () => reportReceivers(deps),
    async test(receiver, options = {}) {
      const name = checked("receiver", receiverName, receiver);
      await createAudit(deps)("receiver.test", name, checked("options", askedOptions, options));
      return sendTest(deps, name);
    },
    ...redriving(deps),
    ...holding(deps),
  };
}

function passable(force: boolean | undefined): readonly NotificationType[] {
  return force === true ? [] : SUPERSEDABLE;
}

function redriving(deps: NotificationsDeps): Pick<Notifications, "redrive" | "redriveAll" | "discard"> {
  const { deliveries, events, wake } = deps;
  const audit = createAudit(deps);
  return {
    async redrive(id, options = {}) {
      const { force, ...asked } = checked("options", redriveOptions, options);
      const key = checked("id", anyText, id);
      if ((await deliveries.find(key)) === undefined) return "unknown";
      await audit("delivery.redrive", key, { ...asked, detail: { force: force === true } });
      const results = await deliveries.redrive([key], { passable: passable(force) });
      const result = results.get(key) ?? "unknown";
      if (result === "redriven") events.emit("delivery.redriven", { id: key });
      wake();
      return result;
    },
    async redriveAll(filter = {}, options = {}) {
      const { force, ...asked } = checked("options", redriveOptions, options);
      const wanted = checked("filter", deliveryFilter, filter);
      const { receiver = "*", ...rest } = wanted;
      await audit("delivery.redrive_all", receiver, { ...asked, detail: { ...rest, force: force === true } });
      return redriveMatching(deps, wanted, passable(force));
    },
    async discard(id, options = {}) {
      const asked = checked("options", askedOptions, options);
      if ((await deliveries.find(checked("id", anyText, id))) === undefined) return false;
      await audit("delivery.discard", id, asked);
      const discarded = await deliveries.discard(id, BY_HAND);
      if (discarded) events.emit("delivery.discarded", { id });
      wake();
      return discarded;
    },
  };
}

function holding(deps: NotificationsDeps): Pick<Notifications, "pause" | "resume"> {
  const { deliveries, events, clock, wake } = deps;
  const watch = createReceiverWatch(deps);
  const audit = createAudit(deps);
  return {
    async pause(receiver, options = {}) {
      // The reason is free text: it is kept with the receiver, as long as it is paused.
      const { reason = "by hand", ...asked } = checked("options", pauseOptions, options);
      const name = checked("receiver", receiverName, receiver);
      await audit("receiver.pause", name, asked);
      return watch.paused(name, reason);
    },
    async resume(receiver, options = {}) {
      const name = checked("receiver", receiverName, receiver);
      await audit("receiver.resume", name, checked("options", askedOptions, options));
      const { before } = await deliveries.changeReceiver(name, () => afterResume(clock.now()));
      await releaseAll(deliveries, name);
      wake();
      const stopped = before.paused || before.heldUntil !== null;
      if (stopped) events.emit("receiver.resumed", { receiver: name });
      return stopped;
    },
  };
}

function openAnswer({ sealer }: NotificationsDeps, id: string, { answer }: DeliveryAttempt): string | null {
  if (answer === null) return null;
  try {
    return sealer.open(answerContext(id), answer);
  } catch {
    // Its key is gone: that must not hide the rest.
    return null;
  }
}

/** One that was taken and then sent again was taken all the same: its attempts know. */
async function acknowledgedAt(
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
      all.set(id, {
        id,
        receiver,
        type,
        at,
        state,
        acknowledgedAt: await acknowledgedAt(deliveries, delivery),
      });
    }
    // Behind one that retention has taken away meanwhile there is nothing: from the first one on, again.
    const isPurged = page.length === 0 && after !== undefined && !(await deliveries.find(after));
    after = isPurged ? undefined : page.at(-1)?.id;
    if (page.length < PAGE && !isPurged) return [...all.values()];
  }
}
