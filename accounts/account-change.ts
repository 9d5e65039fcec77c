/**
 * The one way to change an account. Every change, whether from a page, the API, a sign-in or the seed, is decided on
 * the current record and committed in one atomic write with its notifications and its audit record.
 */
import type { AuditAction } from "../records/audit/actions.ts";
import type { AuditDetail, Caller, ClientThen } from "../records/audit/audit-event.ts";
import { seconds } from "../core/clock.ts";
import type { NewDelivery } from "../records/deliveries/delivery.ts";
import type { AccountRecord, AccountWays } from "../records/directory/directory.ts";
import { type SessionEnd, withoutFailing } from "../core/events.ts";
import { CONFIRMATION } from "../records/people/confirmation-kinds.ts";
import { failureSubject, forgetFailures } from "../records/people/sign-ins.ts";
import type { NewMail } from "../records/people/mail-kinds.ts";
import { putNotice } from "../records/people/notices.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import { passwordGeneration } from "./account.ts";
import { putRemoval } from "./access-cleanup.ts";
import type { AccountServices } from "./services.ts";
import { raisedKeys } from "./generations.ts";
import { namesOf, normalName } from "./names.ts";
import { rolesOfAssignments } from "./roles.ts";
import type { Transaction } from "../records/records.ts";
import { planNotifications, readAccount, writeAccount } from "./account-write.ts";

/** Why the sign-in sessions of an account ended. */
type EndReason = Exclude<SessionEnd, "signed_out" | "limit">;

type Services = Pick<
  AccountServices,
  | "storage"
  | "clock"
  | "events"
  | "sealer"
  | "keys"
  | "fields"
  | "grantable"
  | "cleanup"
  | "webhooks"
  | "onDeliveries"
  | "onMail"
>;

/** Records of the audit about an account that no change of it writes. */
type OtherAction =
  | "account.attributes_pruned"
  | "account.viewed"
  | "account.data_exported"
  | "account.browser_remembered"
  | "account.browser_forgotten"
  | "account.recovery_code_used";

/** The name of an account change in events and in the audit. */
export type AccountAction = Exclude<Extract<AuditAction, `account.${string}`>, OtherAction>;

/** Changes of what others can read, which `updated_at` is about. All others are internal. */
const PUBLIC: ReadonlySet<AccountAction> = new Set([
  "account.created",
  "account.registered",
  "account.imported",
  "account.updated",
  "account.password_changed",
  "account.password_reset",
  "account.address_restored",
  "account.disabled",
  "account.enabled",
  "account.deleted",
  "account.assigned",
  "account.unassigned",
  "account.roles_set",
]);

const REASONS: Partial<Record<AccountAction, EndReason>> = {
  "account.deleted": "deleted",
  "account.disabled": "disabled",
  "account.password_changed": "password",
  "account.password_reset": "password",
};

/** A change to make. `updated_at` is set with it. */
export interface AccountDecision<Result = undefined> {
  readonly action: AccountAction;
  /** The record afterwards; `undefined` deletes the account. */
  readonly record: AccountRecord | undefined;
  /** For the audit: identifiers and numbers, no personal data. */
  readonly detail?: AuditDetail;
  /** For the audit: the client that the change is about. */
  readonly client?: ClientThen;
  /** The `uid` of the one session that stays signed in when sessions end. */
  readonly keepSession?: string | undefined;
  /** Mail about the change, stored with it. Default: none. */
  readonly mails?: readonly NewMail[];
  /** Whether the `user_id` of a new account comes from the counter. Default: `false`, the caller has chosen it. */
  readonly drawsNumber?: boolean;
  /** An import: whether it sends events to systems of one's own. Default: `false`; other changes always do. */
  readonly isAnnounced?: boolean;
  /** Whether no receiver is told, because the change is one of many that an operator makes. Default: `false`. */
  readonly isQuiet?: boolean;
  /** What the caller gets besides the record. */
  readonly result?: Result;
}

/** Changes nothing, and tells the caller why. */
interface Refusal<Reason> {
  readonly refused: Reason;
}

type Decision<Reason, Result> = AccountDecision<Result> | Refusal<Reason> | undefined;

