/**
 * The console's pages about notifications, and what all its pages have in common: what each is given, which forms count, and
 * how the result of one reaches the next page.
 */
import { callerOf, type ServiceContext } from "../../provider/exchange.ts";
import { byCaller, type CallOptions } from "../../accounts/arguments.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import { pagesOf } from "../../core/pages.ts";
import { within } from "../../core/with-timeout.ts";
import { allows, type RoleRule } from "../../config/operators.ts";
import { ERRORS, SignInError } from "../../core/errors.ts";
import type { NotificationType } from "../../receiver/notification.ts";
import type { AnyRow } from "../../accounts/operations/operation.ts";
import { parseReceiverName } from "../../accounts/receivers.ts";
import { deliveries as deliveryTable, type Notifications } from "../../notifier/operations.ts";
import {
  type ReceiverReport,
  receivers as receiverTable,
  type TestResult,
} from "../../notifier/receiver-operations.ts";
import type { DeliveryFilter, DeliveryState } from "../../records/deliveries/delivery.ts";
import type { SignedIn } from "../../provider/account.ts";
import type { Signer } from "../../core/sealing.ts";
import type { Operator, OperatorHandler, OperatorPage } from "../account/pages.ts";
import { seeOther } from "../answers.ts";
import {
  CONSOLE_PATH,
  type ConsoleLocals,
  type DeliveryLocals,
  deliveriesPage,
  deliveryPage,
  receiversPage,
  type ConsoleResult,
  isReceiver,
  listAddress,
  PEOPLE_PATH,
  readConsoleQuery,
  type ReceiverAction,
  RECEIVERS_PATH,
} from "./console-views.ts";
import { type Form, isFromHere, readable } from "../forms.ts";
import { chooseTimeZone } from "../look/time-zone.ts";
import type { PersonServices } from "../account/person-pages.ts";
import type { SendOptions } from "../page.ts";
import type { PageServices } from "../services.ts";

/** What the pages of operators need of the service. */
export type OperatorServices = Pick<
  PersonServices,
  "accounts" | "clock" | "configuration" | "fields" | "gate" | "pages" | "storage"
> &
  Pick<PageServices, "mailDeployment" | "onDefect"> & {
    readonly notifications: Notifications;
    readonly seals: ConsoleSeals;
  };

/** The role for the pages about deliveries and receivers. What can be done there has the role of its operation. */
const DELIVERIES_NEED: RoleRule = { role: "viewer", deliveries: true };

/** The role for the pages about people. */
export const PEOPLE_NEEDS: RoleRule = { role: "support" };

/** How long a page waits for a long operation: less than a request may take. */
const WAIT_MS = 3_000;

/** Deliveries on one page of the list. */
const PAGE = 50;

/** The list comes first: the account page links to it. */
export function createConsolePages(services: OperatorServices): readonly OperatorPage[] {
  const onList = submit(services, (form, _id, operator) => listAction(services, form, operator));
  const onReceivers = submit(services, (form, _id, operator) => receiverAction(services, form, operator));
  const onDelivery = submit(services, (form, id, operator) => deliveryAction(services, id, form, operator));
  const needs = DELIVERIES_NEED;
  return [
    { path: CONSOLE_PATH, needs, methods: { GET: list(services), POST: onList } },
    { path: RECEIVERS_PATH, needs, methods: { GET: receivers(services), POST: onReceivers } },
    { path: `${CONSOLE_PATH}/:uid`, needs, methods: { GET: delivery(services), POST: onDelivery } },
  ];
}

/** The names of the services, groups and portals of receivers. An entry that no longer exists has none, nor has a receiver of events. */
export async function namesOf(
  { storage }: Pick<OperatorServices, "storage">,
  shown: ReadonlySet<string>,
): Promise<ReadonlyMap<string, string>> {
  const found = await Promise.all(
    [...shown].map(async (receiver) => {
      const name = parseReceiverName(receiver);
      if (name === undefined || name.kind === "events") return [receiver, ""] as const;
      const entry = await storage.directory.findEntry(name.kind, name.key);
      return [receiver, entry?.name ?? ""] as const;
    }),
  );
  return new Map(found.filter(([, name]) => name !== ""));
}

