/** The pages of the console about deliveries: their addresses, what each is given, and the texts and times that their views print. */
import type { ShownAttempt, ShownDelivery } from "../../notifier/operations.ts";
import type { ReceiverReport } from "../../notifier/receiver-operations.ts";
import {
  countText,
  DELIVERY_STATES,
  type DeliveryFilter,
  type DeliveryState,
} from "../../records/deliveries/delivery.ts";
import { DELIVERED_TYPES } from "../../accounts/events/event-types.ts";
import { NOTIFICATION_TYPES } from "../../receiver/notification.ts";
import { parseReceiverName } from "../../accounts/receivers.ts";
import { subProblem } from "../../accounts/text-rules.ts";
import type { Page } from "../page.ts";
import type { Translator } from "../../core/texts.ts";
import { type Moments, moments } from "../look/moments.ts";
import { timeZones } from "../look/time-zone.ts";
import type { Locals } from "../look/views.ts";
import { type ConsoleOverview, overviewOf } from "./overview.ts";
import { attemptText, emptyText, reasonText } from "./words.ts";

/** The list, below each base URL. A delivery is below it, by its id. */
export const CONSOLE_PATH = "/account/deliveries";
/** The receivers, below each base URL. No delivery has this id. */
export const RECEIVERS_PATH = "/account/deliveries/receivers";
/** The form that finds a person, below each base URL. A person is below it, by `sub`. */
export const PEOPLE_PATH = "/account/people";

/** The requested part of the list, or the problem of the request. */
export interface ConsoleQuery {
  readonly filter: DeliveryFilter;
  /** Starts after this delivery. */
  readonly after?: string;
  /** `sub`: the typed account is no `sub`. `other`: the request did not come from our page. */
  readonly problem?: "sub" | "other";
}

const ID = /^[A-Za-z0-9_-]{1,255}$/;
const IS_STATE: ReadonlySet<string> = new Set(DELIVERY_STATES);
const IS_TYPE: ReadonlySet<string> = new Set(DELIVERED_TYPES);

/** Whether this can be the name of a receiver. */
export function isReceiver(name: string): boolean {
  return parseReceiverName(name) !== undefined;
}

/** Reads the filter from a query or a form. An empty value counts as missing. */
export function readConsoleQuery(fields: ReadonlyMap<string, string>): ConsoleQuery {
  const value = (name: string): string | undefined => fields.get(name) || undefined;
  const [state, receiver, type, after] = [value("state"), value("receiver"), value("type"), value("after")];
  const sub = value("sub")?.trim().toLowerCase() || undefined;
  const isOther =
    (state !== undefined && !IS_STATE.has(state)) ||
    (receiver !== undefined && !isReceiver(receiver)) ||
    (type !== undefined && !IS_TYPE.has(type)) ||
    (after !== undefined && !ID.test(after));
  if (isOther) return { filter: {}, problem: "other" };
  const filter: DeliveryFilter = {
    ...(state !== undefined && { state: state as DeliveryState }),
    ...(receiver !== undefined && { receiver }),
    ...(type !== undefined && { type }),
  };
  if (sub !== undefined && subProblem(sub) !== undefined) return { filter, problem: "sub" };
  return { filter: { ...filter, ...(sub !== undefined && { sub }) }, ...(after !== undefined && { after }) };
}

/** The address of the filtered list. @param path of the list, as the browser sees it. */
export function listAddress(path: string, filter: DeliveryFilter, after?: string): string {
  const pairs = Object.entries({ ...filter, after }).filter(([, value]) => value !== undefined);
  return pairs.length === 0 ? path : `${path}?${new URLSearchParams(pairs as [string, string][])}`;
}

/** The address of one delivery. @param path of the list, as the browser sees it. */
function deliveryAddress(path: string, id: string): string {
  return `${path}/${encodeURIComponent(id)}`;
}

/** The result of an action, which the next page shows: a code, and values for its text. */
export interface ConsoleResult {
  readonly code: string;
  readonly values: Readonly<Record<string, string | number>>;
}

