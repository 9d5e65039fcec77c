/** What the operations on deliveries and receivers do. */
import { facade, pageOf } from "../accounts/operations/operation.ts";
import type { DeliveredType } from "../accounts/events/event-types.ts";
import { EVENT_TYPES } from "../config/events.ts";
import { inSeconds } from "../core/clock.ts";
import { NotApplicable, NotFound, SignInError } from "../core/errors.ts";
import type { AuditAction } from "../records/audit/actions.ts";
import type { AuditDetail, Caller } from "../records/audit/audit-event.ts";
import { answerContext } from "../records/deliveries/delivery-kinds.ts";
import {
  type Changed,
  type Delivery,
  type DeliveryAttempt,
  type DeliveryFilter,
  type DeliveryStore,
  type RedriveResult,
  type SendNowResult,
} from "../records/deliveries/delivery.ts";
import {
  opensAt,
  type ReceiverState,
  stopOf,
  untouchedReceiver,
} from "../records/deliveries/receiver-state.ts";
import { explain } from "./explain.ts";
import {
  type Acknowledgement,
  deliveries as deliveryRows,
  type Notifications,
  notificationsOf,
  type RedriveCounts,
  type ShownAttempt,
  type ShownDelivery,
} from "./operations.ts";
import { receivers as receiverRows } from "./receiver-operations.ts";
import { createPersonFields } from "../accounts/profile-fields.ts";
import type { NotifierServices } from "./services.ts";

/** Twelve spans of five minutes. */
const LAST_HOUR = { number: 12, lengthMs: 300_000 };

/** Deliveries that `acknowledgements` reads at a time. */
const PAGE = 500;
const BY_HAND = "by_hand";

const noDelivery = (): NotFound => new NotFound("this delivery");

/** Why a delivery is not sent again. */
const NOT_REDRIVEN: Readonly<Record<Exclude<RedriveResult, "redriven">, () => SignInError>> = {
  unknown: noDelivery,
  waiting: () => new NotApplicable("not sent again: it waits already, and can be sent now"),
  superseded: () =>
    new SignInError(
      "superseded",
      "not sent again: a newer one was delivered since, whose data it would overwrite",
    ),
  purged: () => new SignInError("purged", "not sent again: its payload is gone"),
};

/** Why a delivery is not sent now. */
const NOT_SENT: Readonly<Record<Exclude<SendNowResult, "due" | "sending">, () => SignInError>> = {
  unknown: noDelivery,
  behind: () => new SignInError("behind", "not sent: an earlier one about the same account comes first"),
  stopped: () =>
    new SignInError("receiver_stopped", "not sent: its receiver is paused, or its circuit is open"),
  over: () => new SignInError("not_waiting", "not sent: it does not wait"),
};

/**
 * The calls on one storage. They work whether or not a worker runs in this process.
 * @param wake.deliveries called when more may be due than before.
 * @param wake.mail called when mail is due.
 */
