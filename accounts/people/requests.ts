/** The common parts of registration, reset and change of address: who asks, and the limits. */
import { randomUUID } from "node:crypto";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { AuditAction } from "../../records/audit/actions.ts";
import type { Actor, Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { AuditCollector } from "../../records/audit/collector.ts";
import type { AccountInternals } from "../account.ts";
import type { AccountServices } from "../services.ts";
import type { SignInName } from "../names.ts";
import type { MailKind, NewMail } from "../../records/people/mail-kinds.ts";
import { type Attempt, type AttemptLimits, type MailPurpose, noteLimited } from "../limits/attempt-limits.ts";
import { whoseLimit } from "../limits/limit-table.ts";
import type { DeviceAccount } from "../limits/password-check.ts";
import { CONFIRMATION_LIFETIME_MS, type ConfirmationSecrets } from "./confirmations.ts";

/** Where a request comes from. */
export interface AskedAt {
  /** The deployment that the browser is on: links in mail lead to it. */
  readonly deployment: DeploymentKind;
  /** For the audit. */
  readonly caller: Caller;
  /** The caller's IP address, as far as proxies are trusted: for the limits. */
  readonly address: string;
  /**
   * The id of the browser, if its device cookie is that of this account. It is left out without such a cookie: then the
   * points are consumed before anything is looked up.
   */
  readonly device?: (account: DeviceAccount) => string | undefined;
  /** The language of the page, for mail to people whose language is not known. */
  readonly locale?: string | undefined;
  /** The name of the client that the person signs in to, for the mail. */
  readonly clientName?: string | undefined;
}

/** Too many requests: the same for known and unknown names. */
export interface Limited {
  readonly kind: "limited";
  /** Seconds until the next request can succeed. */
  readonly retryAfter: number;
  /** Whose limit it is: see `whoseLimit`. */
  readonly whose?: string;
}

/** What registration, reset and change of address are built from. */
export type PeopleServices = Pick<
  AccountServices,
  | "configuration"
  | "storage"
  | "clock"
  | "audit"
  | "accounts"
  | "fields"
  | "confirmations"
  | "passwords"
  | "limits"
  | "onWarning"
>;

/** `undefined` if the attempt may go on. A refusal is counted in the audit. */
export function refusalOf(
  { audit }: { readonly audit: Pick<AuditCollector, "noteRefusal"> },
  { caller }: AskedAt,
  attempt: Attempt,
  action: AuditAction = "mail.requested",
): Limited | undefined {
  if (attempt.allowed) return undefined;
  noteLimited(audit, { ...caller, action }, attempt);
  const whose = whoseLimit(attempt.refusedBy);
  return { kind: "limited", retryAfter: attempt.retryAfter, ...(whose !== undefined && { whose }) };
}

/** A request for mail that its limits allow. */
export interface AskedFor {
  readonly kind: "asked";
  /** The account with the name. */
  readonly record: AccountRecord | undefined;
  /** Seconds until the totals of the name have room again, if this request used one up. Otherwise 0. */
  readonly fullFor: number;
  /** Whether the limits of an address allow mail to it, and `fullFor`. The result must not reach the person who asks. */
  readonly recipient: (email: SignInName | undefined) => ReturnType<AttemptLimits["recipient"]>;
  /** Refunds the points of the mail, because none is sent. Those of the registration stay consumed. */
  readonly notSent: () => Promise<void>;
  /** Gives all points back because of a fault. */
  readonly withdraw: () => Promise<void>;
}

/**
 * Takes the points of a request for mail and looks up its name, in an order that does not reveal which names exist: without a
 * device cookie the points come first, and an unknown name costs the same reads and comparisons.
 */
export async function askedFor<Limit extends "mail" | "registration">(
  services: Parameters<typeof refusalOf>[0] & {
    readonly accounts: Pick<AccountInternals, "recordByName">;
    readonly limits: Pick<AttemptLimits, Limit | "notMailed" | "recipient">;
  },
  name: SignInName | undefined,
  at: AskedAt,
  { limit, purpose }: { readonly limit: Limit; readonly purpose: MailPurpose },
): Promise<AskedFor | Limited> {
  const { accounts, limits } = services;
  const { address, device: deviceOf } = at;
  let record = deviceOf && (await accounts.recordByName(name));
  const own = deviceOf?.(record ?? { sub: randomUUID(), ways: {} });
  const device = record && own;
  const caller = { purpose, address, device };
  const attempt = await limits[limit]({ ...caller, name });
  const limited = refusalOf(services, at, attempt);
  if (limited !== undefined) return limited;
  if (deviceOf === undefined) record = await accounts.recordByName(name);
  return {
    kind: "asked",
    record,
    fullFor: attempt.fullFor,
    recipient: (email) => limits.recipient({ ...caller, name: email }),
    notSent: () => limits.notMailed({ ...caller, name }),
    withdraw: () => attempt.withdraw(),
  };
}

/** The mail that brings a code and a link. @param to empty: nobody. */
export function mailWith(
  { clock }: Pick<PeopleServices, "clock">,
  {
    kind,
    to,
    locale,
    deployment,
    clientName,
    lastsMs,
    lifetimeMs = lastsMs ?? CONFIRMATION_LIFETIME_MS,
    params,
  }: {
    readonly kind: MailKind;
    readonly to: string;
    /** How long its code and link work, if that is longer than usual: it is the last one for a while, and says so. */
    readonly lastsMs?: number | undefined;
    /** How long its code works. Default: an hour. */
    readonly lifetimeMs?: number;
    /** Further values of its text. */
    readonly params?: NewMail["params"];
  } & Pick<AskedAt, "deployment" | "locale" | "clientName">,
): (secrets: ConfirmationSecrets) => NewMail {
  const at = clock.now();
  const expiresAt = at + lifetimeMs;
  return ({ code, link }) => ({
    kind,
    to,
    deployment,
    ...(locale === undefined ? {} : { locale }),
    params: {
      ...params,
      at: String(at),
      code,
      link,
      ...(clientName === undefined ? {} : { client: clientName }),
      ...(lastsMs === undefined ? {} : { until: String(expiresAt) }),
    },
    expiresAt,
  });
}

/** The caller, with the person who is now known. */
export function callerAs(sub: string, { caller }: AskedAt): Caller {
  const actor: Actor = { kind: "account", id: sub };
  return { ...caller, actor };
}
