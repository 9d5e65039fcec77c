/** Accounts: the public calls, and what the HTTP layer asks for beside them. */
import type { AccountRecord } from "../directory/directory.ts";
import type { Caller } from "../audit/audit-event.ts";
import type { Account, AccountChanges, AccountPage, ImportedAccount, NewAccount } from "./account.ts";
import { toAccount } from "./account.ts";
import type { AccountDeps } from "./account-change.ts";
import { accountPage } from "./account-schema.ts";
import { anyString, checked } from "./arguments.ts";
import { assign, assignAtSignIn, type SeenGenerations, unassign } from "./assignments.ts";
import {
  authenticate,
  type Authenticated,
  createBackground,
  recordByLogin,
  verifyPassword,
} from "./authenticate.ts";
import type { CallOptions } from "./call-options.ts";
import { forgetConsents, type NewConsent, rememberConsent } from "./consents.ts";
import { createAccount, importAccount } from "./create-account.ts";
import { endSessions, revokeTokens, setDisabled } from "./end-access.ts";
import {
  deleteAccount,
  type NewGenerations,
  setPassword,
  type SetPasswordOptions,
  updateAccount,
} from "./update-account.ts";

export type { AccountDeps } from "./account-change.ts";

/**
 * The accounts. Wrong arguments are a `TypeError` that names the option; a fault of the storage, or too many
 * changes of one account at once, is `StorageUnavailable`. Each call that changes something leaves an audit record with
 * the change; `actor` says there who asked for it.
 */
export interface Accounts {
  /**
   * Creates an account. Nobody is notified.
   * @throws NameTaken when the e-mail address or username belongs to another account.
   * @throws UnknownReference when the portal is not in the directory.
   * @throws InvalidPassword when the password breaks a rule.
   */
  create(account: NewAccount, options?: CallOptions): Promise<Account>;
  /** The account; `undefined` when there is none. */
  find(sub: string): Promise<Account | undefined>;
  /** The account with this username or e-mail address, compared as at sign-in; `undefined` when there is none. */
  findByLogin(usernameOrEmail: string): Promise<Account | undefined>;
  /** Ordered by `user_id`; a page of 100 unless `limit` says another number up to 1000. */
  list(page?: AccountPage): Promise<Account[]>;
  /**
   * Changes what is named. A change of value of username, e-mail, name, surname, date_of_birth or gender is
   * one `PROFILE_CHANGED`; a call that changes nothing writes nothing.
   * @throws NotFound when there is no such account.
   * @throws NameTaken, UnknownReference as `create` does.
   */
  update(sub: string, changes: AccountChanges, options?: CallOptions): Promise<Account>;
  /**
   * Creates an account that comes from elsewhere, with its identifiers, assignments and password hash
   * (Argon2, bcrypt, scrypt or PBKDF2). Moves the counter past its `user_id`. Nobody is notified.
   * @throws AlreadyExists when the `sub` or `user_id` belongs to another account, or the `sub` is a `client_id`.
   * @throws NameTaken, UnknownReference, InvalidPassword as `create` does.
   */
  import(account: ImportedAccount, options?: CallOptions): Promise<Account>;
  /**
   * Sets the password and ends all codes, tokens and sessions of the account but `keepSession`, which has to
   * carry the returned generations from now on.
   * @throws InvalidPassword when it breaks a rule.
   * @throws NotFound when there is no such account.
   */
  setPassword(sub: string, password: string, options?: SetPasswordOptions): Promise<NewGenerations>;
  /** Whether this is the password; `false` after the same work for an account that has none, is disabled or is not there. */
  verifyPassword(sub: string, password: string): Promise<boolean>;
  /**
   * Ends all codes, tokens and sessions of the account at once. Signing in to it is answered as a wrong password is.
   * Nobody is notified. `false` when there is no such account.
   */
  disable(sub: string, options?: CallOptions): Promise<boolean>;
  /** Takes `disable` back: the person can sign in again, and what has ended stays so. `false` when there is no such account. */
  enable(sub: string, options?: CallOptions): Promise<boolean>;
  /** Deletes the account and ends everything of it at once; `false` when there is none. */
  delete(sub: string, options?: CallOptions): Promise<boolean>;
  /**
   * Assigns the account to a service. `userIdInService` is the number in `data.services` of notifications;
   * left out, an assignment that is there keeps its number and a new one has `null`.
   * @throws NotFound when there is no such account.
   * @throws UnknownReference when the service is not in the directory.
   */
  assign(
    sub: string,
    serviceKey: string,
    userIdInService?: number | null,
    options?: CallOptions,
  ): Promise<Account>;
  /**
   * Takes away assignments and ends codes and tokens of the services' clients, not the session: one
   * `UNASSINGED_FROM_SERVICE` for all keys. `false` when none of them was assigned; then nobody is notified.
   */
  unassign(sub: string, serviceKeys: string | readonly string[], options?: CallOptions): Promise<boolean>;
  /** Ends all sign-in sessions; `false` when there is no such account. */
  endSessions(sub: string, options?: CallOptions): Promise<boolean>;
  /** Ends all codes and tokens, or those of one client, and forgets the consents; `false` without an account. */
  revokeTokens(sub: string, client_id?: string, options?: CallOptions): Promise<boolean>;
}

