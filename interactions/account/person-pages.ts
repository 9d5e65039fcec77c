/** The common parts of all pages of the signed-in person: who may see them, which forms count, and how they are answered. */
import type { AccountInternals } from "../../accounts/account.ts";
import type { Accounts } from "../../accounts/operations/accounts.ts";
import type { ClientInternals } from "../../accounts/clients/client.ts";
import type { SecondFactors } from "../../accounts/factors/factors.ts";
import { type AttemptLimits, noteLimited } from "../../accounts/limits/attempt-limits.ts";
import { fullName, shownEmail } from "../../accounts/names.ts";
import type { PasswordLength } from "../../accounts/passwords/password-rules.ts";
import type { People } from "../../accounts/people/people.ts";
import type { AskedAt } from "../../accounts/people/requests.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { Clock } from "../../core/clock.ts";
import { ConditionFailed, NotFound } from "../../core/errors.ts";
import type { ServiceEmitter } from "../../core/events.ts";
import { ownValue } from "../../core/untrusted-keys.ts";
import type { SignedIn } from "../../provider/account.ts";
import { callerOf, type ServiceContext } from "../../provider/exchange.ts";
import type { ConnectedDevices, DeviceCodes } from "../../provider/grants/device-codes.ts";
import type { AccountPage, AccountRequest } from "../../provider/pages.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { UnitsOfWork } from "../../provider/unit-of-work.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AuditCollector } from "../../records/audit/collector.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import { seeOther } from "../answers.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import { type Form, isFromHere, readable } from "../forms.ts";
import { answerJson, demandSignIn, foreignness, readJson, refuse, UNREADABLE, wantsJson } from "../json.ts";
import type { LinkCookie } from "../link-cookie.ts";
import type { Pages, SendOptions, Visit } from "../page.ts";
import type { AccountGate } from "./gate.ts";
import { HOME, type PersonLocals, type PersonView, type PublishedView } from "./person-view.ts";
import type { AccountSeals, Notice } from "./seals.ts";

/** Whether a page is this one or below it. Everything is below the first one. */
function isWithin(path: string, place: string): boolean {
  return path === place || (place !== HOME && path.startsWith(`${place}/`));
}

/** What the position in the list of a page is encrypted for. */
const listOf = (path: string): string => `${path} list`;

/** One request of a person for one of their pages. Each way to answer is the same for a browser and a program. */
export interface PersonVisit {
  readonly ctx: ServiceContext;
  readonly person: SignedIn;
  /** The query of the address; no parameter is repeated. */
  readonly query: AccountRequest["query"];
  /** Where the page of a list begins; `undefined` on the first one. */
  readonly after: string | undefined;
  /** The address of the page that begins there. Only this browser can follow it. */
  readonly nextPage: (position: string) => string;
  /** The data that every page gets. */
  readonly locals: PersonLocals;
  /** The language of the page. */
  readonly locale: string;
  /** For the audit. */
  readonly caller: Caller;
  /** Answers with a page. */
  readonly send: <Data extends PersonLocals>(
    page: PersonView<Data>,
    data: NoInfer<Data>,
    options?: AnswerOptions,
  ) => void;
  /** Asks for the second factor of a person who has one, and leads to a page. */
  readonly stepUp: (path: string, query: Readonly<Record<string, string>>) => void;
  /** Answers with 429. @param retryAfter seconds. */
  readonly limited: (retryAfter: number) => void;
  /** Leads to a page, which shows the notice. @param now the person as the next request sees them. */
  readonly done: (path: string, notice: Notice, now?: SignedIn) => void;
  /** Leads to another address. @param path below the base URL, with its query. */
  readonly leave: (path: string) => void;
}

type AnswerOptions = Pick<SendOptions, "status" | "retryAfter">;

/** The origin of a request that may send mail: the deployment, the browser and the caller. */
export function askedAt(
  { ctx, caller, locale }: PersonVisit,
  devices: Pick<DeviceCookies, "has" | "read">,
): AskedAt {
  const { deployment, address } = ctx.exchange;
  return {
    deployment: deployment.kind,
    caller,
    address,
    locale,
    ...(devices.has(ctx) && { device: (account) => devices.read(ctx, account) }),
  };
}