/** The data that every page of the console gets. Paths are as the browser sees them. */
export interface ConsoleLocals {
  /** Path of the list. */
  readonly list: string;
  /** Path of the receivers. */
  readonly receiversPath: string;
  /** Path of the form that finds a person; missing for operators whose role has no people. */
  readonly people?: string | undefined;
  /** Path of the account page. */
  readonly account: string;
  /** Names of services, groups and portals, by receiver. */
  readonly names: ReadonlyMap<string, string>;
  /** Milliseconds since the epoch; times are shown relative to it. */
  readonly now: number;
  /** The time zone of exact times. Default: UTC. */
  readonly zone?: string;
  /** Whether to show the form that chooses it. Its list is as long as the rest of the page. Default `false`. */
  readonly offersZones?: boolean;
  /** Path of the page, where that form leads. */
  readonly path: string;
  /** The query of the page, such as a filter, which that form keeps. Default: none. */
  readonly kept?: readonly [name: string, value: string][];
  /** The result of the form that led here. */
  readonly result?: ConsoleResult | undefined;
}

/** `deliveries`: the list, a form that filters it, and a form that sends all matching deliveries again. */
export interface DeliveriesLocals extends ConsoleLocals {
  readonly filter: DeliveryFilter;
  /** The account as typed, if it is not a `sub`. */
  readonly wrongSub?: string | undefined;
  /** The receivers to choose from. */
  readonly receivers: readonly string[];
  readonly deliveries: readonly ShownDelivery[];
  /** `after` of the next page. */
  readonly next?: string | undefined;
  /** Whether this is not the first page. */
  readonly isLater: boolean;
  /** The summary above the list. Missing above a part of the list. */
  readonly overview?: ConsoleOverview | undefined;
  /** Hidden field of the form that sends all matching deliveries again; without it there is no such form. */
  readonly redriveAll?: string | undefined;
}

/** `delivery`: one delivery with its attempts, and a form for each action that has a token. */
export interface DeliveryLocals extends ConsoleLocals {
  /** Its attempts, oldest first. */
  readonly delivery: ShownDelivery & { readonly history: readonly ShownAttempt[] };
  /** Hidden fields by action: `redrive`, `force`, `sendNow`, `discard`. */
  readonly tokens: Readonly<Partial<Record<"redrive" | "force" | "sendNow" | "discard", string | undefined>>>;
}

/** The actions on a receiver. */
export type ReceiverAction = "pause" | "resume" | "test" | "redriveAll";

/** `receivers`: the condition of each, and a form for each action that has a token. */
export interface ReceiversLocals extends ConsoleLocals {
  readonly receivers: readonly {
    readonly report: ReceiverReport;
    /** Hidden fields by action. */
    readonly tokens: Readonly<Partial<Record<ReceiverAction, string>>>;
  }[];
}

/** How urgent a state is, as the class of its badge. */
type Tone = "" | "good" | "busy" | "warning" | "bad";

export const TONES: Readonly<Record<DeliveryState, Tone>> = {
  waiting: "busy",
  parked: "bad",
  delivered: "good",
  discarded: "",
};

/** Characters of a response to show at most: it comes from outside. */
const MAX_ANSWER_LENGTH = 4_096;
/** Results that need attention. */
const BAD: ReadonlySet<string> = new Set([
  "superseded",
  "purged",
  "not_found",
  "behind",
  "receiver_stopped",
  "not_waiting",
  "not_applicable",
  "testFailed",
  "personChanged",
  "lastMethod",
  "operatorKept",
]);

/** The variables that every view of the console has. @param page.here the page in the navigation, if it is one. */
export function consoleLocals(
  t: Translator,
  locals: ConsoleLocals,
  { heading, here }: { readonly heading: string; readonly here?: "list" | "receivers" | "people" },
): Locals {
  const { list, receiversPath, people, account, result, path, kept = [], zone = "UTC" } = locals;
  const { offersZones = false } = locals;
  const nav = [
    { href: list, label: t("console.deliveries"), current: here === "list" },
    { href: receiversPath, label: t("console.receivers"), current: here === "receivers" },
    ...(people === undefined
      ? []
      : [{ href: people, label: t("console.people"), current: here === "people" }]),
  ];
  const query = new URLSearchParams([...kept, ["zone", ""]]);
  const zones = offersZones ? timeZones().map((each) => ({ value: each, selected: each === zone })) : [];
  return {
    heading,
    layout: "wide",
    nav,
    list,
    account,
    result: result && shownResult(t, result),
    times: { action: path, kept, choose: `${path}?${query}`, zone, zones },
  };
}

/** A receiver with the name of its service, group or portal, or an empty name. */
function named({ names }: ConsoleLocals, key: string): { readonly key: string; readonly name: string } {
  return { key, name: names.get(key) ?? "" };
}

