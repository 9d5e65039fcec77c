/** Creates, reads, updates and deletes accounts, and assembles the other calls for them. */
import { randomInt, randomUUID } from "node:crypto";
import { type AuditDetail, type Caller, SYSTEM } from "../records/audit/audit-event.ts";
import { seconds } from "../core/clock.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import type { Transaction } from "../records/records.ts";
import {
  AlreadyExists,
  ConditionFailed,
  IdentifierTaken,
  InvalidArgument,
  NotApplicable,
} from "../core/errors.ts";
import { type MailKind, type NewMail, noticeTo } from "../records/people/mail-kinds.ts";
import type { PasswordNames } from "./passwords/passwords.ts";
import {
  type AccountInternals,
  type AccountState,
  isDisabled,
  type OwnSession,
  stateOf,
  toAccount,
} from "./account.ts";
import { createAccountAccess, noAccount, withPassword } from "./account-access.ts";
import { type AccountAction, AccountWriter, type Decide } from "./account-change.ts";
import {
  importedAccount,
  type AccountChanges,
  type ImportedAccount,
  type NewAccount,
} from "./account-schema.ts";
import { checked, invalid } from "./arguments.ts";
import { createPruning } from "./attribute-pruning.ts";
import { AUTHENTICATOR_APP } from "../records/factors/factor-kinds.ts";
import { createAccountFactors, withoutFactorsSince } from "./factors/account-factors.ts";
import { type FirstWay, type NewPassword, withReview } from "./factors/factor.ts";
import { appRecord, createFactorWriter } from "./factors/factor-writer.ts";
import { createAccountIdentities, withoutLateIdentities } from "./identities/account-identities.ts";
import { createSignIns } from "./passwords/authenticate.ts";
import { createConsents } from "./clients/consents.ts";
import { type Account, type Accounts, accounts } from "./operations/accounts.ts";
import { facade, type Handlers } from "./operations/operation.ts";
import { requireRoles } from "./roles.ts";
import {
  type AllowedWays,
  canSignIn,
  hasWay,
  isIdentity,
  isReplaceable,
  usesEmailCodes,
} from "./ways/ways.ts";
import { putMarks, readMark, type SeedMark } from "./seed-marks.ts";
import { FULL_NAME, type NamedPerson, normalName, readName } from "./names.ts";
import type { FieldValues, PersonFields } from "./profile-fields.ts";
import type { AccountServices } from "./services.ts";

/**
 * Address changes that can be undone: each change has a link that undoes it, so beyond these the address can't be
 * changed.
 */
const MAX_UNDOS = { hour: 10, sevenDays: 100 };
const HOUR_MS = 3_600_000;
const SEVEN_DAYS_MS = 7 * 24 * HOUR_MS;

