/** The operations for support: why somebody can't sign in, where they are signed in, what they have allowed, a reset by mail. */
import { z } from "zod";
import { exactly } from "../arguments.ts";
import { ANY, FINDS, HELPS, ONE } from "./factors.ts";
import { NONE, operation } from "./operation.ts";

/**
 * What is looked at, in this order. The first that holds is the headline; `clear` is the last one, and holds if no other does.
 */
export const SIGN_IN_CHECKS = [
  "disabled",
  "no_way_in",
  "provider_only",
  "app_stopped",
  "many_failures",
  "limited",
  "factor_required",
  "address_unconfirmed",
  "mail_refused",
  "client_disabled",
  "clear",
] as const;
export type SignInCheckCode = (typeof SIGN_IN_CHECKS)[number];

const check = exactly({
  code: z.enum(SIGN_IN_CHECKS),
  holds: z.boolean(),
  /** Since when, in seconds since the epoch; of `clear` the last sign-in. `null`: unknown. */
  since: z.int().nullable(),
  /** Who caused it, as the audit names actors. `null`: nobody in particular. */
  by: exactly({ kind: z.string(), id: z.string().nullable() }).readonly().nullable(),
  /** What it is about: numbers, times in seconds, and identifiers. */
  detail: z.record(z.string(), z.union([z.string(), z.number()])).readonly(),
});
export interface SignInCheck extends Readonly<z.output<typeof check>> {}

const diagnosis = exactly({
  /** Whether a sign-in with everything right succeeds now, as far as the service knows. Limits of a network are not known. */
  can_sign_in: z.boolean(),
  /** The code of the first check that holds. */
  headline: z.enum(SIGN_IN_CHECKS),
  /** All, in their order. */
  checks: z.array(check).readonly(),
});
export interface Diagnosis extends Readonly<z.output<typeof diagnosis>> {}
const shownDiagnosis: z.ZodType<Diagnosis> = diagnosis;

const session = exactly({
  /** Seconds since the epoch. */
  first_used_at: z.int(),
  /** Seconds since the epoch. */
  last_used_at: z.int(),
  /** The network of the last use, shortened; `null`: unknown. */
  address: z.string().nullable(),
  /** The family of the browser; `null`: unknown. */
  browser: z.string().nullable(),
  /** The family of the system; `null`: unknown. */
  system: z.string().nullable(),
  /** What the person has shown there (RFC 8176). */
  amr: z.array(z.string()).readonly(),
});
export interface AccountSession extends Readonly<z.output<typeof session>> {}
const shownSession: z.ZodType<AccountSession> = session;

const consent = exactly({
  /** The client_id. */
  client: z.string(),
  /** The name of the client; `null` if it was removed. */
  name: z.string().nullable(),
  scopes: z.array(z.string()).readonly(),
  claims: z.array(z.string()).readonly(),
  /** The names of attributes. */
  attributes: z.array(z.string()).readonly(),
  /** The identifier of an API → its scopes. */
  apis: z.record(z.string(), z.array(z.string()).readonly()).readonly(),
  /** When the person last allowed it something, in seconds since the epoch. `null`: unknown, because the audit has ended. */
  allowed_at: z.int().nullable(),
  /** When the client last used it, in seconds since the epoch. `null`: it holds no tokens. */
  last_used_at: z.int().nullable(),
});
export interface AccountConsent extends Readonly<z.output<typeof consent>> {}
const shownConsent: z.ZodType<AccountConsent> = consent;

const sentReset = exactly({
  /** Seconds since the epoch. */
  sent_at: z.int(),
  /** Until when the link works, in seconds since the epoch. */
  expires_at: z.int(),
});
export interface SentReset extends Readonly<z.output<typeof sentReset>> {}
const shownReset: z.ZodType<SentReset> = sentReset;

/** Called on `accounts`. */
export const supportRows = {
  /**
   * Says why somebody can't sign in.
   *
   * Goes through what can stop a person, and reads how often sign-ins with the names of the account have failed. Show it to operators only.
   *
   * @returns `undefined` if there is no such account.
   */
  diagnose: operation({
    ...FINDS,
    ...ONE,
    input: NONE,
    output: shownDiagnosis,
    path: "sign-in-checks",
    example: ANY,
  }),
  /** Lists the browsers in which somebody is signed in, the last used first. Empty, too, if there is no such account. */
  sessions: operation({
    ...FINDS,
    ...ONE,
    input: NONE,
    output: z.array(shownSession).readonly(),
    columns: ["first_used_at", "last_used_at", "address", "browser", "system", "amr"],
    path: "sessions",
    words: "sessions list",
    example: ANY,
  }),
  /** Lists what somebody has allowed third-party clients. Empty, too, if there is no such account. */
  consents: operation({
    ...FINDS,
    ...ONE,
    input: NONE,
    output: z.array(shownConsent).readonly(),
    columns: ["client", "name", "scopes", "claims", "allowed_at", "last_used_at"],
    path: "consents",
    example: ANY,
  }),
  /**
   * Mails a person a link to choose a new password, which works once and for an hour.
   *
   * It goes to the address of the account, and nobody else sees it. Until it is used, the password stays; second factors stay in any
   * case.
   *
   * @throws NotFound if there is no such account.
   * @throws SignInError `not_applicable` without mail, for a disabled account, and for one that signs in with its provider only.
   */
  sendReset: operation({
    ...HELPS,
    input: NONE,
    output: shownReset,
    audit: ["account.reset_sent"],
    errors: [...HELPS.errors, "not_applicable"],
    recent: true,
    example: ANY,
  }),
};
