/** What each page is given by its caller. `docs/pages.md` lists what the views receive. */

/** Every page. */
export interface PageLocals {
  /** One of the configured locales; see `Pages.localeOf`. */
  readonly locale: string;
  /** The query that the language links repeat. Without it there is no language switch; see `Pages.visit`. */
  readonly here?: string;
}

/** Why the login form is shown again. */
export type LoginProblem =
  | { readonly kind: "wrong" }
  | { readonly kind: "missing"; readonly fields: readonly LoginField[] }
  | { readonly kind: "limited"; /** Seconds. */ readonly retryAfter: number };

/** The fields of the login form. */
export type LoginField = "username" | "password";

/** `login`: a form with `username`, `password`, the hidden field `csrf` and one submit button. */
export interface LoginLocals extends PageLocals {
  /** The display name of the client. */
  readonly client: string;
  /** Signs in to the account pages, so the title names no client. Default `false`. */
  readonly own?: boolean;
  /** Path of the form's target. */
  readonly action: string;
  readonly csrf: string;
  /** Pre-fills the first field: what the person typed before, or `login_hint` of the request. */
  readonly username: string;
  readonly problem?: LoginProblem;
}

/** `account`: who is signed in, and links. */
export interface AccountLocals extends PageLocals {
  /** The display name of the account. */
  readonly account: string;
  /** The identifier of the account. */
  readonly sub: string;
  /** Path of the delivery console, for operators. */
  readonly deliveries?: string;
  /** Path that signs out, if the deployment has one. */
  readonly signOut?: string;
}

/** `consent`: a form with the hidden field `csrf` and two buttons, `decision` = `allow` or `deny`. */
export interface ConsentLocals extends PageLocals {
  readonly client: string;
  readonly action: string;
  readonly csrf: string;
  /** The display name of the account. */
  readonly account?: string;
  /** Names of fields. A name without a text `field.<name>` is shown as it is. */
  readonly fields: readonly string[];
}

/** `logout`: a form with the hidden field `xsrf` and two buttons, one of which sends `logout` = `yes`. */
export interface LogoutLocals extends PageLocals {
  /** Address of the form's target. */
  readonly action: string;
  readonly xsrf: string;
}

/** `logged-out`: the result of `logout`. */
export interface LoggedOutLocals extends PageLocals {
  /** The person chose to stay signed in. Default `false`. */
  readonly stayed?: boolean;
}

/** `unavailable`, `error` and `start-again`: pages without a next step of their own. */
export interface LastPageLocals extends PageLocals {
  /** Address of the account page, so that there is always a link to follow. */
  readonly accountUrl: string;
}

/** `error`: a request that cannot continue and must not be redirected to the client. */
export interface ErrorLocals extends LastPageLocals {
  /** A code such as those of RFC 6749, or `rate_limited`. A code without a text `error.<code>` gets `error.other`. */
  readonly error: string;
  /** A technical description in English, shown under details. */
  readonly description?: string;
  /** Seconds, with `rate_limited`. Default 60. */
  readonly retryAfter?: number;
}

/** `start-again`: the interaction is gone, or the form is not from our page. */
export interface StartAgainLocals extends LastPageLocals {
  /** Path of the interaction, if it can continue. */
  readonly action?: string;
}
