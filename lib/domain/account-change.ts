/**
 * The one way to change an account. Whoever asks for a change (pages, API, sign-in, seed), it is decided on
 * the record as it is, planned, and committed in one atomic write with its notifications.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { NewDelivery } from "../deliveries/delivery.ts";
import type { AccountChange, AccountRecord, Consent, DirectoryStore } from "../directory/directory.ts";
import type { AuditDetail, Caller } from "../audit/audit-event.ts";
import { type Clock, seconds } from "../clock.ts";
import { SignInError, StorageUnavailable, VersionConflict } from "../errors.ts";
import type { ServiceEmitter } from "../events.ts";
import type { Sealer } from "../sealing.ts";
import { clearArtifacts, endingsOf, type EndReason, type SessionsEnded } from "./account-endings.ts";
import { planChange } from "./account-plan.ts";
import { namesOf } from "./names.ts";
import type { Passwords } from "./passwords.ts";

/** What accounts are built from. */
export interface AccountDeps {
  readonly directory: DirectoryStore;
  readonly artifacts: ArtifactStore;
  readonly passwords: Passwords;
  readonly clock: Clock;
  readonly events: ServiceEmitter;
  /** Seals the bodies of notifications. */
  readonly sealer: Sealer;
  /** Every scope and claim that there is; a consent remembers no other. */
  readonly grantable: Consent;
  /** Told after a commit which deliveries it stored, so that they need not wait for the next look. */
  readonly notify?: (deliveries: readonly NewDelivery[]) => void;
  /** Told after a commit that sessions ended, before their records are removed. */
  readonly onEnded?: (ended: SessionsEnded) => void | Promise<void>;
}

/** What names an account change in events and in the audit. */
export type AccountAction =
  | "account.created"
  | "account.imported"
  | "account.updated"
  | "account.password_changed"
  | "account.disabled"
  | "account.enabled"
  | "account.rehashed"
  | "account.deleted"
  | "account.assigned"
  | "account.unassigned"
  | "account.sessions_ended"
  | "account.tokens_revoked"
  | "account.consented"
  | "account.consent_forgotten";

/** Changes of what only the service itself sees: `updated_at` is about the account that others see. */
const UNSEEN: ReadonlySet<AccountAction> = new Set([
  "account.rehashed",
  "account.sessions_ended",
  "account.tokens_revoked",
  "account.consented",
  "account.consent_forgotten",
]);

/** What a change shall be. `updated_at` and `version` are set at the commit. */
export interface AccountDecision {
  readonly action: AccountAction;
  /** The record afterwards; `undefined` deletes the account. */
  readonly record: AccountRecord | undefined;
  /** For the audit: identifiers and numbers, no personal data. */
  readonly detail?: AuditDetail;
  /** For the audit: the client that the change is about. */
  readonly client?: string;
  /** The `uid` of the one session that lives on when sessions end. */
  readonly keepSession?: string | undefined;
}

/** Decides on the record as it is; `undefined` leaves everything as it is. Called again after a conflict, so it must be pure. */
export type Decide = (before: AccountRecord | undefined) => AccountDecision | undefined;

/** The record afterwards, and whether anything was written. */
export interface ChangedAccount {
  readonly record: AccountRecord | undefined;
  readonly changed: boolean;
}

/** Conflicts in a row after which the account counts as too busy; each waits a little longer at random. */
const TRIES = 50;
const LONGEST_PAUSE = 40;

/**
 * @param caller who asks for the change: the audit keeps it.
 * @throws NameTaken, AlreadyExists, UnknownReference when a condition of the change does not hold.
 * @throws StorageUnavailable when the storage fails or too many change this account at once.
 */
export async function changeAccount(
  deps: AccountDeps,
  sub: string,
  caller: Caller,
  decide: Decide,
): Promise<ChangedAccount> {
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    const before = await deps.directory.findAccount(sub);
    const decision = decide(before);
    if (decision === undefined) return { record: before, changed: false };
    const change = await toChange(deps, sub, before, { ...decision, caller });
    if (await committed(deps.directory, change)) {
      await afterwards(deps, before, change, decision);
      return { record: change.record, changed: true };
    }
    await pause(Math.random() * Math.min(attempt * 2, LONGEST_PAUSE));
  }
  throw new StorageUnavailable("the account is being changed by too many at once");
}

