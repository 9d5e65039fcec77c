/**
 * Registration: a person makes an account of their own. Until the address is confirmed there is no account, and nothing
 * is reserved: of several people who register one name, the first to confirm gets it.
 */
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Caller } from "../audit/audit-event.ts";
import type { AccountRecord } from "../directory/directory.ts";
import type { ConfirmationProof, Unproven } from "./confirmations.ts";

/** Where and by whom something is asked for. */
export interface AskedAt {
  /** The deployment that the browser is on: links in mail lead to it. */
  readonly deployment: DeploymentKind;
  /** For the audit. */
  readonly caller: Caller;
  /** The caller's IP address, as far as proxies are trusted: for the limits. */
  readonly address: string;
  /** The language of the page, for mail to people whose language is not known. */
  readonly locale?: string | undefined;
}

/** Too many requests: the same for known and unknown names. */
export interface Limited {
  readonly kind: "limited";
  /** Seconds until there can be another one. */
  readonly retryAfter: number;
}

/** What a person entered, unchanged. */
export interface RegistrationForm {
  readonly email: string;
  readonly password: string;
  readonly username?: string | undefined;
  readonly name?: string | undefined;
  readonly surname?: string | undefined;
  /** `YYYY-MM-DD`. */
  readonly date_of_birth?: string | undefined;
  readonly gender?: string | undefined;
  /** The version of the terms that the person accepted. */
  readonly termsVersion?: string | undefined;
  /** The language of the page: becomes that of the account. */
  readonly locale?: string | undefined;
}

export type RegistrationField = Exclude<keyof RegistrationForm, "locale">;

/**
 * What is wrong with a field. `invalid`: its form; `domain`: addresses of this domain can't register; `terms`: they are
 * not accepted, or have changed. The others are about the password.
 */
export type FieldProblem =
  | "required"
  | "invalid"
  | "domain"
  | "terms"
  | "too-short"
  | "too-long"
  | "common"
  | "name"
  | "breached";

export type RegistrationStarted =
  /** Mail is on its way, to a known address too: it says so there. */
  | { readonly kind: "sent" }
  | {
      readonly kind: "invalid";
      readonly problems: Readonly<Partial<Record<RegistrationField, FieldProblem>>>;
    }
  /** The `check` of the configuration refuses. */
  | { readonly kind: "refused" }
  | Limited;

export type RegistrationConfirmed =
  | { readonly kind: "created"; readonly record: AccountRecord }
  /** Somebody else has the username by now. The address stays confirmed: see {@link Registrations.rename}. */
  | { readonly kind: "username-taken" }
  | Unproven;

/** Each call rejects with `StorageUnavailable` when the storage fails. */
export interface Registrations {
  /**
   * Checks the form, and stores it for an hour with the mail to its address. An earlier registration of this
   * interaction ends. The same work, answer and time for a known and an unknown address, a free and a taken username.
   * @param interaction the id of the running sign-in.
   */
  start(interaction: string, form: RegistrationForm, at: AskedAt): Promise<RegistrationStarted>;
  /** Sends a new code and link to the same address. The earlier ones end. `gone`: there is nothing to confirm. */
  resend(
    interaction: string,
    at: AskedAt,
  ): Promise<{ readonly kind: "sent" } | { readonly kind: "gone" } | Limited>;
  /**
   * Creates the account. A link counts only for the interaction that it was sent for: find that by
   * `Confirmations.findByLink`, and call this only in the browser that has its cookie.
   */
  confirm(interaction: string, proof: ConfirmationProof, at: AskedAt): Promise<RegistrationConfirmed>;
  /**
   * Creates the account with another username, after `username-taken`. `null`: without one, if it is not required.
   * `invalid`: the username breaks a rule.
   */
  rename(
    interaction: string,
    username: string | null,
    at: AskedAt,
  ): Promise<RegistrationConfirmed | { readonly kind: "invalid"; readonly problem: FieldProblem }>;
  /** Whether a registration of this interaction waits, and whether its address is confirmed already. */
  pending(interaction: string): Promise<{ readonly email: string; readonly confirmed: boolean } | undefined>;
}