export function createNotifications(
  {
    storage,
    receivers,
    sealer,
    events,
    clock,
    configuration,
  }: Pick<NotifierServices, "storage" | "receivers" | "sealer" | "events" | "clock" | "configuration">,
  wake: { readonly deliveries: () => void; readonly mail: () => void },
): Notifications {
  const { deliveries, directory, audit, outbox } = storage;
  const fields = createPersonFields(configuration);

  /**
   * Writes the audit record of a request before it is carried out, so that nothing happens without one. It says what
   * was requested, not the result. The subject is a `webhook-id` or the name of a receiver.
   */
  function record(
    action: Extract<AuditAction, `delivery.${string}`>,
    subject: string,
    caller: Caller,
    detail?: AuditDetail,
  ): Promise<void> {
    return audit.append({ ...caller, action, subject, ...(detail && { detail }) });
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

  /**
   * Reads a delivery. What a change makes of it is set with `changed`, because everything is read before the commit: a read
   * that fails after it would refuse what is done.
   */
  async function reading(id: string): Promise<
    | {
        readonly changed: Changed;
        /** The delivery as it is known now. */
        readonly show: () => ShownDelivery;
      }
    | undefined
  > {
    const [found, states] = await Promise.all([deliveries.find(id), deliveries.receivers()]);
    if (found === undefined) return undefined;
    let { payload: _sealed, ...delivery }: Delivery & { payload?: unknown } = found;
    return { changed: (made) => (delivery = made), show: () => shown(delivery, states) };
  }

  /** Makes a change of one delivery. @param change rejects if it changes nothing. @throws NotFound if there is no such delivery. */
  async function changing(id: string, change: (changed: Changed) => Promise<void>): Promise<ShownDelivery> {
    const delivery = await reading(id);
    if (delivery === undefined) throw noDelivery();
    await change(delivery.changed);
    wake.deliveries();
    return delivery.show();
  }

  const deliveryCalls = facade(deliveryRows, {
    async list({ input: { account, order, after, ...page } }) {
      const [{ deliveries: found, next = null }, states] = await Promise.all([
        deliveries.page({
          ...page,
          ...subOf(account),
          ...(after !== undefined && { after }),
          first: order,
        }),
        deliveries.receivers(),
      ]);
      return { items: found.map((each) => shown(each, states)), next };
    },
    async find({ target: [id] }) {
      const [delivery, attempts] = await Promise.all([reading(id), deliveries.attempts(id)]);
      return delivery && { ...delivery.show(), history: attempts.map((each) => openAttempt(id, each)) };
    },
    async redrive({ target: [id], input: { force }, caller }) {
      return changing(id, async (changed) => {
        await record("delivery.redrive_requested", id, caller, { force });
        const results = await deliveries.redrive([id], { supersedable: force ? [] : SUPERSEDABLE, changed });
        const result = results.get(id) ?? "unknown";
        if (result !== "redriven") throw NOT_REDRIVEN[result]();
        events.emit("delivery.redriven", { id });
      });
    },
    async redriveAll({ input: { account, receiver, type, force }, caller }) {
      const filter = { ...subOf(account), ...(type && { type }) };
      await record("delivery.redrive_all_requested", receiver ?? "*", caller, { ...filter, force });
      const wanted = { ...filter, ...(receiver !== undefined && { receiver }) };
      return redriveMatching(deliveries, wanted, force ? [] : SUPERSEDABLE, (redriven) => {
        for (const id of redriven) events.emit("delivery.redriven", { id });
        wake.deliveries();
      });
    },
    async sendNow({ target: [id], caller }) {
      return changing(id, async (changed) => {
        await record("delivery.send_now_requested", id, caller);
        const result = await deliveries.sendNow(id, changed);
        if (result !== "due" && result !== "sending") throw NOT_SENT[result]();
      });
    },
    async discard({ target: [id], caller }) {
      return changing(id, async (changed) => {
        await record("delivery.discard_requested", id, caller);
        if (!(await deliveries.discard(id, BY_HAND, changed)))
          throw new SignInError("not_waiting", "not discarded: it neither waits nor is parked");
        events.emit("delivery.discarded", { id });
      });
    },
    async resume({ caller }) {
      const resumed = await receivers.resumeRestored(caller);
      const held = await outbox.held();
      if (held > 0) await audit.append({ ...caller, action: "mail.resume_requested" });
      const mails = held > 0 ? await outbox.release() : 0;
      wake.deliveries();
      wake.mail();
      return { receivers: resumed, mails };
    },
    explain: ({ input }) =>
      explain(input, { fields, directory, deliveries, clock, events: configuration.events }),
    acknowledgements: ({ target: [sub] }) => acknowledgements(deliveries, sub),
    async stats() {
      const [spans, held_mails] = await Promise.all([deliveries.recent(LAST_HOUR), outbox.held()]);
      return {
        last_hour: spans.map(({ from, stored, parked }) => ({ from: inSeconds(from), stored, parked })),
        held_mails,
      };
    },
  });

  const receiverCalls = facade(receiverRows, {
    list: async ({ input }) => pageOf(await receivers.report(), ({ receiver }) => receiver, input),
    find: ({ target: [name] }) => receivers.find(name),
    pause: ({ target: [name], input: { reason }, caller }) => receivers.pause(name, reason, caller),
    async resume({ target: [name], caller }) {
      const report = await receivers.resume(name, caller);
      wake.deliveries();
      return report;
    },
    test: ({ target: [name], caller }) => receivers.test(name, caller),
  });

  return notificationsOf(deliveryCalls, receiverCalls);
}

const subOf = (account: string | undefined): Pick<DeliveryFilter, "sub"> =>
  account === undefined ? {} : { sub: account };

/** A waiting delivery with why it waits. @param states the receivers that don't work. */
function shown(
  { isHead, storedAt, nextAttemptAt, finishedAt, lastError, until: _until, ...others }: Delivery,
  states: ReadonlyMap<string, ReceiverState>,
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
  const receiver = states.get(delivery.receiver) ?? untouchedReceiver;
  const reason = stopOf(receiver) ?? (lastError === null ? null : "attempt_failed");
  if (reason === "receiver_paused") return { ...delivery, reason };
  return { ...delivery, next_attempt_at: inSeconds(Math.max(nextAttemptAt ?? 0, opensAt(receiver))), reason };
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

/** Types that would restore old data if the lane has delivered something since. Nothing follows a deletion. */
export const SUPERSEDABLE: readonly DeliveredType[] = [
  "PROFILE_CHANGED",
  ...EVENT_TYPES.filter((type) => type !== "account.deleted"),
];

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
  supersedable: readonly DeliveredType[],
  onPage: (redriven: readonly string[]) => void,
): Promise<RedriveCounts> {
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

function counted(results: Iterable<RedriveResult>): RedriveCounts {
  const counts = { redriven: 0, superseded: 0, waiting: 0, purged: 0, unknown: 0 };
  for (const result of results) counts[result] += 1;
  return counts;
}
