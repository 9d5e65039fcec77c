/** Accounts, sign-in names, clients, services, groups, portals and keys: what is kept for good. */
import type { RefreshTokenRules } from "../../config/configuration.ts";
import type { AuditEvent } from "../audit/audit-event.ts";
import type { NewDelivery } from "../deliveries/delivery.ts";

/** One account as it is kept: all that a change of it has to see is in this one record. */
export interface AccountRecord {
  /** Random UUID, never reused. */
  readonly sub: string;
  /** Positive integer, counted up, never reused. */
  readonly user_id: number;
  readonly email: string;
  readonly email_verified: boolean;
  readonly username: string | null;
  readonly name: string | null;
  readonly surname: string | null;
  /** `YYYY-MM-DD`. */
  readonly date_of_birth: string | null;
  readonly gender: string | null;
  /** Key of the portal to which the account belongs. */
  readonly portal: string | null;
  /** Assignments: service key → `user_id_in_service`, `null` while the service has not told it. */
  readonly services: Readonly<Record<string, number | null>>;
  /** PHC string; `null` for an account that can't sign in with a password. */
  readonly password_hash: string | null;
  /** Goes up with each new password, not when one is hashed anew. Missing: 0. */
  readonly password_generation?: number;
  /** Goes up when all sign-in sessions of the account end. */
  readonly sessions_generation: number;
  /** Goes up when all codes and tokens of the account end. */
  readonly tokens_generation: number;
  /** Service key → number that goes up when codes and tokens there end; outlives the assignment. */
  readonly service_generations: Readonly<Record<string, number>>;
  /** Client id → number that goes up when the codes and tokens of one client end. */
  readonly client_generations: Readonly<Record<string, number>>;
  /** What the person allowed a third-party client: client id → scopes and claims. */
  readonly consents: Readonly<Record<string, Consent>>;
  /** Nobody signs in to it, and nothing that it was given works. Missing: `false`. */
  readonly disabled?: boolean;
  /** Seconds since the epoch. */
  readonly created_at: number;
  /** Seconds since the epoch. */
  readonly updated_at: number;
  /** Counts the writes of this record: the condition of the next one. */
  readonly version: number;
}

export interface Consent {
  readonly scopes: readonly string[];
  readonly claims: readonly string[];
}

/** One atomic change of one account, with everything that must happen in the same moment. */
export interface AccountChange {
  readonly sub: string;
  /** The version that was read; `undefined` creates the account. */
  readonly expectedVersion: number | undefined;
  /** The record afterwards, with its new `version`; `undefined` deletes the account. */
  readonly record: AccountRecord | undefined;
  /** Normalised sign-in names that the account takes. Condition: they are free (or its own). */
  readonly claimNames: readonly string[];
  /** Normalised sign-in names that the account gives back. */
  readonly releaseNames: readonly string[];
  /** Service keys that must be in the directory at that moment. */
  readonly requireServices: readonly string[];
  /** A portal key that must be in the directory at that moment. */
  readonly requirePortal?: string;
  /** Notifications that this change causes: stored with it or not at all. */
  readonly deliveries: readonly NewDelivery[];
  readonly audit?: AuditEvent;
}

/** One accepted client secret. */
export interface ClientSecret {
  /** HMAC-SHA-256 of the secret under the storage's key, Base64url. */
  readonly hash: string;
  /** Seconds since the epoch; missing: until it is rotated. */
  readonly expires_at?: number;
}

export interface ClientRecord {
  readonly client_id: string;
  readonly name: string;
  /** Key of the service to which the client belongs; `null` only for the internal account client. */
  readonly service: string | null;
  readonly secrets: readonly ClientSecret[];
  readonly redirect_uris: readonly string[];
  readonly post_logout_redirect_uris: readonly string[];
  readonly backchannel_logout_uri: string | null;
  readonly grant_types: readonly string[];
  readonly first_party: boolean;
  /** What differs from the service's `refreshTokens`. */
  readonly refresh_tokens: Partial<RefreshTokenRules>;
  readonly error_status: "documented" | "standard";
  /** Missing in what was registered without one: `RS256`. */
  readonly id_token_signed_response_alg?: "RS256" | "ES256" | "EdDSA";
  readonly disabled: boolean;
  /** Seconds since the epoch. */
  readonly created_at: number;
  readonly updated_at: number;
  readonly version: number;
}