/** The data that every page of the console gets. @param shown receivers on the page, which get their names. */
export async function commonLocals(
  services: OperatorServices,
  ctx: ServiceContext,
  { path, query }: Parameters<OperatorHandler>[1],
  person: Operator,
  shown: Iterable<string> = [],
): Promise<ConsoleLocals> {
  const { clock, seals } = services;
  const base = ctx.exchange.deployment.path;
  const result = seals.open(person, path, query.get("result"));
  return {
    list: base + CONSOLE_PATH,
    receiversPath: base + RECEIVERS_PATH,
    people: allows(person.role, PEOPLE_NEEDS) ? base + PEOPLE_PATH : undefined,
    account: `${base}/account`,
    names: await namesOf(services, new Set(shown)),
    now: clock.now(),
    zone: chooseTimeZone(ctx),
    offersZones: new URLSearchParams(ctx.querystring).get("zone") === "",
    path: base + path,
    kept: [...query].filter(([name]) => name !== "zone" && name !== "result"),
    result,
  };
}

/** The language of the operator. */
export const languageOf = ({ account }: SignedIn): SendOptions => ({ account: account.locale ?? undefined });

function list(services: OperatorServices): OperatorHandler {
  const { pages, notifications, seals } = services;
  return async (ctx, request, person) => {
    const { filter, after, problem } = readConsoleQuery(request.query);
    if (problem === "other") return pages.error(ctx, { status: 400, error: "invalid_request" });
    const wrongSub = problem === "sub" ? (request.query.get("sub") ?? "") : undefined;
    const wanted = { ...named(filter), ...(after !== undefined && { after }), limit: PAGE };
    const isWhole = wrongSub === undefined && after === undefined && Object.keys(filter).length === 0;
    const [found, known, stats] = await Promise.all([
      wrongSub === undefined ? notifications.list(wanted) : undefined,
      allReceivers(notifications),
      isWhole ? notifications.stats() : undefined,
    ]);
    const { items: deliveries = [], next } = found ?? {};
    const names = known.map(({ receiver }) => receiver);
    const shown = [...names, ...deliveries.map(({ receiver }) => receiver)];
    const data = {
      ...(await commonLocals(services, ctx, request, person, shown)),
      filter,
      deliveries,
      receivers: names,
      isLater: after !== undefined,
      overview: stats && { receivers: known, lastHour: stats.last_hour },
      wrongSub,
      next: next ?? undefined,
      redriveAll:
        filter.state === "parked" && deliveries.length > 0 && allows(person.role, deliveryRows.redriveAll)
          ? seals.token(person, redriveAllAction(filter))
          : undefined,
    };
    return pages.send(ctx, deliveriesPage, data, {
      ...languageOf(person),
      status: wrongSub === undefined ? 200 : 400,
    });
  };
}

/** The filter as the operations have it. */
function named({ sub, type, ...filter }: DeliveryFilter) {
  return {
    ...filter,
    ...(type !== undefined && { type: type as NotificationType }),
    ...(sub !== undefined && { account: sub }),
  };
}

async function allReceivers(
  notifications: Pick<Notifications, "receivers">,
): Promise<readonly ReceiverReport[]> {
  const all: ReceiverReport[] = [];
  for await (const { items } of pagesOf((after) => notifications.receivers({ limit: 1_000, after })))
    all.push(...items);
  return all;
}

type DeliveryAction = keyof DeliveryLocals["tokens"];