/** The accounts of one storage. */
export function createAccounts(
  services: Omit<AccountServices, "accounts" | "clients" | "directory">,
): Accounts & AccountInternals {
  const { clock, configuration, events, fields, passwords } = services;
  const { directory } = services.storage;
  const emailCode = usesEmailCodes(services);
  const shown = (record: AccountRecord): Account => toAccount(record, fields);
  const writer = new AccountWriter(services);
  const factors = createFactorWriter(services);
  const notices = createNotices(services);
  const signIns = createSignIns(writer, directory, passwords, { configuration, events });

  /** A new password must follow all rules; an imported one is already in use, so only its form is checked. */
  async function firstOf(account: NewAccount, origin: "new" | "imported"): Promise<NewPassword | undefined> {
    const { password } = account;
    if (password === undefined || password === null) return undefined;
    if (origin === "new") await passwords.check(password, passwordNames(account));
    else passwords.checkForm(password);
    return { kind: "password", hash: await passwords.hash(password) };
  }

  /** @throws InvalidArgument for a value that is wrong now, such as a date of birth in the future, and for unknown attributes. */
  function checkFields(given: AccountChanges): void {
    const problems = fields.problems(given, clock);
    if (problems.length > 0) throw invalid("account", problems);
  }

  async function store(
    action: AccountAction,
    input: ImportedAccount,
    first: FirstWay | undefined,
    caller: Caller,
    {
      within,
      marks = [],
      ...more
    }: {
      readonly marks?: readonly SeedMark[];
      readonly within?: Transaction;
      readonly terms_version?: string;
    } = {},
  ): Promise<Awaited<ReturnType<AccountInternals["register"]>>> {
    const sub = input.sub ?? randomUUID();
    const drawsNumber = input.user_id === undefined;
    const isNew = within === undefined && input.sub === undefined;
    const made = writer.change<never, Awaited<ReturnType<typeof factors.addition>>>(
      sub,
      caller,
      async (before, tx) => {
        if (before !== undefined) throw new AlreadyExists("an account with this sub");
        for (const mark of marks) if (await readMark(tx, mark)) return undefined;
        putMarks(tx, marks);
        const userId = input.user_id ?? (await directory.nextUserId());
        const now = seconds(clock);
        for (const [service, names] of Object.entries(input.roles ?? {}))
          await requireRoles(tx, { services: input.services ?? {} }, { service, names, clock });
        const { app } = input;
        if (app !== undefined) tx.create(AUTHENTICATOR_APP.record(appRecord(services, sub, app.secret, 0)));
        const fresh = {
          ...newRecord(input, fields, { sub, user_id: userId, now }),
          ...more,
        };
        if (first === undefined) return { action, record: fresh, drawsNumber };
        const addition = await factors.first(tx, fresh, first);
        return {
          action,
          record: { ...fresh, ways: addition.ways },
          drawsNumber,
          mails: addition.mails,
          ...detailOf(first),
          result: addition,
        };
      },
      { within, isNew },
    );
    try {
      const { record, result: addition } = await made;
      // Only now: a caller may go on with the transaction when a name is taken.
      const recoveryCodes = (await addition?.put()) ?? [];
      return { record: record as AccountRecord, recoveryCodes };
    } catch (error) {
      // A client was registered with the random `sub`.
      if (isNew && error instanceof IdentifierTaken)
        return store(action, input, first, caller, { marks, ...more });
      throw error;
    }
  }

  async function importAccount(
    account: ImportedAccount,
    caller: Caller,
    marks: readonly SeedMark[] = [],
  ): Promise<AccountRecord> {
    checkFields(account);
    const { password_hash: hash = null } = account;
    const first = hash === null ? await firstOf(account, "imported") : ({ kind: "password", hash } as const);
    if (account.user_id !== undefined) await directory.passUserId(account.user_id);
    const { record } = await store("account.imported", account, first, caller, { marks });
    return record;
  }

  async function changePassword(
    sub: string,
    password: string,
    { keepSession, generation }: { readonly [each in keyof OwnSession]?: OwnSession[each] | undefined },
    caller: Caller,
  ): ReturnType<AccountInternals["setOwnPassword"]> {
    let hash: Promise<string> | undefined;
    // The person waits, while an operator's command can.
    const party = generation === undefined ? undefined : `account ${sub}`;
    const { record } = await writer.change(sub, caller, async (before, tx) => {
      if (before === undefined) throw noAccount();
      // Hashing takes a while: meanwhile the owner may have chosen a new password and ended this session.
      if (generation !== undefined && before.sessions_generation !== generation)
        throw new ConditionFailed("the session has ended");
      await passwords.check(password, passwordNames(before));
      const chosen = await (hash ??= passwords.hash(password, party));
      const { left, ...removed } = withoutLateIdentities(tx, before, clock, { keepsFirst: true });
      const after = withPassword(left, chosen, seconds(clock));
      const mails = notices.passwordChanged(after);
      // Whoever knew the old password may have linked the others, even long ago.
      const reviewed = hasWay(left, isIdentity) ? withReview(after) : after;
      return { action: "account.password_changed", record: reviewed, keepSession, mails, ...removed };
    });
    if (record === undefined) throw noAccount();
    const { sessions_generation, tokens_generation } = record;
    return { sessions_generation, tokens_generation };
  }

  const access = createAccountAccess(writer, services, shown);
  const secondFactors = createAccountFactors(writer, factors, services);
  const identities = createAccountIdentities(
    writer,
    factors,
    (sub, id, caller) => secondFactors.operations.removeFactor({ target: [sub, id], input: {}, caller }),
    services,
  );

  const operations: Handlers<typeof accounts.rows> = {
    ...access.operations,
    ...secondFactors.operations,
    ...identities.operations,

    async create({ input, caller }) {
      checkFields(input);
      const { record } = await store("account.created", input, await firstOf(input, "new"), caller);
      return shown(record);
    },

    import: async ({ input, caller }) => shown(await importAccount(input, caller)),

    async find({ target: [sub] }) {
      const record = await directory.findAccount(sub);
      return record && shown(record);
    },

    async findByLogin({ target: [login] }) {
      const record = await signIns.recordByName(readName(login));
      return record && shown(record);
    },

    async findByUserId({ input: { user_id } }) {
      const record = await directory.findAccountByNumber(user_id);
      return record && shown(record);
    },

    async list({ input: { limit, after } }) {
      const page = { limit: limit + 1, after: after === undefined ? undefined : numberOf(after) };
      const records = await directory.listAccounts(page);
      const items = records.slice(0, limit).map(shown);
      const last = records.length > limit ? items.at(-1) : undefined;
      return { items, next: last === undefined ? null : String(last.user_id) };
    },

    async update({ target: [sub], input: changes, caller }) {
      checkFields(changes);
      const { record } = await writer.change(sub, caller, (before) => {
        if (before === undefined) return undefined;
        const after = applied(before, changes, fields);
        if (losesAddress(before, after, { emailCode })) throw new NotApplicable(CONFIRMED_ADDRESS);
        const changed = [...changedAddress(before, after), ...fields.changed(before, after)];
        if (changed.length === 0) return undefined;
        const detail = { fields: changed.join(" ") };
        const mails = notices.addressChanged(before, after);
        return { action: "account.updated", record: after, detail, mails };
      });
      if (record === undefined) throw noAccount();
      return shown(record);
    },

    ...createPruning(services),

    async setPassword({ target: [sub], input: { password }, caller }) {
      await changePassword(sub, password, {}, caller);
    },

    async delete({ target: [sub], caller }) {
      const { changed } = await writer.change(
        sub,
        caller,
        (before) => before && { action: "account.deleted", record: undefined },
      );
      return changed;
    },
  };

  return {
    ...facade(accounts, operations),
    ...access.internals,
    ...createConsents(writer, directory, notices.deviceConnected),
    ...signIns,
    ...secondFactors.internals,
    ...identities.internals,
    record: (sub) => directory.findAccount(sub),

    async seed(account, marks) {
      await importAccount(checked("account", importedAccount, account), SYSTEM, marks);
    },

    setOwnPassword: changePassword,

    register(within, { first, terms_version, ...account }, caller) {
      const more = { within, ...(terms_version === undefined ? {} : { terms_version }) };
      return store("account.registered", { ...account, email_verified: true }, first, caller, more);
    },

    async resetPassword(within, sub, password_hash, as, caller) {
      const decide: Decide = (before, tx) => {
        if (!isStill(before, as)) return undefined;
        const { left, ...removed } = withoutLateIdentities(tx, before, clock, { keepsFirst: false });
        const record = withReview(withPassword(left, password_hash, seconds(clock)));
        return {
          action: "account.password_reset",
          record,
          mails: notices.passwordChanged(record),
          ...removed,
        };
      };
      const { changed, record } = await writer.change(sub, caller, decide, { within });
      return changed ? record : undefined;
    },

    async changeAddress(within, sub, email, as, undo, caller) {
      const decide: Decide<number, { readonly isGuarded: boolean }> = (before) => {
        if (!isStill(before, as)) return undefined;
        const undos = (before.address_undos ?? []).filter(({ expires_at }) => expires_at > clock.now());
        const isGuarded = normalName(before.email) !== normalName(email);
        // No link gives way: a thief could displace the one to the owner's address with many changes.
        const limitedMs = isGuarded ? untilNextUndo(undos, undo.expiresAt) : 0;
        if (limitedMs > 0) return { refused: limitedMs };
        const added = {
          id: undo.id,
          changed_at: seconds(clock),
          expires_at: undo.expiresAt,
          ...(!before.email_verified && { unconfirmed: true as const }),
        };
        const address_undos = isGuarded ? [...undos, added] : undos;
        // An address that was never confirmed may be a stranger's: it gets codes, but never a link that takes over the
        // account.
        const link = isGuarded && before.email_verified ? undo.link : undefined;
        const after = { ...before, email, email_verified: true, address_undos };
        const detail = { fields: changedAddress(before, after).join(" ") };
        const mails = notices.addressChanged(before, after, link);
        return { action: "account.updated", record: after, detail, mails, result: { isGuarded } };
      };
      const { changed, refused: limitedMs, result } = await writer.change(sub, caller, decide, { within });
      if (limitedMs !== undefined) return { kind: "limited", retryAfter: Math.ceil(limitedMs / 1000) };
      if (result?.isGuarded) within.create(undo.record);
      return { kind: changed ? "changed" : "gone" };
    },

    async undoAddress(within, sub, id, email, caller) {
      const decide: Decide = async (before, tx) => {
        const undos = before?.address_undos ?? [];
        const index = undos.findIndex((each) => each.id === id);
        const undone = undos[index];
        if (before === undefined || isDisabled(before) || undone === undefined) return undefined;
        // A passkey alone would sign in whoever has added it.
        const { record: left, removed } = await withoutFactorsSince(tx, before, undone.changed_at);
        const after = {
          ...withReview(withPassword(left, null, seconds(clock))),
          email,
          email_verified: true,
          // Undoing a later change would restore an address that belongs to whoever made this one.
          address_undos: undos.slice(0, index),
        };
        const mails = notices.addressChanged(before, after);
        const detail = removed === 0 ? {} : { detail: { factors: removed } };
        return { action: "account.address_restored", record: after, mails, ...detail };
      };
      const { changed, record } = await writer.change(sub, caller, decide, { within });
      return changed ? record : undefined;
    },

    async acceptTerms(sub, terms_version, caller) {
      const { record } = await writer.change(sub, caller, (before) =>
        before === undefined || before.terms_version === terms_version
          ? undefined
          : { action: "account.terms_accepted", record: { ...before, terms_version } },
      );
      return record !== undefined;
    },
  };
}