/** What only the service itself uses. Names and identifiers are taken as they come: an odd one is just unknown. */
export interface AccountInternals {
  /** The record behind `find`: with generations and consents. */
  record(sub: string): Promise<AccountRecord | undefined>;
  /** The record behind `findByLogin`. */
  recordByLogin(login: string): Promise<AccountRecord | undefined>;
  /**
   * Compares a password. A wrong password, an unknown name, a name that is too long for anybody, and an account
   * without a password cost the same work.
   * A hash that is weaker than the rules is replaced afterwards, in the background.
   * @throws StorageUnavailable when too many passwords are being compared.
   */
  authenticate(login: string, password: string): Promise<Authenticated>;
  /**
   * Assigns the account to a service unless it is assigned already; then nothing is written.
   * @param seen the generations on which the sign-in rests.
   * @throws ConditionFailed when the account or one of these generations has ended.
   */
  assignAtSignIn(
    sub: string,
    serviceKey: string,
    seen: SeenGenerations,
    caller: Caller,
  ): Promise<AccountRecord>;
  /**
   * Adds to what the account has allowed the client, and drops what it allowed clients that are gone. Names that can't
   * be granted are not remembered.
   * @throws ConditionFailed when the account or the session in which it is allowed has ended.
   */
  rememberConsent(
    sub: string,
    client_id: string,
    consent: NewConsent,
    caller: Caller,
  ): Promise<AccountRecord>;
  /** Forgets the consents of all accounts to one client: reads every account, for rare use. */
  forgetConsents(client_id: string, caller: Caller): Promise<void>;
  /** Resolves when the work in the background is done; for closing. */
  settled(): Promise<void>;
}

/** The calls over one storage. */
export function createAccounts(deps: AccountDeps): Accounts & AccountInternals {
  const background = createBackground(deps);
  const { directory } = deps;
  return {
    create: (account, options) => createAccount(deps, account, options),
    import: (account, options) => importAccount(deps, account, options),
    async find(sub) {
      return shown(await directory.findAccount(checked("sub", anyString, sub)));
    },
    async findByLogin(login) {
      return shown(await recordByLogin(deps, checked("usernameOrEmail", anyString, login)));
    },
    async list(page = {}) {
      const { after, limit = 100 } = checked("page", accountPage, page);
      const records = await directory.listAccounts({ limit, ...(after === undefined ? {} : { after }) });
      return records.map((record) => toAccount(record));
    },
    update: (sub, changes, options) => updateAccount(deps, sub, changes, options),
    setPassword: (sub, password, options = {}) => setPassword(deps, sub, password, options),
    verifyPassword: (sub, password) => verifyPassword(deps, background, sub, password),
    disable: (sub, options) => setDisabled(deps, sub, true, options),
    enable: (sub, options) => setDisabled(deps, sub, false, options),
    delete: (sub, options) => deleteAccount(deps, sub, options),
    assign: (sub, serviceKey, userIdInService, options) =>
      assign(deps, sub, serviceKey, userIdInService, options),
    unassign: (sub, serviceKeys, options) => unassign(deps, sub, serviceKeys, options),
    endSessions: (sub, options) => endSessions(deps, sub, options),
    revokeTokens: (sub, clientId, options) => revokeTokens(deps, sub, clientId, options),
    record: (sub) => directory.findAccount(sub),
    recordByLogin: (login) => recordByLogin(deps, login),
    authenticate: (login, password) => authenticate(deps, background, login, password),
    assignAtSignIn: (sub, serviceKey, seen, caller) => assignAtSignIn(deps, sub, serviceKey, seen, caller),
    rememberConsent: (sub, id, consent, caller) => rememberConsent(deps, sub, id, consent, caller),
    forgetConsents: (id, caller) => forgetConsents(deps, id, caller),
    settled: () => background.settled(),
  };
}

function shown(record: AccountRecord | undefined): Account | undefined {
  return record === undefined ? undefined : toAccount(record);
}