/** What the pages need of the service. */
export interface PersonServices {
  readonly accounts: Accounts & AccountInternals;
  readonly clients: Pick<ClientInternals, "record">;
  readonly directory: DirectoryRecords;
  /** Missing without mail: then the address can't be changed here. */
  readonly addressChanges: People["addressChanges"];
  readonly confirmations: Pick<People["confirmations"], "findByLink">;
  readonly secondFactors: Pick<SecondFactors, "enrolments" | "passkeys" | "rememberedBrowsers">;
  /** The link in mail that this browser has followed. */
  readonly links: Pick<LinkCookie, "read" | "clear">;
  readonly devices: Pick<DeviceCookies, "has" | "read" | "write">;
  readonly sessions: SignInSessions;
  readonly deviceCodes: Pick<DeviceCodes, "find" | "connect" | "refuse">;
  readonly connectedDevices: ConnectedDevices;
  readonly units: UnitsOfWork;
  readonly limits: Pick<AttemptLimits, "change" | "usernameTaken" | "deviceCode">;
  readonly events: ServiceEmitter;
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly seals: AccountSeals;
  /** Removes the session cookie from the browser. */
  readonly forgetSession: (ctx: ServiceContext) => void;
  readonly clock: Clock;
  /** The configured locales. */
  readonly locales: readonly string[];
  readonly reservedUsernames: readonly string[];
  /** How many characters a password has. */
  readonly length: PasswordLength;
  readonly profile: Configuration["profile"];
  /** The console, for the operators: its path below the base URL, and their `sub`. */
  readonly console?: { readonly path: string; readonly operators: readonly string[] } | undefined;
}

/** A page of the signed-in person, as a browser and a program see it. */
export interface PersonPage {
  /** Below the base URL. */
  readonly path: string;
  /** The name by which the other pages link to it: see {@link PersonLocals.places}. Default: they don't. */
  readonly place?: string;
  /** Whether it needs a sign-in within the last five minutes. Default: any. */
  readonly needs?: "recent sign-in";
  /** Whether its form counts for the limit of changes. Default: yes. */
  readonly isUnlimited?: boolean;
  /** Everything that it can show. */
  readonly views: readonly PublishedView[];
  /** Whether this service has it. Default: yes. */
  readonly isOffered?: (services: PersonServices) => boolean;
  readonly show: (visit: PersonVisit, services: PersonServices) => Promise<void> | void;
  /** Gets the fields of a form of this page. `action` is one that a view takes. */
  readonly submit?: (visit: PersonVisit, form: Form, services: PersonServices) => Promise<void>;
}

/** What the pages are built from. */
export interface PersonPagesParts extends PersonServices {
  readonly pages: Pages;
  readonly gate: AccountGate;
}

type Refusal = "stale_form" | "invalid_request" | "too_many_changes";

/** How a request is answered. */
interface Answers {
  page<Data extends PersonLocals>(
    view: PersonView<Data>,
    data: Data,
    seen: Visit,
    options?: AnswerOptions,
  ): void;
  /** @param location an address of this service. */
  leave(location: string): void;
  /** Nobody is signed in any more. */
  lost(location: string): void;
  refuse(status: number, error: Refusal, description: string, retryAfter?: number): void;
}

function htmlAnswers(ctx: ServiceContext, pages: Pages): Answers {
  return {
    page: (view, data, seen, options) => pages.send(ctx, view, data, { ...options, visit: seen }),
    leave: (location) => seeOther(ctx, location),
    lost: (location) => seeOther(ctx, location),
    refuse: (status, error, _description, retryAfter) =>
      pages.error(ctx, { status, error, ...(retryAfter !== undefined && { retryAfter }) }),
  };
}

function jsonAnswers(ctx: ServiceContext, pages: Pages): Answers {
  const wait = (retryAfter: number | undefined): void => {
    if (retryAfter !== undefined) ctx.set("Retry-After", String(Math.max(1, Math.ceil(retryAfter))));
  };
  return {
    page(view, data, { locale }, { status = 200, retryAfter } = {}) {
      answerJson(ctx, status, view.describe(pages.translator(locale), data));
      wait(retryAfter);
    },
    leave: (location) =>
      ctx.method === "POST" ? answerJson(ctx, 200, { done: true, location }) : seeOther(ctx, location),
    lost: (location) => demandSignIn(ctx, location),
    refuse(status, error, description, retryAfter) {
      refuse(ctx, status, error === "stale_form" ? "forbidden" : error, description);
      wait(retryAfter);
    },
  };
}

/** The fields of a form or of a body; `undefined` if it can't be read. */
async function sent(ctx: ServiceContext): Promise<Form | undefined> {
  if (!wantsJson(ctx)) return readable(() => ctx.exchange.form());
  const body = await readJson(ctx);
  const action = new URLSearchParams(ctx.querystring).get("action");
  return body && action !== null ? new Map([...body, ["action", action]]) : body;
}

