/** The common parts of all pages of the signed-in person: who may see them, and which forms count. */
import { noteLimited } from "../../accounts/limits/attempt-limits.ts";
import { fullName, shownEmail } from "../../accounts/names.ts";
import { onlyProvider } from "../../accounts/providers.ts";
import type { AskedAt } from "../../accounts/people/requests.ts";
import { ConditionFailed, NotFound } from "../../core/errors.ts";
import { ownValue } from "../../core/untrusted-keys.ts";
import type { SignedIn } from "../../provider/account.ts";
import { callerOf, type ServiceContext } from "../../provider/exchange.ts";
import type { ConnectedDevices, DeviceCodes } from "../../provider/grants/device-codes.ts";
import type { AccountPage, AccountRequest } from "../../provider/pages.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import { type Reply, send, shown, unreadable } from "../reply.ts";
import type { PageServices } from "../services.ts";
import { originProblem, readSent, type Sent } from "../submission.ts";
import type { AccountGate } from "./gate.ts";
import { HOME, type PersonLocals, type PersonView, type PublishedView, statusOf } from "./person-view.ts";
import type { AccountSeals, Notice } from "./seals.ts";

/** Whether a page is this one or below it. Everything is below the first one. */
function isWithin(path: string, page: string): boolean {
  return path === page || (page !== HOME && path.startsWith(`${page}/`));
}

/** What the position in the list of a page is encrypted for. */
const listOf = (path: string): string => `${path} list`;

/** One request of a person for one of their pages, and what it can be answered with. */
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
  /** A page. With problems, its status is 400 or 429. */
  readonly show: <Data extends PersonLocals>(page: PersonView<Data>, data: NoInfer<Data>) => Reply;
  /** Asks for the second factor of a person who has one, and leads to a page. */
  readonly stepUp: (path: string, query: Readonly<Record<string, string>>) => Reply;
  /** 429. @param retryAfter seconds. */
  readonly limited: (retryAfter: number) => Reply;
  /** Leads to a page, which shows the notice. @param generation the new `sessions_generation` of the account, if it has one. */
  readonly done: (path: string, notice: Notice, generation?: number) => Reply;
  /** Leads to another address. @param path below the base URL, with its query. */
  readonly leave: (path: string) => Reply;
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

/** What the pages need of the service. */
export interface PersonServices extends Pick<
  PageServices,
  | "accounts"
  | "audit"
  | "claims"
  | "clients"
  | "clock"
  | "configuration"
  | "confirmations"
  | "devices"
  | "events"
  | "fields"
  | "identities"
  | "limits"
  | "links"
  | "mailDeployment"
  | "pages"
  | "passwords"
  | "people"
  | "secondFactors"
  | "storage"
  | "trips"
  | "units"
> {
  readonly gate: AccountGate;
  readonly sessions: SignInSessions;
  readonly deviceCodes: Pick<DeviceCodes, "find" | "connect" | "refuse">;
  readonly connectedDevices: ConnectedDevices;
  readonly seals: AccountSeals;
  /** Removes the session cookie from the browser. */
  readonly forgetSession: (ctx: ServiceContext) => void;
  /** The path of the console below the base URL. Missing without operators. */
  readonly console?: string | undefined;
}

/** A page of the signed-in person, as a browser and a program see it. */
export interface PersonPage {
  /** Below the base URL. */
  readonly path: string;
  /** Its name in the navigation of the account. Default: it is not there. */
  readonly navigation?: string;
  /**
   * Whether it needs a sign-in within the last five minutes, and one with a way of the account's own: a password or a passkey, if it
   * has one, and not the word of a provider. Default: any sign-in.
   */
  readonly needs?: "recent sign-in" | "recent sign-in with an own way";
  /** Whether its form counts for the limit of changes. Default: yes. */
  readonly isUnlimited?: boolean;
  /** Everything that it can show. */
  readonly views: readonly PublishedView[];
  /** Whether this service has it. Default: yes. */
  readonly isOffered?: (services: PersonServices) => boolean;
  /** Whether this person has it. Default: yes. Others are led to the first page. */
  readonly isFor?: (account: AccountRecord, services: PersonServices) => boolean;
  readonly show: (visit: PersonVisit, services: PersonServices) => Promise<Reply> | Reply;
  /** Gets what was sent from this page. `action` is one that a view takes. */
  readonly submit?: (visit: PersonVisit, sent: Sent, services: PersonServices) => Promise<Reply>;
}

