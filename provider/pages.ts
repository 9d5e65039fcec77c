/** The pages that endpoints and oidc-provider hand a request to. */
import type { ServiceContext } from "./exchange.ts";

/** An error that a page shows. */
export interface ErrorAnswer {
  readonly status: number;
  /** A code such as those of RFC 6749, or `rate_limited`. A code without a text `error.<code>` gets `error.other`. */
  readonly error: string;
  /** A technical description in English, shown under details. */
  readonly description?: string;
  /** Seconds, for `Retry-After` and the text of `rate_limited`. */
  readonly retryAfter?: number;
  /** `ui_locales` of the request. */
  readonly uiLocales?: string;
}

/** The script that every page loads. */
export interface PageScript {
  readonly text: string;
  /** Part of its address, so that browsers may keep it. */
  readonly digest: string;
}

/** Why a sign-in can't go on: `elsewhere` if it belongs to other cookies, `no-cookies` if none came. */
export type EndedReason = "expired" | "complete" | "elsewhere" | "no-cookies";

/** What the page "start again" says. */
export interface StartAgainAnswer {
  readonly status?: 400 | 403;
  /** Missing if the sign-in has not ended: the form is not ours, or another request was faster. */
  readonly reason?: EndedReason;
  /** Where it can go on. */
  readonly action?: string;
  readonly uiLocales?: string;
}

/** What a browser gets instead of a JSON error. */
export interface ErrorPages {
  readonly script: PageScript;
  readonly error: (ctx: ServiceContext, answer: ErrorAnswer) => void;
  /** 400, or 403 for a form that is not ours. */
  readonly startAgain: (ctx: ServiceContext, answer?: StartAgainAnswer) => void;
  /** 503 with `Retry-After`, in seconds. */
  readonly unavailable: (ctx: ServiceContext, retryAfter: number) => void;
  /** Sets the security headers of a page that oidc-provider renders itself: its auto-submitting forms. */
  readonly security: (ctx: ServiceContext) => void;
}

/** The pages of oidc-provider's logout endpoints. */
export interface LogoutPages {
  /**
   * 200: asks whether to sign out. The form goes to `action`, with the hidden field `xsrf` and the choice `logout`. With
   * `atOnce`, a script presses the button, and only a browser without scripts asks.
   */
  readonly confirmLogout: (
    ctx: ServiceContext,
    form: { readonly action: string; readonly xsrf: string; readonly atOnce?: boolean },
  ) => void;
  /** 200: after signing out, after choosing to stay signed in, or after deleting the account. */
  readonly loggedOut: (
    ctx: ServiceContext,
    answer?: { readonly after?: "signed out" | "stayed" | "deleted" },
  ) => void;
}

/** Shows a page and accepts its form. */
export interface PageHandlers {
  readonly show: (ctx: ServiceContext) => Promise<void>;
  readonly submit: (ctx: ServiceContext) => Promise<void>;
}

/** A request for a page under `{base}/account`. */
export interface AccountRequest {
  /** The path below the base URL. */
  readonly path: string;
  /** The `:uid` segment of the path, or an empty string. */
  readonly id: string;
  /** The query; no parameter is repeated. */
  readonly query: ReadonlyMap<string, string>;
}

export type AccountHandler = (ctx: ServiceContext, request: AccountRequest) => Promise<void>;

/** A page under `{base}/account`. */
export interface AccountPage {
  /** Below the base URL; `:uid` at the end stands for one segment. */
  readonly path: string;
  /** The handler of each method. The path answers 405 to other methods. */
  readonly methods: Readonly<Record<string, AccountHandler>>;
}

/** Where people come back from a provider. */
export interface ProviderCallback {
  /** @param answer the query; no parameter is repeated. */
  readonly show: (ctx: ServiceContext, answer: URLSearchParams) => Promise<void>;
  /** An answer that came as a form: it reads and stores nothing. */
  readonly submit: (ctx: ServiceContext) => Promise<void>;
}

/** The page that links in mail lead to. */
export interface ConfirmPage extends PageHandlers {
  /** @param token of the link; `undefined` once it is in a cookie. */
  readonly show: (ctx: ServiceContext, token?: string) => Promise<void>;
}