/** Decides on the current record; `undefined` changes nothing. It is called again after a conflict, so it keeps no state. */
export type Decide<Reason = never, Result = undefined> = (
  before: AccountRecord | undefined,
  tx: Transaction,
) => Decision<Reason, Result> | Promise<Decision<Reason, Result>>;

/** The record afterwards, whether anything was written, and what the decision tells the caller. */
interface ChangedAccount<Reason, Result> {
  readonly record: AccountRecord | undefined;
  readonly changed: boolean;
  readonly refused?: Reason;
  readonly result?: Result | undefined;
}

/** Sessions and tokens that a change revoked. */
interface Revoked {
  readonly sessions: boolean;
  readonly tokens: boolean;
  /** Services whose codes and tokens were revoked. */
  readonly services: readonly string[];
  /** Clients whose codes and tokens were revoked. */
  readonly clients: readonly string[];
}

/** How an account is changed. */
interface ChangeOptions {
  /** The transaction that the change is part of. Default: a new one. */
  readonly within?: Transaction | undefined;
  /** Whether the `sub` was made for this change, so that nothing can have it. Default: `false`. */
  readonly isNew?: boolean;
}

export class AccountWriter {
  readonly #services: Services;

  constructor(services: Services) {
    this.#services = services;
  }

  /**
   * @param caller who requests the change, for the audit.
   * @throws NameTaken, AlreadyExists, UnknownReference when a condition of the change does not hold.
   * @throws StorageUnavailable when the storage fails or there are too many concurrent changes.
   */
  change<Reason = never, Result = undefined>(
    sub: string,
    caller: Caller,
    decide: Decide<Reason, Result>,
    { within, isNew = false }: ChangeOptions = {},
  ): Promise<ChangedAccount<Reason, Result>> {
    const work = (tx: Transaction): Promise<ChangedAccount<Reason, Result>> =>
      this.#change(tx, { sub, caller, isNew }, decide);
    return within === undefined ? this.#services.storage.records.transact(work) : work(within);
  }