/** Not of a person who signs in at a provider only: there the organization has the address, and a password signs nobody in. */
export const hasOwnWays: NonNullable<PersonPage["isFor"]> = (account, { configuration }) =>
  onlyProvider(configuration, account) === undefined;

/** @returns the pages with the checks in front of them. */
export function createPersonPages(
  parts: PersonServices,
  table: readonly PersonPage[],
): readonly AccountPage[] {
  const { pages, gate, seals } = parts;
  const list = table.filter(({ isOffered }) => isOffered?.(parts) ?? true);

  const isFor = (page: PersonPage, { account }: SignedIn): boolean => page.isFor?.(account, parts) ?? true;

  function visit(ctx: ServiceContext, person: SignedIn, { path, query }: AccountRequest): PersonVisit {
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
        navigation: list.flatMap((page) => {
          const { navigation: name, path: target } = page;
          return name === undefined || !isFor(page, person)
            ? []
            : [{ page: name, href: base + target, isCurrent: isWithin(path, target) }];
        }),
        ...(notice !== undefined && { notice }),
      },
      show: (page, data) => shown(page, data, { ...statusOf(data.problems), visit: seen }),
      stepUp: (target, more) => gate.stepUp(ctx, target, more),
      limited: (retryAfter) => ({
        kind: "refused",
        status: 429,
        error: "too_many_changes",
        description: "too many changes: try again later",
        retryAfter,
      }),
      done(next, about, sessions_generation = person.account.sessions_generation) {
        // As the next request will see the person.
        const now = { ...person, account: { ...person.account, sessions_generation } };
        return { kind: "leave", location: `${url}${next}?done=${seals.seal(now, next, about)}` };
      },
      leave: (next) => ({ kind: "leave", location: url + next }),
    };
  }

  function enter(
    { needs }: PersonPage,
    ctx: ServiceContext,
    request: AccountRequest,
    unsaved?: string,
  ): Promise<SignedIn | undefined> {
    if (needs === undefined) return gate.enter(ctx, request, unsaved);
    return gate.enterRecently(ctx, request, {
      unsaved,
      byOwnWay: needs === "recent sign-in with an own way",
    });
  }

  /** @returns `undefined` if the request is answered. */
  async function submit(
    page: PersonPage,
    ctx: ServiceContext,
    request: AccountRequest,
  ): Promise<Reply | undefined> {
    const description = originProblem(ctx);
    if (description !== undefined) return { kind: "forged", description };
    // Who signs in again must know that this form is lost. Its text is not kept: it is personal, and may be a password.
    const unsaved = `unsaved=${seals.sealUnsaved(request.path)}`;
    const person = await enter(page, ctx, request, unsaved);
    if (person === undefined) return undefined;
    const sent = await readSent(ctx);
    if (sent === undefined) return unreadable(ctx);
    if (!seals.isToken(person, request.path, sent.values.get("csrf") ?? ""))
      return { kind: "forged", description: "csrf is not that of this page and session" };
    if (!page.views.some(({ takes }) => ownValue(takes, sent.action) !== undefined))
      return {
        kind: "refused",
        status: 400,
        error: "invalid_request",
        description: "the page has no such action",
      };
    const visited = visit(ctx, person, request);
    if (!isFor(page, person)) return visited.leave(HOME);
    if (!page.isUnlimited) {
      const { sub } = person.account;
      const attempt = await parts.limits.change(sub);
      if (!attempt.allowed) {
        noteLimited(parts.audit, { ...visited.caller, action: "account.updated", subject: sub }, attempt);
        return visited.limited(attempt.retryAfter);
      }
    }
    try {
      return await page.submit?.(visited, sent, parts);
    } catch (error) {
      // The account was deleted, or the session ended, while this request was running: the page asks for a sign-in.
      if (!(error instanceof NotFound || error instanceof ConditionFailed)) throw error;
      return { kind: "sign-in", location: `${ctx.exchange.deployment.url}${request.path}?${unsaved}` };
    }
  }

  return list.map((page) => ({
    path: page.path,
    methods: {
      async GET(ctx, request) {
        const person = await enter(page, ctx, request);
        if (person === undefined) return;
        const visited = visit(ctx, person, request);
        send(ctx, pages, isFor(page, person) ? await page.show(visited, parts) : visited.leave(HOME));
      },
      ...(page.submit !== undefined &&
        ({
          async POST(ctx, request) {
            const reply = await submit(page, ctx, request);
            if (reply !== undefined) send(ctx, pages, reply);
          },
        } satisfies AccountPage["methods"])),
    },
  }));
}