const deliveryRows = deliveryTable.rows;
const DELIVERY_ROWS: Readonly<Record<DeliveryAction, AnyRow>> = {
  redrive: deliveryRows.redrive,
  force: deliveryRows.redrive,
  sendNow: deliveryRows.sendNow,
  discard: deliveryRows.discard,
};
const RECEIVER_ROWS: Readonly<Record<ReceiverAction, AnyRow>> = {
  pause: receiverTable.rows.pause,
  resume: receiverTable.rows.resume,
  test: receiverTable.rows.test,
  redriveAll: deliveryRows.redriveAll,
};

/** What an operator can do with a delivery, except one that is waiting: it will be sent in any case. */
const ACTIONS: Readonly<Record<DeliveryState, readonly DeliveryAction[]>> = {
  waiting: ["sendNow", "discard"],
  parked: ["redrive", "discard"],
  delivered: ["redrive"],
  discarded: ["redrive"],
};

function delivery(services: OperatorServices): OperatorHandler {
  const { pages, notifications, seals } = services;
  return async (ctx, request, person) => {
    const found = await notifications.find(request.id);
    if (found === undefined) return pages.error(ctx, { status: 404, error: "no_delivery" });
    const all = await commonLocals(services, ctx, request, person, [found.receiver]);
    // Overwriting newer data is offered only after a warning.
    const isSuperseded = all.result?.code === "superseded";
    const { id, state } = found;
    const actions: readonly DeliveryAction[] =
      isSuperseded && state !== "waiting" ? [...ACTIONS[state], "force"] : ACTIONS[state];
    const tokens = Object.fromEntries(
      actions
        .filter((action) => allows(person.role, DELIVERY_ROWS[action]))
        .map((action) => [action, seals.token(person, [action, id])]),
    );
    const data = { ...all, delivery: found, tokens };
    return pages.send(ctx, deliveryPage, data, languageOf(person));
  };
}

function receivers(services: OperatorServices): OperatorHandler {
  const { pages, notifications, seals } = services;
  return async (ctx, request, person) => {
    const found = await allReceivers(notifications);
    const withTokens = found.map((report) => {
      const { receiver } = report;
      const tokens: Partial<Record<ReceiverAction, string>> = {};
      for (const action of actionsOf(report).filter((each) => allows(person.role, RECEIVER_ROWS[each])))
        tokens[action] = seals.token(person, [action, receiver]);
      return { report, tokens };
    });
    const all = await commonLocals(
      services,
      ctx,
      request,
      person,
      found.map(({ receiver }) => receiver),
    );
    pages.send(ctx, receiversPage, { ...all, receivers: withTokens }, languageOf(person));
  };
}

function actionsOf({ url, paused, circuit_open_until, parked }: ReceiverReport): ReceiverAction[] {
  return [
    ...(paused ? [] : (["pause"] as const)),
    ...(paused || circuit_open_until !== null ? (["resume"] as const) : []),
    ...(url === null ? [] : (["test"] as const)),
    ...(parked > 0 ? (["redriveAll"] as const) : []),
  ];
}

/** The operator, for the audit. */
export function callerAt(ctx: ServiceContext, { account: { sub } }: SignedIn): Caller {
  return callerOf(ctx, { kind: "operator", id: sub });
}

/** The form of one of our pages. `undefined` after an answer to anything else. */
export async function receivedForm(
  { pages }: Pick<OperatorServices, "pages">,
  ctx: ServiceContext,
): Promise<Form | undefined> {
  if (!isFromHere(ctx)) {
    pages.error(ctx, { status: 403, error: "stale_form" });
    return undefined;
  }
  const form = await readable(() => ctx.exchange.form());
  if (form === undefined) pages.error(ctx, { status: 400, error: "invalid_request" });
  return form;
}

/** The action that a form requests. */
export interface ConsoleAction {
  readonly needs: RoleRule;
  /** The action and target that the form's token must be valid for. */
  readonly proof: readonly string[];
  /** Path of the page that shows the result, below the base URL. */
  readonly page: string;
  /** Query of that page. */
  readonly search?: string;
  readonly act: () => Promise<ConsoleResult>;
}

/** Reads the requested action; `undefined` unless the form is one of ours. */
type ReadAction = (form: Form, id: string, operator: CallOptions) => ConsoleAction | undefined;