/** The consents with what can be granted, each once: a client can't make them grow by asking for other names. */
export function bounded(consents: AccountRecord["consents"], grantable: Consent): AccountRecord["consents"] {
  return Object.fromEntries(
    Object.entries(consents).map(([clientId, { scopes, claims }]) => [
      clientId,
      { scopes: among(grantable.scopes, scopes), claims: among(grantable.claims, claims) },
    ]),
  );
}

function among(all: readonly string[], named: readonly string[]): readonly string[] {
  const wanted = new Set(named);
  return all.filter((name) => wanted.has(name));
}

async function committed(directory: DirectoryStore, change: AccountChange): Promise<boolean> {
  try {
    await directory.commitAccount(change);
    return true;
  } catch (error) {
    if (error instanceof VersionConflict) return false;
    throw error;
  }
}

async function toChange(
  deps: AccountDeps,
  sub: string,
  before: AccountRecord | undefined,
  decision: AccountDecision & { readonly caller: Caller },
): Promise<AccountChange> {
  const at = seconds(deps.clock);
  const version = (before?.version ?? 0) + 1;
  const seen = UNSEEN.has(decision.action) ? {} : { updated_at: at };
  const record = decision.record && {
    ...decision.record,
    consents: bounded(decision.record.consents, deps.grantable),
    ...seen,
    version,
  };
  const [had, has] = [before, record].map((each) => (each === undefined ? [] : namesOf(each)));
  const portal = record?.portal ?? null;
  return {
    sub,
    expectedVersion: before?.version,
    record,
    claimNames: has?.filter((name) => !had?.includes(name)) ?? [],
    releaseNames: had?.filter((name) => !has?.includes(name)) ?? [],
    requireServices: Object.keys(record?.services ?? {}).filter(
      (key) => before === undefined || !Object.hasOwn(before.services, key),
    ),
    ...(portal === null || portal === before?.portal ? {} : { requirePortal: portal }),
    deliveries: before === undefined ? [] : await planChange(deps, before, record, at),
    audit: {
      ...decision.caller,
      action: decision.action,
      subject: sub,
      ...(decision.client !== undefined && { client: decision.client }),
      ...(decision.detail && { detail: decision.detail }),
    },
  };
}

const REASONS: Partial<Record<AccountAction, EndReason>> = {
  "account.deleted": "deleted",
  "account.disabled": "disabled",
  "account.password_changed": "password",
};

/** The change stands, so nothing here may fail the call: what goes wrong is told as a `fault`. */
async function afterwards(
  deps: AccountDeps,
  before: AccountRecord | undefined,
  change: AccountChange,
  decision: AccountDecision,
): Promise<void> {
  const { sub, deliveries, record } = change;
  await harmless(deps, "notify", () => {
    if (deliveries.length > 0) deps.notify?.(deliveries);
  });
  deps.events.emit("account.changed", { sub, action: decision.action, deliveries: deliveries.length });
  if (before === undefined) return;
  const endings = endingsOf(before, record);
  const { keepSession } = decision;
  const reason = reasonOf(decision.action);
  if (endings.tokens || endings.services.length + endings.clients.length > 0) {
    const [client_id] = endings.tokens ? [] : endings.clients;
    deps.events.emit("family.revoked", {
      sub,
      reason: decision.action === "account.unassigned" ? "unassigned" : reason,
      ...(client_id === undefined ? {} : { client_id }),
    });
  }
  if (endings.sessions) {
    deps.events.emit("session.ended", { sub, reason });
    await harmless(deps, "sessions ended", () =>
      deps.onEnded?.({ sub, reason, ...(keepSession === undefined ? {} : { keepSession }) }),
    );
  }
  await harmless(deps, "clear artifacts", () => clearArtifacts(deps, sub, endings, keepSession));
}

function reasonOf(action: AccountAction): EndReason {
  return REASONS[action] ?? "ended";
}

/** Runs what follows a commit; a failure becomes a `fault` event. */
export async function harmless(
  deps: Pick<AccountDeps, "events">,
  where: string,
  work: () => void | Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    deps.events.emit("fault", { where, code: error instanceof SignInError ? error.code : "unexpected" });
  }
}