export interface ClientChange {
  readonly client_id: string;
  /** The version that was read; `undefined` creates the client. */
  readonly expectedVersion: number | undefined;
  /** `undefined` removes the client. */
  readonly record: ClientRecord | undefined;
  readonly audit?: AuditEvent;
}

/** The three kinds of entries that the directory has beside accounts and clients. */
export type EntryKind = "service" | "group" | "portal";

/** A receiver as it is kept: its credentials are sealed, for they must be readable again. */
export interface ReceiverRecord {
  readonly url: string;
  readonly client_id: string;
  readonly types: readonly string[];
  /** Sealed JSON `{ client_secret, signing_secret? }`. */
  readonly sealed: string;
}

export interface EntryRecord {
  readonly key: string;
  readonly name: string;
  /** Services only: the key of their group. */
  readonly group: string | null;
  readonly receiver: ReceiverRecord | null;
}

export interface DirectoryStore {
  findAccount(sub: string): Promise<AccountRecord | undefined>;
  /** By a sign-in name that is normalised already. */
  findAccountByName(name: string): Promise<AccountRecord | undefined>;
  /** Ordered by `user_id`; those after the account `after`, at most `limit`. */
  listAccounts(page: { readonly after?: string; readonly limit: number }): Promise<AccountRecord[]>;
  /** A number that no call returned before, larger than all earlier ones. Gaps are allowed. */
  nextUserId(): Promise<number>;
  /** Moves the counter past `userId`, so that it is never handed out. */
  passUserId(userId: number): Promise<void>;
  /**
   * Writes the account, its names, its deliveries and its audit record together.
   * @throws VersionConflict when the record has another version, or is there (create) or gone (change).
   * @throws NameTaken when a claimed name belongs to another account.
   * @throws AlreadyExists when the `user_id` of a new account belongs to another one.
   * @throws IdentifierTaken when the `sub` of a new account is a `client_id` at that moment.
   * @throws UnknownReference when a required service or portal is missing.
   */
  commitAccount(change: AccountChange): Promise<void>;

  findClient(clientId: string): Promise<ClientRecord | undefined>;
  /** Ordered by `client_id`. */
  listClients(): Promise<ClientRecord[]>;
  /**
   * @throws VersionConflict as for accounts; creating one that exists is `AlreadyExists`.
   * @throws IdentifierTaken when the `client_id` of a new client is the `sub` of an account at that moment.
   * @throws UnknownReference when the record's service is missing.
   */
  commitClient(change: ClientChange): Promise<void>;

  findEntry(kind: EntryKind, key: string): Promise<EntryRecord | undefined>;
  /** Ordered by `key`. */
  listEntries(kind: EntryKind): Promise<EntryRecord[]>;
  /**
   * Creates or replaces. @param audit the record of it, by whether the entry was there before.
   * @throws UnknownReference when the record's group is missing.
   */
  putEntry(kind: EntryKind, record: EntryRecord, audit?: (isNew: boolean) => AuditEvent): Promise<void>;
  /**
   * Removes the entry; `false` when it was not there.
   * @throws StillReferenced naming at most ten references: `client:ID`, `service:KEY`, `account:SUB`.
   */
  removeEntry(kind: EntryKind, key: string, audit?: AuditEvent): Promise<boolean>;

  /** Stores `value` under `name` unless something is there; returns what is kept. */
  keep(name: string, value: string): Promise<string>;
  /** What is kept under `name`. */
  kept(name: string): Promise<string | undefined>;
}
