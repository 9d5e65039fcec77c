/** What a page is, and the calls that render and send it. */
import type { Translator } from "../core/texts.ts";
import type { ServiceContext } from "../provider/exchange.ts";
import type { ErrorAnswer, LogoutPages, PageScript, StartAgainAnswer } from "../provider/pages.ts";
import type { LanguageHints, LanguageWishes } from "./look/language.ts";
import type { SignInClient } from "./steps/running-sign-in.ts";
import type { Locals } from "./look/views.ts";

/** A page: its view, and the variables that the view gets. It stands in the file of its handlers. */
export interface Page<Data = undefined> {
  /** The name of the view, without `.ejs`. */
  readonly view: string;
  /** `heading`, and everything else that the view prints. Each page also gets what `docs/reference/views.md` lists for all. */
  readonly locals: (t: Translator, data: Data) => Locals;
}

/** A page that programs get as JSON. */
export interface DescribedPage<Data = undefined> extends Page<Data> {
  readonly describe: (t: Translator, data: Data) => object;
}

/** How one request sees the pages. */
export interface Visit {
  /** The address of the script. Without it the page has none. */
  readonly script?: string;
  /** One of the configured locales. */
  readonly locale: string;
  /** The query that the language links repeat. Without it there is no language switch. */
  readonly here?: string;
}

/** Hints about the request for {@link Pages.visit}. */
export interface VisitHints extends LanguageHints {
  /** Whether a GET of this address shows the page again. Default: the request is one. */
  readonly isRepeatable?: boolean;
}

/** The parts of a Koa context that sending a page needs. */
export interface PageContext extends LanguageWishes {
  status: number;
  type: string;
  body: unknown;
  set(field: string, value: string): void;
  /** `deployment` decides whether the browser must stay on https, and where the account page is. */
  readonly exchange: {
    readonly deployment: { readonly secure: boolean; readonly url: string };
    readonly requestId?: string;
  };
}

/** How a page is sent. */
export interface SendOptions extends VisitHints {
  /** Default: 200. */
  readonly status?: number;
  /** Seconds, for `Retry-After`. */
  readonly retryAfter?: number;
  /** A visit that has been made already. Default: one with these hints. */
  readonly visit?: Visit;
  /** A script that the page runs at once. Default: none. */
  readonly script?: string;
}

/** What the page "start again" knows about the sign-in, if it does. */
export interface ShownEnd {
  /** The client that the person wanted to go to. */
  readonly client?: Pick<SignInClient, "name" | "own" | "logo" | "client_uri">;
  /** The sealed request that starts the same authorization again. */
  readonly again?: string;
  /** What was typed and is gone: nothing, something, or everything but the name. */
  readonly typed?: "something" | "name";
}

/**
 * The pages that other parts of the service send. Two of them need less of a context than those of {@link ErrorPages},
 * so that a host application can send them too.
 */
export interface Answers extends LogoutPages {
  /** 400, or 403 for a form that is not ours. */
  startAgain(ctx: ServiceContext, answer?: StartAgainAnswer & ShownEnd): void;
  error(ctx: PageContext, answer: ErrorAnswer): void;
  /** 503 with `Retry-After`, in seconds. */
  unavailable(ctx: PageContext, retryAfter: number): void;
}

/** The pages of one service. */
export interface Pages extends Answers {
  readonly script: PageScript;
  /** CSP source of the `<style>` element of the pages with this layout: `sha256-…`. Default: of those without one. */
  styleHash(layout?: string): string;
  /** Sets the security headers of a page that oidc-provider renders itself. */
  security(ctx: ServiceContext): void;
  /**
   * The language of this request and its language switch. Call it once for a request: if the person has followed a link
   * of the switch, it sets a cookie.
   */
  visit(ctx: LanguageWishes, hints?: VisitHints): Visit;
  /** The texts of a locale. @throws TypeError if it is not configured. */
  translator(locale: string): Translator;
  /** The HTML of a page. */
  render<Data>(page: Page<Data>, visit: Visit, data: NoInfer<Data>): string;
  /** Sends a page with its status and all headers. */
  send<Data>(ctx: PageContext, page: Page<Data>, data: NoInfer<Data>, options?: SendOptions): void;
}