export const consoleResult = (code: string, values: ConsoleResult["values"] = {}): ConsoleResult => ({
  code,
  values,
});

/** Handles the forms of a page. Redirects with a 303 to the page that shows the result. */
export function submit(services: OperatorServices, read: ReadAction): OperatorHandler {
  const { pages, seals } = services;
  return async (ctx, { id }, person) => {
    const form = await receivedForm(services, ctx);
    if (form === undefined) return undefined;
    const action = read(form, id, byCaller(callerAt(ctx, person)));
    if (action === undefined) return pages.error(ctx, { status: 400, error: "invalid_request" });
    if (!allows(person.role, action.needs)) return pages.error(ctx, { status: 403, error: "role_required" });
    if (!seals.isToken(person, action.proof, form.get("csrf") ?? ""))
      return pages.error(ctx, { status: 403, error: "stale_form" });
    return seeOther(ctx, resultAddress(ctx, action, seals, person, await action.act()));
  };
}

export function resultAddress(
  ctx: ServiceContext,
  { page, search = "" }: Pick<ConsoleAction, "page" | "search">,
  seals: ConsoleSeals,
  person: SignedIn,
  outcome: ConsoleResult,
): string {
  const query = new URLSearchParams(search);
  query.set("result", seals.seal(person, page, outcome));
  return `${ctx.exchange.deployment.url}${page}?${query}`;
}

/** The outcome of a long operation; `undefined` when it goes on in the background, and the page does not wait any longer. */
async function briefly<T>(
  { onDefect }: OperatorServices,
  work: Promise<T>,
): Promise<{ readonly outcome: T } | undefined> {
  return within(
    WAIT_MS,
    work.then((outcome) => ({ outcome })),
    () => void work.catch(onDefect),
  );
}

/** On the list: sends every parked delivery that matches the filter again. */
function listAction(
  services: OperatorServices,
  form: Form,
  operator: CallOptions,
): ConsoleAction | undefined {
  const { filter, problem } = readConsoleQuery(form);
  if (form.get("action") !== "redriveAll" || problem !== undefined || filter.state !== undefined)
    return undefined;
  return {
    needs: deliveryRows.redriveAll,
    proof: redriveAllAction(filter),
    page: CONSOLE_PATH,
    search: listAddress("", { ...filter, state: "parked" }),
    act: () => redriveAll(services, filter, operator),
  };
}

async function redriveAll(
  services: OperatorServices,
  filter: DeliveryFilter,
  operator: CallOptions,
): Promise<ConsoleResult> {
  const done = await briefly(services, services.notifications.redriveAll(named(filter), operator));
  if (done === undefined) return consoleResult("redriveUnderWay");
  const { redriven, superseded, purged } = done.outcome;
  return consoleResult("redrivenAll", { redriven, superseded, purged });
}

function isKeyOf<T extends object>(object: T, key: string): key is string & keyof T {
  return Object.hasOwn(object, key);
}

function deliveryAction(
  { notifications }: OperatorServices,
  id: string,
  form: Form,
  operator: CallOptions,
): ConsoleAction | undefined {
  const action = form.get("action") ?? "";
  const acts: Readonly<Record<DeliveryAction, () => Promise<ConsoleResult>>> = {
    discard: () => resultOf(notifications.discard(id, operator), "discarded"),
    sendNow: () => resultOf(notifications.sendNow(id, operator), "sentNow"),
    redrive: () => resultOf(notifications.redrive(id, {}, operator), "redriven"),
    force: () => resultOf(notifications.redrive(id, { force: true }, operator), "redriven"),
  };
  if (!isKeyOf(acts, action)) return undefined;
  const [needs, act] = [DELIVERY_ROWS[action], acts[action]];
  return { needs, proof: [action, id], page: `${CONSOLE_PATH}/${id}`, act };
}

