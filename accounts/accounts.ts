/** Creates, reads, updates and deletes accounts, and assembles the other calls for them. */
import { randomUUID } from "node:crypto";
import { type AuditDetail, type Caller, SYSTEM } from "../records/audit/audit-event.ts";
import { seconds } from "../core/clock.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import type { Transaction } from "../records/records.ts";
import { AlreadyExists, IdentifierTaken, InvalidArgument, NotApplicable } from "../core/errors.ts";
import { type AccountInternals, toAccount } from "./account.ts";
import { createAccountAccess, noAccount } from "./account-access.ts";
import { applied, CONFIRMED_ADDRESS, losesAddress, newRecord } from "./account-records.ts";
import { type AccountAction, AccountWriter } from "./account-change.ts";
import { changedAddress, createAccountOwnership, createNotices, passwordNames } from "./account-ownership.ts";
import {
  importedAccount,
  type AccountChanges,
  type ImportedAccount,
  type NewAccount,
} from "./account-schema.ts";
import { checked, invalid } from "./arguments.ts";
import { createPruning } from "./attribute-pruning.ts";
import { AUTHENTICATOR_APP } from "../records/factors/factor-kinds.ts";
import { createAccountFactors } from "./factors/account-factors.ts";
import type { FirstWay, NewPassword } from "./factors/factor.ts";
import { appRecord, createFactorWriter } from "./factors/factor-writer.ts";
import { createAccountIdentities } from "./identities/account-identities.ts";
import { createSignIns } from "./passwords/authenticate.ts";
import { createConsents } from "./clients/consents.ts";
import { type Account, type Accounts, accounts } from "./operations/accounts.ts";
import { facade, type Handlers } from "./operations/operation.ts";
import { requireRoles } from "./roles.ts";
import { createAccountData } from "./support/account-data.ts";
import { createAccountSupport } from "./support/account-support.ts";
import { usesEmailCodes } from "./ways/ways.ts";
import { putMarks, readMark, type SeedMark } from "./seed-marks.ts";
import { readName } from "./names.ts";
import { createAccountSearch } from "./search/search.ts";
import type { AccountServices } from "./services.ts";
import { createAccountExport } from "./transfer/export-accounts.ts";
import { createAccountImport } from "./transfer/import-accounts.ts";

/** The accounts of one storage. */
export function createAccounts(
  services: Omit<AccountServices, "accounts" | "clients" | "directory">,
): Accounts & AccountInternals {
  const { clock, configuration, events, fields, passwords } = services;
  const { directory } = services.storage;
  const shown = (record: AccountRecord): Account => toAccount(record, fields);
  const writer = new AccountWriter(services);
  const factors = createFactorWriter(services);
  const notices = createNotices(services);
  const search = createAccountSearch(services.storage.records, services.keys.search);
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
      detail,
      isAnnounced = false,
      ...more
    }: {
      readonly marks?: readonly SeedMark[];
      /** See {@link AccountDecision}. */
      readonly isAnnounced?: boolean | undefined;
      readonly within?: Transaction;
      /** What the audit says besides what the account signs in with. */
      readonly detail?: AuditDetail;
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
        const said = { ...detail, ...(first && detailOf(first)) };
        const about = { isAnnounced, ...(Object.keys(said).length > 0 && { detail: said }) };
        if (first === undefined) return { action, record: fresh, drawsNumber, ...about };
        const addition = await factors.first(tx, fresh, first);
        return {
          action,
          record: { ...fresh, ways: addition.ways },
          drawsNumber,
          mails: addition.mails,
          ...about,
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
        return store(action, input, first, caller, { marks, isAnnounced, ...more });
      throw error;
    }
  }

  async function importAccount(
    account: ImportedAccount,
    caller: Caller,
    how: { readonly marks?: readonly SeedMark[]; readonly isAnnounced?: boolean | undefined } = {},
  ): Promise<AccountRecord> {
    checkFields(account);
    const { password_hash: hash = null } = account;
    const first = hash === null ? await firstOf(account, "imported") : ({ kind: "password", hash } as const);
    if (account.user_id !== undefined) await directory.passUserId(account.user_id);
    const { record } = await store("account.imported", account, first, caller, how);
    return record;
  }

  const access = createAccountAccess(writer, services, shown);
  const ownership = createAccountOwnership(writer, services, notices);
  const secondFactors = createAccountFactors(writer, factors, services);
  const identities = createAccountIdentities(
    writer,
    factors,
    (sub, id, caller) => secondFactors.operations.removeFactor({ target: [sub, id], input: {}, caller }),
    services,
  );

  const operations: Omit<Handlers<typeof accounts.rows>, "data"> = {
    ...access.operations,
    ...ownership.operations,
    ...secondFactors.operations,
    ...identities.operations,
    ...createAccountSupport(writer, secondFactors.internals, services),

    async create({ input, caller }) {
      checkFields(input);
      const { record } = await store("account.created", input, await firstOf(input, "new"), caller);
      return shown(record);
    },

    import: async ({ input: { notify: isAnnounced, ...account }, caller }) =>
      shown(await importAccount(account, caller, { isAnnounced })),

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

    async list({ input: { after, ...wanted } }) {
      const page = await search.list({ ...wanted, after: after === undefined ? undefined : numberOf(after) });
      return { items: page.accounts.map(shown), next: page.next === undefined ? null : String(page.next) };
    },

    async update({ target: [sub], input: changes, caller }) {
      checkFields(changes);
      const { record } = await writer.change(sub, caller, (before) => {
        if (before === undefined) return undefined;
        const after = applied(before, changes, fields);
        if (losesAddress(before, after, { emailCode: usesEmailCodes(services, sub) }))
          throw new NotApplicable(CONFIRMED_ADDRESS);
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
    ...facade(accounts, { ...operations, ...createAccountData(operations, services) }),
    ...access.internals,
    ...ownership.internals,
    ...createConsents(writer, services, notices),
    ...signIns,
    ...secondFactors.internals,
    ...identities.internals,
    ...createAccountImport(writer, services),
    ...createAccountExport(services),
    record: (sub) => directory.findAccount(sub),

    async seed(account, marks) {
      await importAccount(checked("account", importedAccount, account), SYSTEM, { marks });
    },

    register(within, { first, terms_version, invitation, ...account }, caller) {
      const more = {
        within,
        ...(terms_version === undefined ? {} : { terms_version }),
        ...(invitation === undefined ? {} : { detail: { invitation } }),
      };
      return store("account.registered", { ...account, email_verified: true }, first, caller, more);
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
function detailOf(first: FirstWay): AuditDetail {
  if (first.kind === "password") return {};
  return first.kind === "identity" ? { provider: first.identity.provider } : { factor: first.kind };
}

/** The position in the list after which a page begins: the number of an account, which may be gone by now. */
function numberOf(after: string): number {
  if (/^\d{1,15}$/u.test(after)) return Number(after);
  throw new InvalidArgument({ path: "filter.after", message: "must be `next` of another page" });
}
