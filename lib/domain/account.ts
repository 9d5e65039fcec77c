/** An account as the public calls give and take it. */
import type { AccountRecord } from "../directory/directory.ts";

/** An account as every call returns it; its members come in this order. A field without a value is `null`. */
export interface Account {
  /** Unique user identifier, a UUID. */
  readonly sub: string;
  /** Positive integer, never reused. */
  readonly user_id: number;
  readonly email: string;
  readonly email_verified: boolean;
  readonly username: string | null;
  readonly name: string | null;
  readonly surname: string | null;
  /** `YYYY-MM-DD`. */
  readonly date_of_birth: string | null;
  /** Free text. */
  readonly gender: string | null;
  /** Key of the portal to which the account belongs. */
  readonly portal: string | null;
  /** Service key → `user_id_in_service`; `null` while the service has not told it. */
  readonly services: Readonly<Record<string, number | null>>;
  /** Whether nobody can sign in to it: see `Accounts.disable`. */
  readonly disabled: boolean;
  /** Seconds since the epoch. */
  readonly created_at: number;
  /** Seconds since the epoch. */
  readonly updated_at: number;
}

/** The fields that a caller may leave out or give as `null` when there is no value. */
export interface AccountFields {
  /** 1 to 64 characters, no `@`; unique among usernames and e-mail addresses without regard to case. */
  readonly username?: string | null | undefined;
  /** At most 256 characters, like the next ones. */
  readonly name?: string | null | undefined;
  readonly surname?: string | null | undefined;
  /** `YYYY-MM-DD`, a real date. */
  readonly date_of_birth?: string | null | undefined;
  readonly gender?: string | null | undefined;
  /** Key of a portal in the directory. */
  readonly portal?: string | null | undefined;
  /** Whether the person has shown that the address is theirs. Default `false`. */
  readonly email_verified?: boolean | undefined;
}

/** What `accounts.create` takes. */
export interface NewAccount extends AccountFields {
  /** Unique among usernames and e-mail addresses without regard to case. */
  readonly email: string;
  /** Without one the account can't sign in with a password. */
  readonly password?: string | null | undefined;
}

/** What `accounts.import` takes: an account from elsewhere, with its identifiers. */
export interface ImportedAccount extends NewAccount {
  /** A UUID in lower case. Default: a new one. */
  readonly sub?: string | undefined;
  /** A positive integer that no account has. The counter moves past it. Default: the next one. */
  readonly user_id?: number | undefined;
  /** An Argon2, bcrypt, scrypt or PBKDF2 hash; in place of `password`. */
  readonly password_hash?: string | null | undefined;
  /** Assignments: service key → `user_id_in_service` or `null`. */
  readonly services?: Readonly<Record<string, number | null>> | undefined;
}

/** What `accounts.update` takes: only what is named changes; `null` takes a value away. */
export interface AccountChanges extends AccountFields {
  /** A new address is not verified unless `email_verified` says so in the same call. */
  readonly email?: string | undefined;
}

/** A page of accounts. */
export interface AccountPage {
  /** The `sub` of the last account of the page before. */
  readonly after?: string | undefined;
  /** 1 to 1000. Default 100. */
  readonly limit?: number | undefined;
}

/** Whether nobody can sign in to the account, and nothing that it was given works. */
export function isDisabled({ disabled = false }: Pick<AccountRecord, "disabled">): boolean {
  return disabled;
}

/** The record as the public calls show it: without the password and what only the service itself needs. */
export function toAccount(record: AccountRecord): Account {
  return {
    sub: record.sub,
    user_id: record.user_id,
    email: record.email,
    email_verified: record.email_verified,
    username: record.username,
    name: record.name,
    surname: record.surname,
    date_of_birth: record.date_of_birth,
    gender: record.gender,
    portal: record.portal,
    services: { ...record.services },
    disabled: isDisabled(record),
    created_at: record.created_at,
    updated_at: record.updated_at,
  };
}