/** What the audit says of what a new account signs in with: nothing of a password. */
function detailOf(first: FirstWay): { readonly detail?: AuditDetail } {
  if (first.kind === "password") return {};
  const detail: AuditDetail =
    first.kind === "identity" ? { provider: first.identity.provider } : { factor: first.kind };
  return { detail };
}

/** The position in the list after which a page begins: the number of an account, which may be gone by now. */
function numberOf(after: string): number {
  if (/^\d{1,15}$/u.test(after)) return Number(after);
  throw new InvalidArgument({ path: "filter.after", message: "must be `next` of another page" });
}

/**
 * Milliseconds until there may be another change of address; 0 if there may be one now.
 * @param undos of the last seven days, oldest first. @param expiresAt when the undo of a change of now expires.
 */
function untilNextUndo(undos: readonly { readonly expires_at: number }[], expiresAt: number): number {
  const inHour = undos.filter(({ expires_at }) => expires_at > expiresAt - HOUR_MS);
  const oldest = undos.at(-MAX_UNDOS.sevenDays);
  const oldestInHour = inHour.at(-MAX_UNDOS.hour);
  return Math.max(
    oldestInHour === undefined ? 0 : oldestInHour.expires_at + HOUR_MS - expiresAt,
    // Until it expires itself.
    oldest === undefined ? 0 : oldest.expires_at - expiresAt + SEVEN_DAYS_MS,
  );
}