/** The result of a call. @param code if it did something; else the code of its error says why not. */
async function resultOf<T>(
  call: Promise<T>,
  code: string | ((made: T) => ConsoleResult),
  values: ConsoleResult["values"] = {},
): Promise<ConsoleResult> {
  try {
    const made = await call;
    return typeof code === "string" ? consoleResult(code, values) : code(made);
  } catch (error) {
    if (error instanceof SignInError && ERRORS[error.code] < 500) return consoleResult(error.code, values);
    throw error;
  }
}

function receiverAction(
  services: OperatorServices,
  form: Form,
  operator: CallOptions,
): ConsoleAction | undefined {
  const { notifications } = services;
  const receiver = form.get("receiver") ?? "";
  const action = form.get("action") ?? "";
  const acts: Readonly<Record<ReceiverAction, () => Promise<ConsoleResult>>> = {
    pause: () => resultOf(notifications.pause(receiver, {}, operator), "paused", { receiver }),
    resume: () => resultOf(notifications.resume(receiver, operator), "resumed", { receiver }),
    test: () => test(services, receiver, operator),
    redriveAll: () => redriveAll(services, { receiver }, operator),
  };
  if (!isKeyOf(acts, action) || !isReceiver(receiver)) return undefined;
  const [needs, act] = [RECEIVER_ROWS[action], acts[action]];
  return { needs, proof: [action, receiver], page: RECEIVERS_PATH, act };
}

async function test(
  services: OperatorServices,
  receiver: string,
  operator: CallOptions,
): Promise<ConsoleResult> {
  const shown = ({ ok, status, error, duration_ms }: TestResult): ConsoleResult =>
    consoleResult(ok ? "testTaken" : "testFailed", {
      receiver,
      what: status ?? error ?? "",
      duration: Math.ceil(duration_ms),
    });
  const done = await briefly(
    services,
    resultOf(services.notifications.test(receiver, operator), shown, { receiver }),
  );
  return done?.outcome ?? consoleResult("testUnderWay", { receiver });
}

/** Signs what the forms and the addresses of the console carry, for one session of one operator. */
export interface ConsoleSeals {
  /** The hidden field of a form: valid for one action on one target. */
  token(person: SignedIn, action: readonly string[]): string;
  /** Whether this is the hidden field of such a form. */
  isToken(person: SignedIn, action: readonly string[], presented: string): boolean;
  /** The result as a query parameter, valid for one page. */
  seal(person: SignedIn, path: string, result: ConsoleResult): string;
  /** `undefined` unless it was sealed for this page and session. */
  open(person: SignedIn, path: string, sealed: string | undefined): ConsoleResult | undefined;
}

/** The action of the form that sends all matching deliveries again, for its token. */
function redriveAllAction({ receiver = "", type = "", sub = "" }: DeliveryFilter): readonly string[] {
  return ["redriveAll", receiver, type, sub];
}

/** The text to sign: a purpose in one session of one account. */
function signed(purpose: string, { session, account }: SignedIn, parts: readonly string[]): string {
  const { sub, sessions_generation } = account;
  return JSON.stringify([`console ${purpose}`, session, sub, sessions_generation, ...parts]);
}

/** @param signer with other keys, all forms are stale. */
export function createConsoleSeals(signer: Signer): ConsoleSeals {
  return {
    token: (person, action) => signer.sign(signed("form", person, action)),
    isToken: (person, action, presented) => signer.verify(signed("form", person, action), presented),
    seal(person, path, result) {
      const text = Buffer.from(JSON.stringify([result.code, result.values])).toString("base64url");
      return `${text}.${signer.sign(signed("result", person, [path, text]))}`;
    },
    open(person, path, sealed = "") {
      const [text = "", signature = ""] = sealed.split(".", 2);
      if (!signer.verify(signed("result", person, [path, text]), signature)) return undefined;
      const [code, values] = JSON.parse(Buffer.from(text, "base64url").toString()) as [
        string,
        ConsoleResult["values"],
      ];
      return { code, values };
    },
  };
}
