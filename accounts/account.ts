/** What the other parts of the service ask of accounts, besides the operations on them. */
import type { RecordData } from "../adapters/record-store.ts";
import type { Caller, ClientThen } from "../records/audit/audit-event.ts";
import type { AccountRecord, ApiRecord, ClientRecord, Consent } from "../records/directory/directory.ts";
import type { Transaction } from "../records/records.ts";
import type { ImportedAccount, NewAccount } from "./account-schema.ts";
import type { RedirectKind } from "./documents/document.ts";
import type { SignInName } from "./names.ts";
import type { PersonFields } from "./profile-fields.ts";
import type { SeedMark } from "./seed-marks.ts";
import type { Account } from "./operations/accounts.ts";
import type { FactorChanges, FirstWay } from "./factors/factor.ts";
import type { IdentityChanges } from "./identities/identity.ts";
import type { AccountExport, AccountImport } from "./transfer/account-line.ts";

/** The session in which a person changes something. */
export interface OwnSession {
  /** Its `uid`: it stays signed in. */
  readonly keepSession: string;
  /** The `sessions_generation` that it carries. If the account has another one, the session has ended. */
  readonly generation: number;
}

/** The values that a session or grant has to carry from now on. */
interface NewGenerations {
  readonly sessions_generation: number;
  readonly tokens_generation: number;
}

/** The outcome of comparing a name and a password. */
export interface Authenticated {
  /** Whether the password is right and the account is not disabled. */
  readonly ok: boolean;
  /** Why not. The end user sees the same message for both. */
  readonly refusal?: "credentials" | "disabled";
  /** The account as it was before the comparison, even if the password is wrong. */
  readonly record?: AccountRecord;
}

/** The generations that were read when the person signed in. */
interface SignInGenerations {
  readonly serviceGeneration: number;
  readonly tokensGeneration: number;
}

/** A consent that a person gives a client, and the `sessions_generation` of the session in which they give it. */
interface NewConsent extends Consent {
  readonly sessionsGeneration: number;
}

/** What a person allows a client that nobody has registered. */
interface NewlyAllowedDocument {
  readonly client: Pick<ClientRecord, "client_id" | "document">;
  readonly api: ApiRecord;
  readonly scopes: readonly string[];
  /** Where the answer goes. */
  readonly how: RedirectKind;
  readonly sessionsGeneration: number;
}

/** A device that a person connects. */
interface ConnectedDevice {
  readonly client: Pick<ClientRecord, "client_id" | "name" | "service">;
  /** Only for third parties. */
  readonly consent?: Consent | undefined;
  readonly sessionsGeneration: number;
}

/** An account whose address is confirmed. */
export interface ConfirmedAccount extends Omit<NewAccount, "email" | "password" | "app"> {
  readonly sub: string;
  readonly email: string;
  readonly terms_version?: string | undefined;
  /** What an invitation brings: service key → `user_id_in_service`, and the roles there. */
  readonly services?: Readonly<Record<string, number | null>>;
  readonly roles?: Readonly<Record<string, readonly string[]>>;
  /** The id of the invitation that the person has accepted. */
  readonly invitation?: string;
  /** Left out: its address is all that it has. */
  readonly first?: FirstWay;
}

/** A new account. The recovery codes came with its passkey, to be shown once; empty with a password. */
interface RegisteredAccount {
  readonly record: AccountRecord;
  readonly recoveryCodes: readonly string[];
}

/** The state of an account when a code or link was sent, which is void once any of this has changed. */
export interface AccountState {
  readonly email: string;
  readonly password_generation: number;
}