  /** Reads the account, decides, and puts the change with what it depends on. */
  async #change<Reason, Result>(
    tx: Transaction,
    { sub, caller, isNew }: { readonly sub: string; readonly caller: Caller; readonly isNew: boolean },
    decide: Decide<Reason, Result>,
  ): Promise<ChangedAccount<Reason, Result>> {
    const { storage, sealer, keys, clock, fields, webhooks } = this.#services;
    const before = isNew ? undefined : await readAccount(tx, sub);
    const decision = await decide(before, tx);
    if (decision === undefined) return { record: before, changed: false };
    if ("refused" in decision) return { record: before, changed: false, refused: decision.refused };
    const { action, client, detail, mails = [], drawsNumber = false, isQuiet = false } = decision;
    const at = seconds(clock);
    const record = decision.record && {
      ...decision.record,
      ways: currentWays(before, decision.record),
      consents: this.bounded(decision.record.consents),
      ...(decision.record.roles !== undefined && { roles: rolesOfAssignments(decision.record) }),
      services_since: sinceWhen(before, decision.record, at),
      ...(PUBLIC.has(action) && { updated_at: at }),
    };
    const step = { before, after: record };
    await writeAccount(tx, step, { clock, search: keys.search, drawsNumber, isNew });
    if (record === undefined) {
      putRemoval(tx, "account", sub, clock);
      for (const { id } of before?.address_undos ?? []) tx.remove(CONFIRMATION.ref(["address-undo", id]));
      for (const { id } of before?.ways.provider?.links ?? [])
        tx.remove(CONFIRMATION.ref(["identity-undo", id]));
    }
    const deliveries = isQuiet
      ? []
      : [
          ...(await planNotifications(tx, step, { sealer, fields, at })),
          ...webhooks.ofChange({ ...step, action, detail, isAnnounced: decision.isAnnounced }, at),
        ];
    await storage.deliveries.add(tx, deliveries);
    const hasNewPassword = record && before && passwordGeneration(record) !== passwordGeneration(before);
    if (hasNewPassword)
      await forgetFailures(
        tx,
        namesOf(before).map((name) => failureSubject(keys.rateLimits, name)),
      );
    for (const mail of mails) await putNotice(tx, sub, mail, { sealer, now: clock.now() });
    tx.create(
      storage.audit.recordOf({
        ...caller,
        action,
        subject: sub,
        ...(client !== undefined && { client }),
        ...(detail && { detail }),
      }),
    );
    tx.afterCommit(() => this.#followUp(sub, before, record, deliveries, decision));
    return { record, changed: true, result: decision.result };
  }

  /**
   * The consents reduced to what can be granted, without duplicates, so a client can't make them grow with invented
   * names.
   */
  bounded(consents: AccountRecord["consents"]): AccountRecord["consents"] {
    const { grantable, fields } = this.#services;
    const known = fields.rows.flatMap(({ name, isAttribute }) => (isAttribute ? [name] : []));
    return Object.fromEntries(
      Object.entries(consents).map(([clientId, { scopes, claims, attributes = [], apis, document }]) => [
        clientId,
        {
          scopes: among(grantable.scopes, scopes),
          claims: among(grantable.claims, claims),
          ...(attributes.length > 0 && { attributes: among(known, attributes) }),
          // Bounded by what the client may ask for.
          ...(apis !== undefined && { apis }),
          ...(document !== undefined && { document }),
        },
      ]),
    );
  }

  /** The change is committed, so a failure here must not fail the call. */
  async #followUp(
    sub: string,
    before: AccountRecord | undefined,
    record: AccountRecord | undefined,
    deliveries: readonly NewDelivery[],
    { action, keepSession, mails = [] }: AccountDecision<unknown>,
  ): Promise<void> {
    const { events, onDeliveries, onMail, cleanup } = this.#services;
    await withoutFailing(events, "notify", () => {
      if (deliveries.length > 0) onDeliveries(deliveries);
      if (mails.length > 0) onMail();
    });
    events.emit("account.changed", { sub, action, deliveries: deliveries.length });
    if (before === undefined) return;
    const revoked = compare(before, record);
    const reason = REASONS[action] ?? "ended";
    if (revoked.tokens || revoked.services.length + revoked.clients.length > 0) {
      const [client_id] = revoked.tokens ? [] : revoked.clients;
      events.emit("family.revoked", {
        sub,
        reason: action === "account.unassigned" ? "unassigned" : reason,
        ...(client_id === undefined ? {} : { client_id }),
      });
    }
    if (revoked.sessions) events.emit("session.ended", { sub, reason });
    // What the change revoked is invalid already: after a failure, only dead records are left until they expire.
    const { sessions, tokens, services, clients } = revoked;
    if (sessions || tokens || services.length + clients.length > 0)
      await cleanup.accountChanged({
        sub,
        account: record,
        sessions,
        keepSession,
        grants: tokens ? "all" : { services, clients },
      });
  }
}

/**
 * The ways, with a new generation if sessions ended or the password or address changed: whoever may have used those
 * must show a second factor again, even in a remembered browser.
 */
function currentWays(before: AccountRecord | undefined, after: AccountRecord): AccountWays {
  const generation = before?.ways.generation;
  if (before === undefined || generation === undefined || generation !== after.ways.generation)
    return after.ways;
  const isCurrent =
    before.sessions_generation === after.sessions_generation &&
    passwordGeneration(before) === passwordGeneration(after) &&
    normalName(before.email) === normalName(after.email);
  return isCurrent ? after.ways : { ...after.ways, generation: generation + 1 };
}

/** When each service was assigned. Assignments in old records have no time. */
function sinceWhen(
  before: AccountRecord | undefined,
  { services }: AccountRecord,
  at: number,
): Readonly<Record<string, number>> {
  const known = before?.services_since ?? {};
  const times = Object.keys(services).map((key) => {
    const isNew = before === undefined || !Object.hasOwn(before.services, key);
    return [key, isNew ? at : ownValue(known, key)] as const;
  });
  return Object.fromEntries(times.filter(([, since]) => since !== undefined)) as Record<string, number>;
}

function among(all: readonly string[], named: readonly string[]): readonly string[] {
  const wanted = new Set(named);
  return all.filter((name) => wanted.has(name));
}

function compare(before: AccountRecord, after: AccountRecord | undefined): Revoked {
  if (after === undefined) return { sessions: true, tokens: true, services: [], clients: [] };
  return {
    sessions: after.sessions_generation !== before.sessions_generation,
    tokens: after.tokens_generation !== before.tokens_generation,
    services: raisedKeys(before.service_generations, after.service_generations),
    clients: raisedKeys(before.client_generations, after.client_generations),
  };
}
