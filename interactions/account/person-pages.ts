/** What all pages of the signed-in person have in common: who may see them, and which forms count. */
import type { Context } from "koa";
import { originOf } from "../../records/audit/origin.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import { NotFound } from "../../core/errors.ts";
import type { AuditCollector } from "../../records/audit/collector.ts";
import { type AttemptLimits, noteLimited } from "../../accounts/limits/attempt-limits.ts";
import type { SignedIn } from "../../provider/account.ts";
import { createAnswers, seeOther, sendPage } from "../answers.ts";
import { type Form, isFromHere, readable } from "../forms.ts";
import type { Pages } from "../pages.ts";
import type { AccountContext, AccountGate, AccountPage, AccountRequest } from "./gate.ts";
import type { AccountSeals, Notice } from "./seals.ts";
import type { PersonLocals } from "./views.ts";

/** One request of a person for one of their pages. */
export interface PersonVisit {
  readonly ctx: AccountContext;
  readonly person: SignedIn;
  /** What every page is given. */
  readonly locals: PersonLocals;
  /** For the audit. */
  readonly caller: Caller;
  /** Sends the page. @param status default 200. @param retryAfter seconds, for `Retry-After`. */
  readonly send: (html: Promise<string>, status?: number, retryAfter?: number) => Promise<void>;
  /** Answers with 429. @param retryAfter seconds. */
  readonly limited: (retryAfter: number) => Promise<void>;
  /** Redirects to a page, which shows the notice. @param now the person as the next request sees them. */
  readonly done: (path: string, notice: Notice, now?: SignedIn) => void;
}

/** A page of the signed-in person. */
export interface PersonPage {
  /** Below the base URL. */
  readonly path: string;
  /** Whether it needs a sign-in within the last five minutes. Default: any. */
  readonly needs?: "recent sign-in";
  /** Whether its form counts for the limit of changes. Default: yes. */
  readonly isUnlimited?: boolean;
  readonly show: (visit: PersonVisit) => Promise<void>;
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
  /** Reads the body. Rejects an unreadable one with an error whose `status` is 400. */
  readonly readForm: (ctx: Context) => Promise<Form>;
}

/** Where the account begins, below each base URL. */
export const HOME = "/account";

/** @returns the pages with the checks in front of them. */
export function createPersonPages(
  parts: PersonPagesParts,
  list: readonly PersonPage[],
): readonly AccountPage[] {
  const { pages, gate, seals } = parts;
  const answers = createAnswers(pages);

  function visit(ctx: AccountContext, person: SignedIn, { path, query }: AccountRequest): PersonVisit {
    const { path: base } = ctx.state.deployment;
    const { sub, locale } = person.account;
    const notice = seals.open(person, path, query.get("done"));
    return {
      ctx,
      person,
      caller: {
        actor: { kind: "account", id: sub },
        ...originOf(ctx.state.address, ctx.req.headers["user-agent"]),
      },
      locals: {
        ...pages.visit(ctx, { account: locale ?? undefined, isRepeatable: true }),
        base,
        action: base + path,
        csrf: seals.token(person, path),
        ...(notice !== undefined && { notice }),
      },
      async send(html, status = 200, retryAfter) {
        const page = { status, html: await html };
        sendPage(ctx, pages, retryAfter === undefined ? page : { ...page, retryAfter });
      },
      limited: (retryAfter) => answers.error(ctx, { status: 429, error: "too_many_changes", retryAfter }),
      done(next, about, now = person) {
        seeOther(ctx, `${ctx.state.deployment.url}${next}?done=${seals.seal(now, next, about)}`);
      },
    };
  }

  function enter(
    { needs }: PersonPage,
    ctx: AccountContext,
    request: AccountRequest,
  ): Promise<SignedIn | undefined> {
    return needs === undefined ? gate.enter(ctx, request) : gate.enterRecently(ctx, request);
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
            if (!isFromHere(ctx)) return answers.error(ctx, stale);
            const person = await enter(page, ctx, request);
            if (person === undefined) return undefined;
            const form = await readable(() => parts.readForm(ctx));
            if (form === undefined) return answers.error(ctx, { status: 400, error: "invalid_request" });
            if (!seals.isToken(person, request.path, form.get("csrf") ?? ""))
              return answers.error(ctx, stale);
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
              // The account was deleted while this request was running: the page asks for a sign-in.
              if (!(error instanceof NotFound)) throw error;
              return seeOther(ctx, ctx.state.deployment.url + request.path);
            }
          },
        } satisfies AccountPage["methods"])),
    },
  }));
}
