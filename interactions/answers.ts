/** Sends pages: body, status and all headers. */
import { hash } from "node:crypto";
import { securityHeaders } from "../core/security-headers.ts";
import type { LoggedOutLocals } from "./page-locals.ts";
import type { LanguageWishes } from "./look/language.ts";
import type { Pages } from "./pages.ts";

/** What sending a page needs of a Koa context. */
export interface AnswerContext extends LanguageWishes {
  status: number;
  type: string;
  body: unknown;
  set(field: string, value: string): void;
  /** `deployment` decides whether the browser must stay on https, and where the account page is. */
  readonly state: { readonly deployment: { readonly secure: boolean; readonly url: string } };
}

/** A page and its status. */
export interface PageAnswer {
  readonly status: number;
  readonly html: string;
  /** Seconds, for `Retry-After`. */
  readonly retryAfter?: number;
  /** The CSP hash of the script of the page. Default: there is none. */
  readonly scriptHash?: string;
}

/** Presses the button that signs out. */
const SIGN_OUT = "document.forms[0].elements.logout.click()";
const SIGN_OUT_HASH = `sha256-${hash("sha256", SIGN_OUT, "base64")}`;

/** An error that a page shows. */
export interface ErrorAnswer {
  readonly status: number;
  /** A code such as those of RFC 6749, or `rate_limited`. */
  readonly error: string;
  /** A technical description in English. */
  readonly description?: string;
  /** Seconds, for `Retry-After` and the text of `rate_limited`. */
  readonly retryAfter?: number;
  /** `ui_locales` of the request. */
  readonly uiLocales?: string;
}

/** The pages that other parts of the service send. */
export interface Answers {
  /**
   * 200: asks whether to sign out. The form goes to `action`, with the hidden field `xsrf` and the choice `logout`. With
   * `atOnce`, a script presses the button, and only a browser without scripts asks.
   */
  readonly confirmLogout: (
    ctx: AnswerContext,
    form: { readonly action: string; readonly xsrf: string; readonly atOnce?: boolean },
  ) => Promise<void>;
  /** 200: after signing out, after choosing to stay signed in, or after deleting the account. */
  readonly loggedOut: (ctx: AnswerContext, answer?: Pick<LoggedOutLocals, "after">) => Promise<void>;
  readonly error: (ctx: AnswerContext, answer: ErrorAnswer) => Promise<void>;
  /** 400, or 403 for a form that is not ours. `action` is the path of the interaction if it can continue. */
  readonly startAgain: (
    ctx: AnswerContext,
    answer?: { readonly status?: 400 | 403; readonly action?: string; readonly uiLocales?: string },
  ) => Promise<void>;
  /** 503 with `Retry-After`, in seconds. */
  readonly unavailable: (ctx: AnswerContext, retryAfter: number) => Promise<void>;
}

/** Sends a page with the headers of every page. */
export function sendPage(
  ctx: AnswerContext,
  { styleHash }: Pick<Pages, "styleHash">,
  { status, html, retryAfter, scriptHash }: PageAnswer,
): void {
  ctx.status = status;
  ctx.type = "text/html; charset=utf-8";
  ctx.body = html;
  const { secure } = ctx.state.deployment;
  securityHeaders(ctx, { styleHash, secure, ...(scriptHash !== undefined && { scriptHash }) });
  if (retryAfter !== undefined) ctx.set("Retry-After", String(Math.max(1, Math.ceil(retryAfter))));
}

/** Redirects with a 303: the browser continues with a GET, without the form and without a `Referer`. */
export function seeOther(
  ctx: Pick<AnswerContext, "status" | "set" | "state"> & { redirect(url: string): void },
  location: string,
): void {
  ctx.redirect(location);
  ctx.status = 303;
  securityHeaders(ctx, { secure: ctx.state.deployment.secure });
}

/** Sends these pages in the language of each browser. */
export function createAnswers(pages: Pages): Answers {
  const common = (ctx: AnswerContext, uiLocales?: string) => ({
    ...pages.visit(ctx, { uiLocales }),
    accountUrl: `${ctx.state.deployment.url}/account`,
  });
  return {
    async confirmLogout(ctx, { action, xsrf, atOnce = false }) {
      const html = await pages.logout({ ...pages.visit(ctx), action, xsrf });
      if (!atOnce) return sendPage(ctx, pages, { status: 200, html });
      const pressed = html.replace("</body>", `<script>${SIGN_OUT}</script></body>`);
      return sendPage(ctx, pages, { status: 200, html: pressed, scriptHash: SIGN_OUT_HASH });
    },
    async loggedOut(ctx, { after = "signed out" } = {}) {
      const html = await pages.loggedOut({ ...pages.visit(ctx), after });
      sendPage(ctx, pages, { status: 200, html });
    },
    async error(ctx, { status, uiLocales, ...shown }) {
      const html = await pages.error({ ...common(ctx, uiLocales), ...shown });
      const { retryAfter } = shown;
      sendPage(ctx, pages, { status, html, ...(retryAfter !== undefined && { retryAfter }) });
    },
    async startAgain(ctx, { status = 400, uiLocales, ...shown } = {}) {
      const html = await pages.startAgain({ ...common(ctx, uiLocales), ...shown });
      sendPage(ctx, pages, { status, html });
    },
    async unavailable(ctx, retryAfter) {
      const html = await pages.unavailable(common(ctx));
      sendPage(ctx, pages, { status: 503, html, retryAfter });
    },
  };
}