/** The undo link of a change of address, created before the change. */
interface NewAddressUndo {
  /** The random id of the change. */
  readonly id: string;
  readonly link: string;
  /** The record that the link needs, stored with the change. */
  readonly record: RecordData;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Calls that only the service itself uses. They don't check names and identifiers: a malformed one is simply unknown. */
export interface AccountInternals extends FactorChanges, IdentityChanges, AccountImport, AccountExport {
  /**
   * Imports an account of a seed, unless one of the marks is there: then another process has just made it.
   * @param marks are stored with the account.
   * @throws as `Accounts.import`.
   */
  seed(account: ImportedAccount, marks: readonly SeedMark[]): Promise<void>;
  /** The full record behind `find`, with generations and consents. */
  record(sub: string): Promise<AccountRecord | undefined>;
  /** The full record behind `findByLogin`. A name that no account has costs the same reads. */
  recordByName(name: SignInName | undefined): Promise<AccountRecord | undefined>;
  /**
   * Compares a password. A wrong password, an unknown name, a name of impossible length and an account without a
   * password take the same time. A hash that is weaker than the rules is replaced afterwards, in the background.
   * @throws StorageUnavailable when too many comparisons are waiting.
   */
  authenticate(login: string, password: string): Promise<Authenticated>;
  /**
   * The same for an account that was already looked up; `undefined` if there is none.
   * @param party who waits: see `Passwords.verify`.
   */
  authenticateRecord(
    record: AccountRecord | undefined,
    password: string,
    party?: string,
  ): Promise<Authenticated>;
  /**
   * Assigns the account to a service. Writes nothing if it is assigned already.
   * @throws ConditionFailed when the account was deleted or one of the generations was raised since the sign-in.
   */
  assignAtSignIn(
    sub: string,
    serviceKey: string,
    signedIn: SignInGenerations,
    caller: Caller,
  ): Promise<AccountRecord>;
  /**
   * Sets the password as its owner, in a session that stays and has to carry the returned generation from now on.
   * @throws InvalidPassword as `setPassword`.
   * @throws ConditionFailed when the session has ended.
   */
  setOwnPassword(sub: string, password: string, session: OwnSession, caller: Caller): Promise<NewGenerations>;
  /**
   * Ends all sign-in sessions but one, which has to carry the returned generation from now on. `undefined` if that one has
   * ended, or there is no such account.
   */
  endOtherSessions(
    sub: string,
    session: OwnSession,
    caller: Caller,
  ): Promise<Pick<NewGenerations, "sessions_generation"> | undefined>;
  /**
   * Adds to the account's consent for the client, and drops consents for clients that were removed. Names that can't
   * be granted are not stored.
   * @throws ConditionFailed when the account was deleted or the session has ended.
   */
  rememberConsent(
    sub: string,
    client: ClientThen,
    consent: NewConsent,
    caller: Caller,
  ): Promise<AccountRecord>;
  /**
   * Stores what a person has allowed a client that nobody has registered, in place of what it was allowed before, and sends mail about
   * the first grant of its host.
   * @throws ConditionFailed when the account was deleted, the session has ended, or the client is gone.
   */
  allowDocument(sub: string, allowed: NewlyAllowedDocument, caller: Caller): Promise<void>;
  /**
   * Ends all codes and tokens of a client that nobody has registered, and forgets what it was allowed.
   * @param id its name in records. @returns `false` if it was allowed nothing.
   */
  endDocument(sub: string, id: string, caller: Caller): Promise<boolean>;
  /**
   * Records that the person connects a device, with the consent if its client is a third party, and sends mail about
   * it. Call it before the device can get tokens: a crash in between may send one mail too many, but never loses one.
   * @throws ConditionFailed when the account was deleted or the session has ended.
   */
  connectDevice(sub: string, device: ConnectedDevice, caller: Caller): Promise<void>;
  /**
   * Creates the account of a person who confirmed the address.
   * @param within uses up the confirmation.
   * @throws NameTaken when the e-mail address or the username now belongs to another account: then nothing is put.
   * @throws AlreadyExists when the passkey belongs to an account: at the commit; when the identity does: before
   *   anything is put, so a caller can go on with the transaction.
   */
  register(within: Transaction, account: ConfirmedAccount, caller: Caller): Promise<RegisteredAccount>;
  /**
   * Sets the password of a person who forgot it, ends all codes, tokens and sessions, and notifies the owner by mail.
   * `undefined`, and nothing is put, if the account is gone or disabled, or no longer matches `as`.
   */
  resetPassword(
    within: Transaction,
    sub: string,
    password_hash: string,
    as: AccountState,
    caller: Caller,
  ): Promise<AccountRecord | undefined>;
  /**
   * Changes the e-mail address to a confirmed one, and notifies both addresses by mail. `gone`, and nothing is put,
   * as for `resetPassword`. `limited`: there were too many changes; seconds until there may be another.
   * @param undo goes to the old address, if that is confirmed.
   * @throws NameTaken when the address now belongs to another account.
   */
  changeAddress(
    within: Transaction,
    sub: string,
    email: string,
    as: AccountState,
    undo: NewAddressUndo,
    caller: Caller,
  ): Promise<
    { readonly kind: "changed" | "gone" } | { readonly kind: "limited"; readonly retryAfter: number }
  >;
  /**
   * Undoes a change of address and all later ones: the earlier address is restored, and all codes, tokens and sessions
   * end. The password is removed, because somebody else may know it. `undefined`, and nothing is put, if the account is
   * gone or disabled, or the change was already undone.
   * @param id of the change.
   * @throws NameTaken when the address now belongs to another account.
   */
  undoAddress(
    within: Transaction,
    sub: string,
    id: string,
    email: string,
    caller: Caller,
  ): Promise<AccountRecord | undefined>;
  /** Stores which version of the terms of use the person accepted. `false` if there is no such account. */
  acceptTerms(sub: string, version: string, caller: Caller): Promise<boolean>;
  /** Forgets the consents of all accounts for one client. Reads every account. */
  forgetConsents(client: ClientThen, caller: Caller): Promise<void>;
  /** Resolves when background work is done. */
  settled(): Promise<void>;
}

/** Whether the account is disabled: it can't sign in, and its codes, tokens and sessions are invalid. */
export function isDisabled({ disabled = false }: Pick<AccountRecord, "disabled">): boolean {
  return disabled;
}

/** How often the password of an account has changed is all that is read here. */
export interface PasswordOwner {
  readonly ways: { readonly password?: { readonly generation: number } };
}

/** The state of the account that its codes and links depend on. */
export function stateOf(account: Pick<AccountRecord, "email" | "ways">): AccountState {
  return { email: account.email, password_generation: passwordGeneration(account) };
}

/** How often the password has changed or ended. */
export function passwordGeneration({ ways }: PasswordOwner): number {
  return ways.password?.generation ?? 0;
}

/** The record as the public calls show it: without the password hash and internal fields. */
export function toAccount(record: AccountRecord, fields: PersonFields): Account {
  return {
    sub: record.sub,
    user_id: record.user_id,
    email: record.email,
    email_verified: record.email_verified,
    ...fields.shown(record),
    services: { ...record.services },
    roles: { ...record.roles },
    disabled: isDisabled(record),
    created_at: record.created_at,
    updated_at: record.updated_at,
  };
}