/** The names that this account must not use as its password. */
export function passwordNames(account: Pick<NewAccount, keyof NamedPerson>): PasswordNames {
  const names = FULL_NAME.map((field) => account[field]);
  return [account.email, account.username, ...names, names.join(" ")];
}

/** Whether the account is enabled and has not changed since its owner was sent a code. */
function isStill(record: AccountRecord | undefined, as: AccountState): record is AccountRecord {
  if (record === undefined || isDisabled(record)) return false;
  const { email, password_generation } = stateOf(record);
  return email === as.email && password_generation === as.password_generation;
}

function newRecord(
  input: ImportedAccount,
  fields: PersonFields,
  { now, ...identifiers }: Pick<AccountRecord, "sub" | "user_id"> & { readonly now: number },
): AccountRecord {
  return {
    ...identifiers,
    email: input.email,
    email_verified: input.email_verified ?? false,
    ...storedFields({}, input, fields),
    services: input.services ?? {},
    ...(input.roles !== undefined && { roles: input.roles }),
    ways: input.app === undefined ? {} : { app: true, generation: 1 },
    // Random, so that after a restore, sessions and tokens of an account that it forgot don't become valid again.
    sessions_generation: randomInt(1, 2 ** 31),
    tokens_generation: randomInt(1, 2 ** 31),
    service_generations: {},
    client_generations: {},
    consents: {},
    created_at: now,
    updated_at: now,
  };
}

