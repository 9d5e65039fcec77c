/** From deliveries and receivers to what the views of the console print: texts, times and addresses. */
import { NOTIFICATION_TYPES } from "../notifier/plan.ts";
import { deliveryAddress, listAddress, STATES } from "./console-addresses.ts";
import type { ConsoleLocals, DeliveriesLocals, DeliveryLocals, ReceiversLocals } from "./console-locals.ts";
import type { ConsoleAttempt, ConsoleDelivery, ConsoleReceiver } from "./delivery-console.ts";
import type { Translator } from "./texts.ts";
import type { Locals } from "./views.ts";

/** A point in time as a `<time>` shows it. */
interface Moment {
  readonly iso: string;
  readonly text: string;
}

/** Characters of an answer that are shown at most: it comes from outside. */
const MOST_ANSWER = 4_096;
/** Results that are no good news. */
const BAD: ReadonlySet<string> = new Set([
  "superseded",
  "purged",
  "unknown",
  "notDiscarded",
  "testFailed",
  "testUnknown",
]);

/** Milliseconds since the epoch in the words of a locale. The time of the servers' logs, whoever looks. */
function moments(locale: string): (at: number) => Moment {
  const format = new Intl.DateTimeFormat(locale, {
    dateStyle: "medium",
    timeStyle: "medium",
    timeZone: "UTC",
  });
  return (at) => ({ iso: new Date(at).toISOString(), text: `${format.format(at)} UTC` });
}

function common(
  t: Translator,
  { list, receiversPath, result }: ConsoleLocals,
  { heading, here }: { readonly heading: string; readonly here: "list" | "receivers" | "delivery" },
): Locals {
  const nav = [
    { href: list, label: t("console.deliveries"), current: here === "list" },
    { href: receiversPath, label: t("console.receivers"), current: here === "receivers" },
  ];
  return { heading, wide: true, nav, list, result: result && shownResult(t, result) };
}

function shownResult(
  t: Translator,
  { code, values }: NonNullable<ConsoleLocals["result"]>,
): { readonly text: string; readonly isBad: boolean } {
  return { text: t(`console.result.${code}`, values), isBad: BAD.has(code) };
}

function option(value: string, text: string, chosen: string | undefined): Locals {
  return { value, text, selected: value === (chosen ?? "") };
}

/** `deliveries.ejs` */
export function deliveriesView(t: Translator, locals: DeliveriesLocals): Locals {
  const { locale, list, filter, wrongSub, deliveries, next, isLater, redriveAll = "" } = locals;
  const moment = moments(locale);
  const any = (chosen: string | undefined): Locals => option("", t("console.any"), chosen);
  const receivers = [...new Set([...locals.receivers, ...(filter.receiver ? [filter.receiver] : [])])];
  return {
    ...common(t, locals, { heading: t("console.deliveries"), here: "list" }),
    problems: wrongSub === undefined ? [] : [{ fields: ["sub"], text: t("console.problem.sub") }],
    sub: wrongSub ?? filter.sub ?? "",
    states: [
      any(filter.state),
      ...STATES.map((state) => option(state, t(`console.state.${state}`), filter.state)),
    ],
    receivers: [any(filter.receiver), ...receivers.map((name) => option(name, name, filter.receiver))],
    types: [any(filter.type), ...NOTIFICATION_TYPES.map((type) => option(type, type, filter.type))],
    deliveries: deliveries.map(({ id, type, receiver, state, attempts, at }) => ({
      type,
      receiver,
      attempts,
      href: deliveryAddress(list, id),
      stateText: t(`console.state.${state}`),
      when: moment(at * 1000),
    })),
    first: isLater ? listAddress(list, filter) : "",
    next: next === undefined ? "" : listAddress(list, filter, next),
    redriveAll,
    hidden: Object.entries(filter).filter(([name]) => name !== "state"),
  };
}

/** `delivery.ejs` */
export function deliveryView(t: Translator, locals: DeliveryLocals): Locals {
  const { locale, list, delivery, tokens } = locals;
  const moment = moments(locale);
  const { id, state, at, nextAttemptAt, finishedAt, receiver, sub } = delivery;
  return {
    ...common(t, locals, { heading: t("console.delivery"), here: "delivery" }),
    ...delivery,
    action: deliveryAddress(list, id),
    stateText: t(`console.state.${state}`),
    when: moment(at * 1000),
    next: nextAttemptAt === null ? undefined : moment(nextAttemptAt),
    finished: finishedAt === null ? undefined : moment(finishedAt),
    sameReceiver: listAddress(list, { receiver }),
    sameAccount: listAddress(list, { sub }),
    history: delivery.history.map((attempt) => shownAttempt(attempt, moment)),
    redrive: tokens.redrive ?? "",
    force: tokens.force ?? "",
    discard: tokens.discard ?? "",
  };
}

function shownAttempt(attempt: ConsoleAttempt, moment: (at: number) => Moment): Locals {
  // What no text holds would be shown as nothing, or change what stands around it.
  const answer = attempt.answer?.slice(0, MOST_ANSWER).replaceAll(/[^\P{C}\n\t]/gu, "\uFFFD") ?? "";
  const duration = Math.ceil(attempt.duration);
  return { ...attempt, duration, when: moment(attempt.startedAt), answer, hasAnswer: answer !== "" };
}

/** `receivers.ejs` */
export function receiversView(t: Translator, locals: ReceiversLocals): Locals {
  const moment = moments(locals.locale);
  return {
    ...common(t, locals, { heading: t("console.receivers"), here: "receivers" }),
    action: locals.receiversPath,
    receivers: locals.receivers.map(({ report, tokens }) => ({
      name: report.receiver,
      url: report.url ?? "",
      reason: report.reason ?? "",
      waiting: report.waiting,
      parked: report.parked,
      condition: condition(t, report, moment),
      oldest: report.oldest === null ? undefined : moment(report.oldest),
      waitingHref: listAddress(locals.list, { state: "waiting", receiver: report.receiver }),
      parkedHref: listAddress(locals.list, { state: "parked", receiver: report.receiver }),
      actions: Object.entries(tokens).map(([action, csrf]) => ({
        action,
        csrf,
        label: t(`console.action.${action}`),
      })),
    })),
  };
}

function condition(
  t: Translator,
  { url, paused, heldUntil, failures }: ConsoleReceiver,
  moment: (at: number) => Moment,
): string {
  if (url === null) return t("console.condition.removed");
  if (paused) return t("console.condition.paused");
  if (heldUntil !== null) return t("console.condition.held", { failures, when: moment(heldUntil).text });
  return failures > 0 ? t("console.condition.failing", { failures }) : t("console.condition.well");
}

/** A delivery that can be sent again: one that waits goes by itself. */
export function canRedrive({ state }: Pick<ConsoleDelivery, "state">): boolean {
  return state !== "waiting";
}

/** A delivery that can be given up. */
export function canDiscard({ state }: Pick<ConsoleDelivery, "state">): boolean {
  return state === "waiting" || state === "parked";
}