/** @returns the pages with the checks in front of them. */
export function createPersonPages(
  parts: PersonPagesParts,
  table: readonly PersonPage[],
): readonly AccountPage[] {
  const { pages, gate, seals } = parts;
  const list = table.filter(({ isOffered }) => isOffered?.(parts) ?? true);

  const answersOf = (ctx: ServiceContext): Answers =>
    wantsJson(ctx) ? jsonAnswers(ctx, pages) : htmlAnswers(ctx, pages);

  function visit(
    ctx: ServiceContext,
    person: SignedIn,
    { path, query }: AccountRequest,
    answers: Answers,
  ): PersonVisit {
    const { path: base, url } = ctx.exchange.deployment;
    const { sub, locale, email } = person.account;
    const isUnsaved = seals.isUnsaved(path, query.get("unsaved") ?? "");
    const notice = isUnsaved ? "unsaved" : seals.open(person, path, query.get("done"));
    const seen = pages.visit(ctx, { account: locale ?? undefined, isRepeatable: true });
    return {
      ctx,
      person,
      query,
      after: seals.decrypt(person, listOf(path), query.get("after") ?? ""),
      nextPage: (position) =>
        `${base}${path}?${new URLSearchParams({ after: seals.encrypt(person, listOf(path), position) })}`,
      locale: seen.locale,
      caller: callerOf(ctx, { kind: "account", id: sub }),
      locals: {
        base,
        action: base + path,
        csrf: seals.token(person, path),
        person: { name: fullName(person.account), email: shownEmail(email) },
        places: list.flatMap(({ place, path: target }) =>
          place === undefined
            ? []
            : [{ page: place, href: base + target, isCurrent: isWithin(path, target) }],
        ),
        ...(notice !== undefined && { notice }),
      },
      send: (page, data, options) => answers.page(page, data, seen, options),
      stepUp: (target, more) => gate.stepUp(ctx, target, more),
      limited: (retryAfter) =>
        answers.refuse(429, "too_many_changes", "too many changes: try again later", retryAfter),
      done: (next, about, now = person) =>
        answers.leave(`${url}${next}?done=${seals.seal(now, next, about)}`),
      leave: (next) => answers.leave(url + next),
    };
  }

  function enter(
    { needs }: PersonPage,
    ctx: ServiceContext,
    request: AccountRequest,
    unsaved?: string,
  ): Promise<SignedIn | undefined> {
    return needs === undefined
      ? gate.enter(ctx, request, unsaved)
      : gate.enterRecently(ctx, request, unsaved);
  }

  async function submit(page: PersonPage, ctx: ServiceContext, request: AccountRequest): Promise<void> {
    const answers = answersOf(ctx);
    const foreign = wantsJson(ctx) ? foreignness(ctx) : isFromHere(ctx) ? undefined : "another site";
    if (foreign !== undefined) return answers.refuse(403, "stale_form", foreign);
    // Who signs in again must know that this form is lost. Its text is not kept: it is personal, and may be a password.
    const unsaved = `unsaved=${seals.sealUnsaved(request.path)}`;
    const person = await enter(page, ctx, request, unsaved);
    if (person === undefined) return undefined;
    const form = await sent(ctx);
    if (form === undefined) return answers.refuse(400, "invalid_request", UNREADABLE);
    if (!seals.isToken(person, request.path, form.get("csrf") ?? ""))
      return answers.refuse(403, "stale_form", "csrf is not that of this page and session");
    // Empty is the same as left out.
    const action = form.get("action") || "submit";
    if (!page.views.some(({ takes }) => ownValue(takes, action) !== undefined))
      return answers.refuse(400, "invalid_request", "the page has no such action");
    const visited = visit(ctx, person, request, answers);
    if (!page.isUnlimited) {
      const { sub } = person.account;
      const attempt = await parts.limits.change(sub);
      if (!attempt.allowed) {
        noteLimited(parts.audit, { ...visited.caller, action: "account.updated", subject: sub }, attempt);
        return visited.limited(attempt.retryAfter);
      }
    }
    try {
      return await page.submit?.(visited, form, parts);
    } catch (error) {
      // The account was deleted, or the session ended, while this request was running: the page asks for a sign-in.
      if (!(error instanceof NotFound || error instanceof ConditionFailed)) throw error;
      return answers.lost(`${ctx.exchange.deployment.url}${request.path}?${unsaved}`);
    }
  }

  return list.map((page) => ({
    path: page.path,
    methods: {
      async GET(ctx, request) {
        const person = await enter(page, ctx, request);
        if (person !== undefined) await page.show(visit(ctx, person, request, answersOf(ctx)), parts);
      },
      ...(page.submit !== undefined &&
        ({ POST: (ctx, request) => submit(page, ctx, request) } satisfies AccountPage["methods"])),
    },
  }));
}
