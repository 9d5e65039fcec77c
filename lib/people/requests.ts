/** What registration, reset and change of address have in common: who asks, and the limits. */
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Actor, Caller } from "../audit/audit-event.ts";
import type { AuditCollector } from "../audit/collector.ts";
import type { Clock } from "../clock.ts";
import type { DirectoryStore } from "../directory/directory.ts";
import type { AccountInternals } from "../domain/account.ts";
import type { MailKind, NewMail } from "../mail/records.ts";
import type { Passwords } from "../passwords/passwords.ts";
import { type Attempt, type AttemptLimits, noteLimited } from "../provider/attempt-limits.ts";
import { CONFIRMATION_LIFETIME, type Confirmations, type ConfirmationSecrets } from "./confirmations.ts";

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

/** The parts of the service that need confirmed mail. */
export interface PeopleOptions {
  readonly directory: Pick<DirectoryStore, "findAccount" | "findAccountByName">;
  readonly accounts: AccountInternals;
  readonly confirmations: Confirmations;
  readonly passwords: Passwords;
  readonly limits: Pick<AttemptLimits, "mail" | "registration" | "recipient">;
  readonly audit: Pick<AuditCollector, "noteRefusal">;
  readonly clock: Clock;
}

/** `undefined` if the attempt may go on. A refusal is counted in the audit. */
export function refusalOf(
  { audit }: Pick<PeopleOptions, "audit">,
  { caller }: AskedAt,
  attempt: Attempt,
): Limited | undefined {
  if (attempt.allowed) return undefined;
  noteLimited(audit, { ...caller, action: "mail.requested" }, attempt);
  return { kind: "limited", retryAfter: attempt.retryAfter };
}

/** The mail that brings a code and a link. @param to empty: nobody. */
export function mailWith(
  { clock }: Pick<PeopleOptions, "clock">,
  {
    kind,
    to,
    locale,
    deployment,
  }: { readonly kind: MailKind; readonly to: string } & Pick<AskedAt, "deployment" | "locale">,
): (secrets: ConfirmationSecrets) => NewMail {
  const at = clock.now();
  return ({ code, link }) => ({
    kind,
    to,
    deployment,
    ...(locale === undefined ? {} : { locale }),
    params: { at: String(at), code, link },
    expiresAt: at + CONFIRMATION_LIFETIME,
  });
}

/** A change that a person makes who is known by now. */
export function callerAs(sub: string, { caller }: AskedAt): Caller {
  const actor: Actor = { kind: "account", id: sub };
  return { ...caller, actor };
}
