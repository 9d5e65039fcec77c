/** The operations on accounts: the people, and what they may use. */
import { z } from "zod";
import {
  accountChanges as changesSchema,
  attributeValue,
  type AccountChanges,
  anyClientId,
  type ImportedAccount,
  importArguments,
  newAccount as newSchema,
  type NewAccount,
  serviceKey,
  serviceKeys,
  userId,
  userIdInService,
} from "../account-schema.ts";
import { anyString, exactly, flag, ruled } from "../arguments.ts";
import { type FieldAnswers, PERSON_FIELD_NAMES, type PersonField } from "../profile-fields.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import { roleNames } from "../roles.ts";
import { searchProblem } from "../search/search-words.ts";
import { described } from "../../config/documented-schema.ts";
import { ANY, CHANGES, factorRows, FINDS, HELPS, ONE, SUB } from "./factors.ts";
import { identityRows } from "./identities.ts";
import { supportRows } from "./support.ts";
import { type Facade, NONE, operation, operations } from "./operation.ts";

export const shownAccount = exactly({
  /** Unique user identifier, a UUID. */
  sub: z.string(),
  /** Positive integer, never reused. */
  user_id: z.int(),
  email: z.string(),
  email_verified: z.boolean(),
  ...(Object.fromEntries(PERSON_FIELD_NAMES.map((name) => [name, z.string().nullable()])) as Readonly<
    Record<PersonField, z.ZodNullable<z.ZodString>>
  >),
  /** The fields that the service has besides these: name → value; `null` without one. Left out if it has none. */
  attributes: z.record(z.string(), attributeValue.nullable()).readonly().exactOptional(),
  /** Service key → `user_id_in_service`; `null` until the service reports it. */
  services: z.record(z.string(), z.int().nullable()).readonly(),
  /** Service key → the roles in this service that `Accounts.setRoles` gave; services without are left out. */
  roles: z.record(z.string(), z.array(z.string()).readonly()).readonly(),
  /** Whether sign-in is blocked: see `Accounts.disable`. */
  disabled: z.boolean(),
  /** Seconds since the epoch. */
  created_at: z.int(),
  /** Seconds since the epoch. */
  updated_at: z.int(),
});

/** An account as every call returns it, with its members in this order. A field without a value is `null`. */
export interface Account extends FieldAnswers, Readonly<z.output<typeof shownAccount>> {}
const account: z.ZodType<Account> = shownAccount.meta({ id: "Account" });

const newAccount: z.ZodType<NewAccount, NewAccount> = newSchema;
const accountChanges: z.ZodType<AccountChanges, AccountChanges> = changesSchema;

const filters = exactly({
  /**
   * A whole `sub`, `user_id`, e-mail address or username, or the beginnings of words of address, username and surname: three characters
   * at least, of several words each has to match. Default: everybody.
   */
  search: ruled(searchProblem).exactOptional(),
  /** Only accounts that are assigned to this service. */
  service: anyString.exactOptional(),
  /** Only accounts that belong to this portal. */
  portal: anyString.exactOptional(),
  /** Only accounts whose sign-in is blocked, or only those whose sign-in is not. */
  disabled: flag().exactOptional(),
  /** Only accounts whose e-mail address is confirmed, or only those whose is not. */
  email_verified: flag().exactOptional(),
});

/** Which accounts to list. All that is given has to hold. Default: all accounts. */
export interface AccountFilter extends Readonly<z.input<typeof filters>> {}
const accountFilter: z.ZodType<AccountFilter, AccountFilter> = filters;

/** Everything about one person. Times are in seconds since the epoch. Secrets, hashes and keys are left out. */
export interface AccountData {
  readonly account: Account;
  /** What the account has besides. */
  readonly more: {
    /** When each service was assigned. */
    readonly services_since: Readonly<Record<string, number>>;
    readonly terms_version: string | null;
    readonly has_password: boolean;
    readonly password_changed_at: number | null;
    /** When the person was last asked to add a passkey. */
    readonly passkey_offered_at: number | null;
  };
  readonly factors: unknown;
  readonly identities: readonly unknown[];
  readonly sessions: readonly unknown[];
  /** Browsers that are not asked for a second factor. */
  readonly remembered_browsers: readonly unknown[];
  readonly consents: readonly unknown[];
  /** The clients that hold tokens. */
  readonly grants: readonly unknown[];
  /** What waits for a code or link, and the changes that a link still undoes. */
  readonly requests: readonly unknown[];
  /** Mail that waits to be sent, without its codes and links. */
  readonly mails: readonly unknown[];
  readonly invitations: readonly unknown[];
  /** Notifications about the person, with what receivers were told as long as it is kept. */
  readonly deliveries: readonly unknown[];
  /** What the person did, and what was done to the account. */
  readonly audit: readonly AuditRecord[];
}

const pruned = exactly({
  /** How many accounts had such a value. */
  accounts: z.int(),
});

