/** What each page is given by its caller. `docs/pages.md` lists what the views receive. */
import type { PresentStep } from "./steps/step.ts";

/** Every page. */
export interface PageLocals {
  /** One of the configured locales; see `Pages.localeOf`. */
  readonly locale: string;
  /** The query that the language links repeat. Without it there is no language switch; see `Pages.visit`. */
  readonly here?: string;
}

/** A step of a running sign-in: a form with the hidden field `csrf`. The view has the name of the step. */
export interface StepLocals extends PageLocals {
  readonly step: PresentStep;
}

/** `logout`: a form with the hidden field `xsrf` and two buttons, one of which sends `logout` = `yes`. */
export interface LogoutLocals extends PageLocals {
  /** Address of the form's target. */
  readonly action: string;
  readonly xsrf: string;
}

/** `logged-out`: the result of `logout`. */
export interface LoggedOutLocals extends PageLocals {
  /** What the person has done. Default: `signed out`. */
  readonly after?: "signed out" | "stayed" | "deleted";
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

/** `confirm`: a link in mail that confirms nothing in this browser, or nothing any more, or undoes a change of address. */
export interface ConfirmLocals extends LastPageLocals {
  readonly kind: "elsewhere" | "gone" | "taken" | "undo";
  /** `undo` only: the address that comes back, and the form that asks for it. */
  readonly form?: { readonly email: string; readonly action: string; readonly csrf: string };
}
