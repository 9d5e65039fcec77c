/** What each page is told by its caller. What the views see in the end is in `docs/pages.md`. */

/** Every page. */
export interface PageLocals {
  /** One of `Pages.locales`; see `Pages.localeOf`. */
  readonly locale: string;
}

/** Why a login form is shown again. */
export type LoginProblem =
  | { readonly kind: "wrong" }
  | { readonly kind: "missing"; readonly fields: readonly LoginField[] }
  | { readonly kind: "limited"; /** Seconds. */ readonly retryAfter: number };

/** The fields of the login form, by their names in it. */
export type LoginField = "username" | "password";

/** `login`: one form with `username`, `password`, the hidden `csrf` and one submit button. */
export interface LoginLocals extends PageLocals {
  /** What people call the client. */
  readonly client: string;
  /** The sign-in is to the account pages themselves: the client is not named. Default `false`. */
  readonly own?: boolean;
  /** Path that the form is sent to. */
  readonly action: string;
  readonly csrf: string;
  /** Fills in the first field: what was typed before, or the request's `login_hint`. */
  readonly username: string;
  readonly problem?: LoginProblem;
}

/** `account`: who is signed in, and where to go from there. */
export interface AccountLocals extends PageLocals {
  /** What the person is called. */
  readonly account: string;
  /** The identifier of the account. */
  readonly sub: string;
  /** Path of the delivery console, for operators. */
  readonly deliveries?: string;
  /** Path that signs out, where there is one. */
  readonly signOut?: string;
}

/** `consent`: one form with the hidden `csrf` and two buttons, `decision` = `allow` or `deny`. */
export interface ConsentLocals extends PageLocals {
  readonly client: string;
  readonly action: string;
  readonly csrf: string;
  /** What the person who is signed in is called. */
  readonly account?: string;
  /** Names of fields; one without a text `field.<name>` is shown as it is. */
  readonly fields: readonly string[];
}

/** `logout`: one form with the hidden `xsrf` and two buttons, of which one sends `logout` = `yes`. */
export interface LogoutLocals extends PageLocals {
  /** Address that the form is sent to. */
  readonly action: string;
  readonly xsrf: string;
}

/** `logged-out`: what came of the question of `logout`. */
export interface LoggedOutLocals extends PageLocals {
  /** The person chose to stay signed in. Default `false`. */
  readonly stayed?: boolean;
}

/** `unavailable`, `error`, `start-again`: pages without a next step of their own. */
export interface LastPageLocals extends PageLocals {
  /** Address of the account page, which asks to sign in first where that is needed: there is always a way on. */
  readonly accountUrl: string;
}

/** `error`: a request that can't go on and must not be sent back to the client. */
export interface ErrorLocals extends LastPageLocals {
  /** Code of RFC 6749 and the like, or `rate_limited`; one without a text `error.<code>` gets `error.other`. */
  readonly error: string;
  /** Technical, in English: shown under details. */
  readonly description?: string;
  /** Seconds, with `rate_limited`; default 60. */
  readonly retryAfter?: number;
}

/** `start-again`: the interaction is gone, or the form did not come from our page. */
export interface StartAgainLocals extends LastPageLocals {
  /** Path of the interaction, if it can still go on. */
  readonly action?: string;
}