/** The types that the receivers may get: account events only if one of them is for events. */
export function typesOf(receivers: readonly string[]): readonly string[] {
  const hasEvents = receivers.some((name) => parseReceiverName(name)?.kind === "events");
  return hasEvents ? DELIVERED_TYPES : NOTIFICATION_TYPES;
}

function badge(t: Translator, state: DeliveryState): { readonly text: string; readonly tone: Tone } {
  return { text: t(`console.state.${state}`), tone: TONES[state] };
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

export const deliveriesPage: Page<DeliveriesLocals> = { view: "deliveries", locals: deliveriesView };

function deliveriesView(t: Translator, locals: DeliveriesLocals): Locals {
  const { list, filter, wrongSub, deliveries, next, isLater, redriveAll = "" } = locals;
  const moment = moments({ ...locals, locale: t.locale });
  const any = (chosen: string | undefined): Locals => option("", t("console.any"), chosen);
  const receivers = [...new Set([...locals.receivers, ...(filter.receiver ? [filter.receiver] : [])])];
  const active = activeFilters(t, locals);
  return {
    ...consoleLocals(t, locals, { heading: t("console.deliveries"), here: "list" }),
    problems: wrongSub === undefined ? [] : [{ fields: ["sub"], text: t("console.problem.sub") }],
    sub: wrongSub ?? filter.sub ?? "",
    states: [
      any(filter.state),
      ...DELIVERY_STATES.map((state) => option(state, t(`console.state.${state}`), filter.state)),
    ],
    receivers: [any(filter.receiver), ...receivers.map((key) => receiverOption(locals, key))],
    types: [any(filter.type), ...typesOf(receivers).map((type) => option(type, type, filter.type))],
    active,
    isFilterOpen: wrongSub !== undefined,
    overview:
      locals.overview === undefined
        ? undefined
        : {
            ...overviewOf(t, locals.overview, { moment, row: receiverRow(t, locals, moment) }),
            waitingHref: listAddress(list, { state: "waiting" }),
            parkedHref: listAddress(list, { state: "parked" }),
          },
    empty: emptyText(t, { filter, isLater, hasNext: next !== undefined, hasReceivers: receivers.length > 0 }),
    deliveries: deliveries.map(({ id, type, receiver, state, attempts, at, reason, next_attempt_at }) => ({
      type,
      receiver: named(locals, receiver),
      attempts,
      href: deliveryAddress(list, id),
      state: badge(t, state),
      why:
        next_attempt_at === null
          ? reasonText(t, reason)
          : nextText(t, locals, moment, next_attempt_at * 1000),
      when: moment(at * 1000),
    })),
    first: isLater ? listAddress(list, filter) : "",
    next: next === undefined ? "" : listAddress(list, filter, next),
    redriveAll,
    hidden: Object.entries(filter).filter(([name]) => name !== "state"),
  };
}

/** What the list is filtered by, in words, for the fold of the form on a phone. */
function activeFilters(t: Translator, { filter, names }: DeliveriesLocals): string {
  const { state, receiver, type, sub } = filter;
  return [
    state === undefined ? "" : t(`console.state.${state}`),
    receiver === undefined ? "" : (names.get(receiver) ?? receiver),
    type ?? "",
    sub ?? "",
  ]
    .filter(Boolean)
    .join(", ");
}

/** The time in seconds, for a view. */
function momentOf(moment: Moments, seconds: number | null): ReturnType<Moments> | undefined {
  return seconds === null ? undefined : moment(seconds * 1000);
}

/** Whether a time in seconds has come. */
function isDue(seconds: number | null, { now }: Pick<ConsoleLocals, "now">): boolean {
  return seconds !== null && seconds * 1000 <= now;
}

/** When a waiting delivery is tried next: a time that is past means that it is due. */
function nextText(t: Translator, { now }: ConsoleLocals, moment: Moments, nextAttemptMs: number): string {
  if (nextAttemptMs <= now) return t("console.due");
  return t("console.nextAttempt.when", { when: moment(nextAttemptMs).relative });
}

/** A receiver in the overview. It leads to its place on the page of the receivers. */
function receiverRow(t: Translator, locals: DeliveriesLocals, moment: Moments) {
  return (report: ReceiverReport, index: number): Locals => ({
    ...named(locals, report.receiver),
    href: `${locals.receiversPath}#receiver-${index}`,
    badge: receiverBadge(t, report),
    waiting: countText([report.waiting]),
    parked: countText([report.parked]),
    oldest: momentOf(moment, report.oldest_at),
  });
}

function receiverOption(locals: DeliveriesLocals, receiver: string): Locals {
  const { name, key } = named(locals, receiver);
  return option(key, name === "" ? key : `${name} (${key})`, locals.filter.receiver);
}

export const deliveryPage: Page<DeliveryLocals> = { view: "delivery", locals: deliveryView };

function deliveryView(t: Translator, locals: DeliveryLocals): Locals {
  const { list, delivery, tokens } = locals;
  const moment = moments({ ...locals, locale: t.locale });
  const { id, state, at, next_attempt_at, finished_at, receiver, sub } = delivery;
  return {
    ...consoleLocals(t, locals, { heading: t("console.delivery") }),
    ...delivery,
    action: deliveryAddress(list, id),
    state: badge(t, state),
    receiver: named(locals, receiver),
    when: moment(at * 1000),
    reason: reasonText(t, delivery.reason),
    next: isDue(next_attempt_at, locals) ? undefined : momentOf(moment, next_attempt_at),
    isDue: isDue(next_attempt_at, locals),
    finished: momentOf(moment, finished_at),
    sameReceiver: listAddress(list, { receiver }),
    sameAccount: listAddress(list, { sub }),
    history: delivery.history.map((attempt) => shownAttempt(t, attempt, moment)),
    redrive: tokens.redrive ?? "",
    force: tokens.force ?? "",
    sendNow: tokens.sendNow ?? "",
    discard: tokens.discard ?? "",
  };
}

export function shownAttempt(t: Translator, attempt: ShownAttempt, moment: Moments): Locals {
  // Control characters would be invisible, or change the text around them.
  const answer = attempt.answer?.slice(0, MAX_ANSWER_LENGTH).replaceAll(/[^\P{C}\n\t]/gu, "\uFFFD") ?? "";
  const duration = Math.ceil(attempt.duration_ms);
  const what = attemptText(t, attempt);
  const isWell = attempt.status !== null && attempt.status >= 200 && attempt.status < 300;
  return {
    ...attempt,
    what,
    isWell,
    duration,
    when: moment(attempt.started_at * 1000),
    answer,
    hasAnswer: answer !== "",
  };
}

export const receiversPage: Page<ReceiversLocals> = { view: "receivers", locals: receiversView };

function receiversView(t: Translator, locals: ReceiversLocals): Locals {
  const moment = moments({ ...locals, locale: t.locale });
  return {
    ...consoleLocals(t, locals, { heading: t("console.receivers"), here: "receivers" }),
    action: locals.receiversPath,
    receivers: locals.receivers.map(({ report, tokens }) => ({
      ...named(locals, report.receiver),
      badge: receiverBadge(t, report),
      url: report.url ?? "",
      reason: report.reason ?? report.last_error ?? "",
      waiting: countText([report.waiting]),
      parked: countText([report.parked]),
      condition: condition(t, report, locals.now, moment),
      oldest: momentOf(moment, report.oldest_at),
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

/** What the badge of a receiver does not say; empty if everything works. */
function condition(
  t: Translator,
  { url, paused, circuit_open_until, failures }: ReceiverReport,
  now: number,
  moment: Moments,
): string {
  if (url === null) return t("console.condition.removed");
  if (paused) return t("console.condition.paused");
  if (circuit_open_until !== null && circuit_open_until * 1000 <= now)
    return t("console.condition.circuitOpenDue", { failures });
  if (circuit_open_until !== null)
    return t("console.condition.circuitOpen", { failures, when: moment(circuit_open_until * 1000).relative });
  return failures > 0 ? t("console.condition.failing", { failures }) : "";
}

export function receiverBadge(
  t: Translator,
  { url, paused, circuit_open_until, failures }: ReceiverReport,
): { readonly text: string; readonly tone: Tone } {
  if (url === null) return { text: t("console.badge.removed"), tone: "" };
  if (paused) return { text: t("console.badge.paused"), tone: "warning" };
  if (circuit_open_until !== null) return { text: t("console.badge.circuitOpen"), tone: "bad" };
  return failures > 0
    ? { text: t("console.badge.failing"), tone: "warning" }
    : { text: t("console.badge.well"), tone: "good" };
}