export const accounts = operations("account", {
  /**
   * Shows an account.
   * @returns `undefined` if there is none.
   */
  find: operation({
    ...FINDS,
    ...ONE,
    limited: { role: "viewer", by: "assignment" },
    input: NONE,
    output: account,
    example: ANY,
  }),
  /** The account with this username or e-mail address, compared as at sign-in; `undefined` if there is none. */
  findByLogin: operation({
    ...FINDS,
    target: ["usernameOrEmail"],
    input: NONE,
    output: account,
    columns: [],
    surfaces: ["library"],
    example: { target: ["ada@example.com"], input: {} },
  }),
  /** The account with this `user_id`; `undefined` if there is none. */
  findByUserId: operation({
    ...FINDS,
    target: [],
    positional: ["user_id"],
    input: exactly({
      /** The number of the account. */
      user_id: userId,
    }),
    output: account,
    columns: [],
    surfaces: ["library"],
    example: { target: [], input: { user_id: 3 } },
  }),
  /**
   * Lists accounts, ordered by `user_id`, or searches them.
   *
   * Of a search, those that it names exactly come first. A page of a search is full or the last one.
   *
   * @throws SignInError `search_too_wide` if more than 1,000 accounts have a name that begins like this; `search_incomplete` until
   *   `storage reindex` has finished, unless the search names somebody exactly.
   */
  list: operation({
    ...FINDS,
    effect: "list",
    target: [],
    input: accountFilter,
    output: account,
    limited: { role: "viewer", by: "assignment" },
    errors: ["search_too_wide", "search_incomplete"],
    columns: ["user_id", "sub", "email", "username", "surname", "disabled"],
    example: { target: [], input: { search: "lovel", service: "news" } },
  }),
  /**
   * Creates an account. No notification is sent.
   *
   * @throws NameTaken when the e-mail address or username belongs to another account.
   * @throws UnknownReference when the portal is not in the directory.
   * @throws InvalidPassword when the password breaks a rule of `passwords`, is a common one, or a name of the account or the
   *   service. Its `problem` says which.
   */
  create: operation({
    effect: "create",
    target: [],
    input: newAccount,
    output: account,
    role: "administrator",
    limited: false,
    confirm: "none",
    audit: ["account.created"],
    errors: ["name_taken", "unknown_reference", "invalid_password"],
    columns: [],
    example: { target: [], input: { email: "grace@example.com", name: "Grace" } },
  }),
  /**
   * Changes the given fields, and notifies the services of the account.
   *
   * A new e-mail address, username or value of the documented profile sends one `PROFILE_CHANGED`. If mail is configured, both
   * addresses are notified of a new e-mail address. A call that changes nothing writes nothing.
   *
   * @throws NotFound if there is no such account.
   * @throws NameTaken, UnknownReference as `create` does.
   * @throws SignInError `not_applicable` where an account without a password would lose its confirmed address.
   */
  update: operation({
    ...CHANGES,
    effect: "change",
    input: accountChanges,
    output: account,
    audit: ["account.updated"],
    errors: ["not_found", "name_taken", "unknown_reference", "not_applicable"],
    example: { target: [SUB], input: { surname: "Hopper", gender: null } },
  }),
  /**
   * Removes what nobody reads: the values of an attribute that is no longer configured, or that its type no longer takes.
   *
   * Values that fit stay. No notification is sent.
   */
  pruneAttributes: operation({
    effect: "verb",
    target: [],
    positional: ["attribute"],
    input: exactly({
      /** The name of the attribute. */
      attribute: anyString,
    }),
    output: pruned,
    role: "administrator",
    limited: false,
    confirm: "final",
    audit: ["account.attributes_pruned"],
    errors: [],
    columns: [],
    surfaces: ["library", "command"],
    example: { target: [], input: { attribute: "department" } },
  }),
  /**
   * Creates an account of another system with its identifiers, assignments and password hash of that system.
   * Moves the counter past its `user_id`. Nobody is told, unless `notify` asks for `account.created`.
   *
   * @throws AlreadyExists when the `sub` or `user_id` belongs to another account, or the `sub` is a `client_id`.
   * @throws NameTaken, UnknownReference, InvalidPassword as `create` does.
   */
  import: operation({
    effect: "create",
    target: [],
    input: importArguments,
    output: account,
    role: "administrator",
    limited: false,
    confirm: "none",
    audit: ["account.imported"],
    errors: ["already_exists", "name_taken", "unknown_reference", "invalid_password"],
    columns: [],
    surfaces: ["library"],
    example: { target: [], input: { email: "ada@example.com", user_id: 7 } satisfies ImportedAccount },
  }),
  /**
   * Sets the password, and ends all codes, tokens and sessions.
   *
   * If mail is configured, the person gets a mail.
   *
   * @throws NotFound if there is no such account.
   * @throws InvalidPassword as `create` does.
   */
  setPassword: operation({
    ...CHANGES,
    effect: "verb",
    positional: ["password"],
    input: exactly({
      /** The new password. */
      password: described(anyString, { holds: "secret" }),
    }),
    output: NONE,
    confirm: "page",
    audit: ["account.password_changed"],
    errors: ["not_found", "invalid_password"],
    recent: true,
    example: { target: [SUB], input: { password: "a long password" } },
  }),
  /**
   * Blocks sign-in, and ends all codes, tokens and sessions.
   *
   * From now on a sign-in fails like one with a wrong password. No notification is sent.
   *
   * @throws NotFound if there is no such account.
   */
  disable: operation({ ...HELPS, input: NONE, output: account, audit: ["account.disabled"], example: ANY }),
  /**
   * Lets the person sign in again. What has ended stays ended.
   *
   * @throws NotFound if there is no such account.
   */
  enable: operation({ ...HELPS, input: NONE, output: account, audit: ["account.enabled"], example: ANY }),
  /**
   * Deletes an account for good, ends its codes, tokens and sessions, and notifies its services.
   * @returns `false` if there is none.
   */
  delete: operation({
    ...CHANGES,
    effect: "remove",
    input: NONE,
    output: NONE,
    confirm: "typed",
    audit: ["account.deleted"],
    errors: [],
    recent: true,
    example: ANY,
  }),
  /**
   * Assigns an account to a service.
   *
   * @throws NotFound if there is no such account.
   * @throws UnknownReference when the service is not in the directory.
   */
  assign: operation({
    ...CHANGES,
    effect: "verb",
    positional: ["service", "user_id_in_service"],
    input: exactly({
      /** The key of the service. */
      service: serviceKey,
      /**
       * Its number in `data.services` of notifications. Default: an assignment that exists keeps its number, a new one gets `null` until
       * the service reports it.
       */
      user_id_in_service: userIdInService.optional().meta({ option: "number" }),
    }),
    output: account,
    audit: ["account.assigned"],
    errors: ["not_found", "unknown_reference"],
    example: { target: [SUB], input: { service: "news" } },
  }),
  /**
   * Removes assignments, and ends the codes and tokens of the services' clients, but no session.
   *
   * Sends one `UNASSINGED_FROM_SERVICE` for all of them.
   *
   * @returns `false`, and no notification is sent, if none of them was assigned.
   */
  unassign: operation({
    ...CHANGES,
    effect: "remove",
    positional: ["services"],
    input: exactly({
      /** The keys of the services. */
      services: serviceKeys,
    }),
    output: NONE,
    confirm: "final",
    audit: ["account.unassigned"],
    errors: [],
    limited: { role: "administrator", by: "assignment" },
    missing: "assignment",
    path: "services",
    example: { target: [SUB], input: { services: ["news"] } },
  }),
  /**
   * Replaces the roles of an account in a service that it is assigned to; an empty list removes them.
   *
   * They end with the assignment. No notification is sent.
   *
   * @throws NotFound if there is no such account, or it is not assigned to the service.
   * @throws UnknownReference when the service is not in the directory, or has no such role.
   */
  setRoles: operation({
    ...CHANGES,
    effect: "verb",
    positional: ["service", "roles"],
    input: exactly({
      /** The key of the service. */
      service: serviceKey,
      /** The roles, all of them; an empty text: none. */
      roles: roleNames,
    }),
    output: account,
    limited: { role: "administrator", by: "assignment" },
    audit: ["account.roles_set"],
    errors: ["not_found", "unknown_reference"],
    example: { target: [SUB], input: { service: "news", roles: ["editor", "author"] } },
  }),
  /**
   * Ends all sign-in sessions of an account.
   *
   * @throws NotFound if there is no such account.
   */
  endSessions: operation({
    ...HELPS,
    input: NONE,
    output: NONE,
    audit: ["account.sessions_ended"],
    store: "elsewhere",
    words: "sessions end",
    example: ANY,
  }),
  /**
   * Ends all codes and tokens of an account, and forgets its consents.
   *
   * @throws NotFound if there is no such account.
   */
  revokeTokens: operation({
    ...HELPS,
    positional: ["client"],
    input: exactly({
      /** Only those of this client, which may be the address of a document. Default: all. */
      client: anyClientId.optional(),
    }),
    output: NONE,
    limited: { role: "support", by: "assignment" },
    audit: ["account.tokens_revoked"],
    example: { target: [SUB], input: { client: "news" } },
  }),
  ...factorRows,
  ...identityRows,
  ...supportRows,
  /**
   * Returns everything about one person, for a request of that person: see `docs/operate/day-to-day/subject-access.md`.
   *
   * The account, second factors, linked accounts, sessions, consents, notifications, mail that waits, and the audit; no secrets.
   *
   * @throws NotFound if there is no such account.
   */
  data: operation({
    ...CHANGES,
    effect: "verb",
    input: NONE,
    output: z.custom<AccountData>(),
    audit: ["account.data_exported"],
    surfaces: ["library", "command"],
    example: ANY,
  }),
});

/**
 * The accounts. A wrong argument is an `InvalidArgument` that names the option. A storage fault, or too many concurrent
 * changes to one account, is `StorageUnavailable`. Every change writes an audit record that names its `actor`.
 */
export interface Accounts extends Facade<typeof accounts.rows> {
  /** Whether this is the password. It takes as long for an account that has none, is disabled or does not exist. */
  verifyPassword(sub: string, password: string): Promise<boolean>;
}