const CONFIRMED_ADDRESS =
  "email_verified must be true, because without a password the account depends on its mail";

/** Whether an account without a password would lose its confirmed address (decisions.md, Without a password). */
function losesAddress(
  before: AccountRecord,
  after: AccountRecord,
  allowed: Pick<AllowedWays, "emailCode">,
): boolean {
  if (after.email_verified || !canSignIn(before, allowed) || hasWay(after, isReplaceable)) return false;
  return before.email_verified || before.email !== after.email;
}

function applied(before: AccountRecord, changes: AccountChanges, fields: PersonFields): AccountRecord {
  const { attributes: _replaced, ...rest } = before;
  const { email = before.email, email_verified = email === before.email && before.email_verified } = changes;
  return { ...rest, email, email_verified, ...storedFields(before, changes, fields) };
}

/** @throws InvalidArgument if there are too many attributes in all. What is stored is known only here. */
function storedFields(
  before: FieldValues,
  changes: FieldValues,
  fields: PersonFields,
): ReturnType<PersonFields["stored"]> {
  const after = fields.stored(before, changes);
  if (changes.attributes !== undefined && fields.isTooLarge(after))
    throw invalid("account", [{ path: ["attributes"], message: "must have at most 8 KiB in all" }]);
  return after;
}

const changedAddress = (before: AccountRecord, after: AccountRecord): string[] =>
  (["email", "email_verified"] as const).filter((each) => before[each] !== after[each]);

/** Mail about security. None is sent without a sender address. */
function createNotices({
  mailDeployment: deployment,
  clock,
}: Pick<AccountServices, "mailDeployment" | "clock">) {
  function notice(kind: MailKind, account: AccountRecord, params: NewMail["params"] = {}): NewMail[] {
    if (deployment === undefined) return [];
    return [noticeTo(account, { kind, deployment, at: clock.now(), params })];
  }
  return {
    deviceConnected: (account: AccountRecord, client: string) =>
      notice("device-connected", account, { client }),
    passwordChanged: (account: AccountRecord) => notice("password-changed", account),
    /** To both addresses, unless they differ only in spelling. @param undo the link for the old one. */
    addressChanged: (before: AccountRecord, after: AccountRecord, undo?: string) =>
      normalName(before.email) === normalName(after.email)
        ? []
        : [
            ...notice(
              "address-changed",
              { ...before, locale: after.locale ?? null },
              { address: "old", ...(undo !== undefined && { link: undo }) },
            ),
            ...notice("address-changed", after, { address: "new" }),
          ],
  };
}
