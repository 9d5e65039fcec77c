/** The common parts of all pages of the signed-in person: who may see them, and which forms count. */
import { callerOf, type ServiceContext } from "../../provider/exchange.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import { ConditionFailed, NotFound } from "../../core/errors.ts";
import type { AuditCollector } from "../../records/audit/collector.ts";
import { fullName, shownEmail } from "../../accounts/names.ts";
import { type AttemptLimits, noteLimited } from "../../accounts/limits/attempt-limits.ts";
import type { Translator } from "../../core/texts.ts";
import type { SignedIn } from "../../provider/account.ts";
import { seeOther } from "../answers.ts";
import { type Form, formLocals, type FormProblem, isFromHere, readable } from "../forms.ts";
import type { Page, Pages, SendOptions } from "../page.ts";
import type { Locals } from "../look/views.ts";
import type { AccountPage, AccountRequest } from "../../provider/pages.ts";
import type { AccountGate } from "./gate.ts";
import type { AskedAt } from "../../accounts/people/requests.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import { initialsOf } from "../../core/pictures.ts";
import type { AccountSeals, Notice } from "./seals.ts";

/** Where the account begins, below each base URL. */
export const HOME = "/account";

/** A page that the others link to. Its name is the text `account.<page>`. */
export interface Place {
  readonly page: string;
  /** As the browser sees it. */
  readonly href: string;
  /** Whether it or a page below it is shown. */
  readonly isCurrent: boolean;
}

/** The data that every page of the person gets. Paths are as the browser sees them. */
export interface PersonLocals {
  /** Who is signed in. The name may be empty. */
  readonly person: { readonly name: string; readonly email: string };
  readonly places: readonly Place[];
  /** The path of the deployment. */
  readonly base: string;
  /** The path of this page, which its forms are sent to. */
  readonly action: string;
  readonly csrf: string;
  /** The change that has just been made. */
  readonly notice?: Notice;
}

/** The variables that every page of the person has. */
export function personLocals(
  t: Translator,
  { base, action, csrf, notice, person, places }: PersonLocals,
  heading: string,
  problems: readonly FormProblem[] = [],
): Locals {
  return {
    heading,
    layout: "account",
    action,
    csrf,
    person: { ...person, initials: initialsOf(person, t.locale) },
    home: base + HOME,
    places: places.map(({ page, href, isCurrent }) => ({
      page,
      href,
      label: t(`account.${page}`),
      current: isCurrent,
    })),
    notice: notice === undefined ? "" : t(`account.notice.${notice}`),
    back: base + HOME,
    ...formLocals(t, [], problems),
  };
}

/** Whether a page is this one or below it. Everything is below the first one. */
function isWithin(path: string, place: string): boolean {
  return path === place || (place !== HOME && path.startsWith(`${place}/`));
}

/** What the position in the list of a page is encrypted for. */
const listOf = (path: string): string => `${path} list`;

/** One request of a person for one of their pages. */
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
  /** Sends the page. */
  readonly send: <Data>(
    page: Page<Data>,
    data: NoInfer<Data>,
    options?: Pick<SendOptions, "status" | "retryAfter">,
  ) => void;
  /** Asks for the second factor of a person who has one, and redirects to a page. */
  readonly stepUp: (path: string, query: Readonly<Record<string, string>>) => void;
  /** Answers with 429. @param retryAfter seconds. */
  readonly limited: (retryAfter: number) => void;
  /** Redirects to a page, which shows the notice. @param now the person as the next request sees them. */
  readonly done: (path: string, notice: Notice, now?: SignedIn) => void;
}

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

/** A page of the signed-in person. */
export interface PersonPage {
  /** Below the base URL. */
  readonly path: string;
  /** The name by which the other pages link to it: see {@link Place}. Default: they don't. */
  readonly place?: string;
  /** Whether it needs a sign-in within the last five minutes. Default: any. */
  readonly needs?: "recent sign-in";
  /** Whether its form counts for the limit of changes. Default: yes. */
  readonly isUnlimited?: boolean;
  readonly show: (visit: PersonVisit) => Promise<void> | void;
  /** Gets the fields of a form of this page. */
  readonly submit?: (visit: PersonVisit, form: Form) => Promise<void>;
}

/** What the pages are built from. */
export interface PersonPagesParts {
  readonly pages: Pages;
  readonly gate: AccountGate;
  readonly seals: AccountSeals;
  readonly limits: Pick<AttemptLimits, "change">;
  readonly audit: Pick<AuditCollector, "noteRefusal">;
}

/** @returns the pages with the checks in front of them. */
export function createPersonPages(
  parts: PersonPagesParts,
  list: readonly PersonPage[],
): readonly AccountPage[] {
  const { pages, gate, seals } = parts;

  function visit(ctx: ServiceContext, person: SignedIn, { path, query }: AccountRequest): PersonVisit {
    const { path: base } = ctx.exchange.deployment;
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
      send(page, data, options) {
        pages.send(ctx, page, data, { ...options, visit: seen });
      },
      stepUp: (target, more) => gate.stepUp(ctx, target, more),
      limited: (retryAfter) => pages.error(ctx, { status: 429, error: "too_many_changes", retryAfter }),
      done(next, about, now = person) {
        seeOther(ctx, `${ctx.exchange.deployment.url}${next}?done=${seals.seal(now, next, about)}`);
      },
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

  return list.map((page) => ({
    path: page.path,
    methods: {
      async GET(ctx, request) {
        const person = await enter(page, ctx, request);
        if (person !== undefined) await page.show(visit(ctx, person, request));
      },
      ...(page.submit !== undefined &&
        ({
          async POST(ctx, request) {
            const stale = { status: 403, error: "stale_form" } as const;
            if (!isFromHere(ctx)) return pages.error(ctx, stale);
            // Who signs in again must know that this form is lost. Its text is not kept: it is personal, and may be a password.
            const unsaved = `unsaved=${seals.sealUnsaved(request.path)}`;
            const person = await enter(page, ctx, request, unsaved);
            if (person === undefined) return undefined;
            const form = await readable(() => ctx.exchange.form());
            if (form === undefined) return pages.error(ctx, { status: 400, error: "invalid_request" });
            if (!seals.isToken(person, request.path, form.get("csrf") ?? "")) return pages.error(ctx, stale);
            const visited = visit(ctx, person, request);
            if (!page.isUnlimited) {
              const { sub } = person.account;
              const attempt = await parts.limits.change(sub);
              if (!attempt.allowed) {
                noteLimited(
                  parts.audit,
                  { ...visited.caller, action: "account.updated", subject: sub },
                  attempt,
                );
                return visited.limited(attempt.retryAfter);
              }
            }
            try {
              return await page.submit?.(visited, form);
            } catch (error) {
              // The account was deleted, or the session ended, while this request was running: the page asks for a sign-in.
              if (!(error instanceof NotFound || error instanceof ConditionFailed)) throw error;
              return seeOther(ctx, `${ctx.exchange.deployment.url}${request.path}?${unsaved}`);
            }
          },
        } satisfies AccountPage["methods"])),
    },
  }));
}
