/** What a request is answered with. A handler says what it means; how a browser and a program see it is decided here. */
import { securityHeaders } from "../core/security-headers.ts";
import type { ServiceContext } from "../provider/exchange.ts";
import type { EndedReason, ErrorAnswer, StartAgainAnswer } from "../provider/pages.ts";
import { seeOther } from "./answers.ts";
import type { EndedSignIn } from "./ended.ts";
import type { DescribedPage, Pages, SendOptions, ShownEnd } from "./page.ts";
import { UNREADABLE, wantsJson } from "./submission.ts";

/** A page with its data. */
export interface Shown {
  readonly kind: "page";
  readonly page: DescribedPage;
  readonly options: SendOptions;
}

export type Reply =
  | Shown
  /** A change was made: a browser is redirected to `location`, where a GET shows the page. */
  | { readonly kind: "next"; readonly location: string; readonly shown: Shown }
  /** Leads to another address. After a POST, a program gets it as `location`, with `done`. */
  | { readonly kind: "leave"; readonly location: string }
  /** The same authorization starts again there. */
  | { readonly kind: "restart"; readonly location: string }
  /** The person has to sign in there, and comes back. */
  | { readonly kind: "sign-in"; readonly location: string }
  /** 410 for programs. @property browser what a browser gets. Default: the page "start again". */
  | { readonly kind: "gone"; readonly ended?: EndedSignIn & ShownEnd; readonly browser?: Reply }
  /** 403: what was sent is not from a page of this host. @property startAgain for the page; default: an error page. */
  | { readonly kind: "forged"; readonly description: string; readonly startAgain?: StartAgainAnswer }
  | ({ readonly kind: "refused" } & ErrorAnswer);

/** A page as an answer. */
export const shown = <Data>(
  page: DescribedPage<Data>,
  data: NoInfer<Data>,
  options: SendOptions = {},
): Shown => ({
  kind: "page",
  page: {
    view: page.view,
    locals: (t) => page.locals(t, data),
    describe: (t) => page.describe(t, data),
  },
  options,
});

/** What was sent can't be read. */
export const unreadable = (ctx: ServiceContext, uiLocales?: string): Reply => ({
  kind: "refused",
  status: 400,
  error: "invalid_request",
  description: wantsJson(ctx) ? UNREADABLE.json : UNREADABLE.form,
  ...(uiLocales !== undefined && { uiLocales }),
});

/** Answers a browser with a page, and a program with JSON. */
export function send(ctx: ServiceContext, pages: Pages, reply: Reply): void {
  return wantsJson(ctx) ? sendJson(ctx, pages, reply) : sendPage(ctx, pages, reply);
}

function sendPage(ctx: ServiceContext, pages: Pages, reply: Reply): void {
  switch (reply.kind) {
    case "page":
      return pages.send(ctx, reply.page, undefined, reply.options);
    case "next":
    case "leave":
    case "restart":
    case "sign-in":
      return seeOther(ctx, reply.location);
    case "gone":
      return reply.browser === undefined
        ? pages.startAgain(ctx, reply.ended)
        : sendPage(ctx, pages, reply.browser);
    case "forged":
      return reply.startAgain === undefined
        ? pages.error(ctx, { status: 403, error: "stale_form" })
        : pages.startAgain(ctx, { ...reply.startAgain, status: 403 });
    case "refused":
      return pages.error(ctx, reply);
  }
}

function sendJson(ctx: ServiceContext, pages: Pages, reply: Reply): void {
  const answer = (status: number, body: object, retryAfter?: number): void => {
    ctx.status = status;
    ctx.body = body;
    securityHeaders(ctx, { secure: ctx.exchange.deployment.secure });
    if (retryAfter !== undefined) ctx.set("Retry-After", String(Math.max(1, Math.ceil(retryAfter))));
  };
  const refuse = (status: number, error: string, description = "", more: object = {}): void =>
    answer(status, { error, error_description: description, ...more });
  switch (reply.kind) {
    case "page":
    case "next": {
      const { page, options } = reply.kind === "page" ? reply : reply.shown;
      const { locale } = options.visit ?? pages.visit(ctx, options);
      const { status = 200, retryAfter } = options;
      return answer(status, page.describe(pages.translator(locale), undefined), retryAfter);
    }
    case "leave": {
      const { location } = reply;
      return ctx.method === "POST" ? answer(200, { done: true, location }) : seeOther(ctx, location);
    }
    case "restart":
      return answer(200, { location: reply.location });
    case "sign-in":
      return refuse(401, "login_required", "the person has to sign in at the location", {
        location: reply.location,
      });
    case "gone": {
      const { reason, client, again } = reply.ended ?? {};
      const description = reason === undefined ? LINK_GONE : GONE[reason];
      return refuse(410, "gone", description, {
        ...(reason !== undefined && { reason }),
        ...(client && { client }),
        ...(again !== undefined && { again }),
      });
    }
    case "forged":
      return refuse(403, "forbidden", reply.description);
    case "refused": {
      const { status, error, description = "", retryAfter } = reply;
      return answer(status, { error, error_description: description }, retryAfter);
    }
  }
}

const LINK_GONE = "this link is no longer valid, or not in this browser";

const GONE: Readonly<Record<EndedReason, string>> = {
  expired: "this sign-in has expired",
  complete: "this sign-in is complete",
  elsewhere: "this sign-in belongs to another browser",
  "no-cookies": "the browser sent no cookies",
};
