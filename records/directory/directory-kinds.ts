/** The kinds of records of the directory: accounts, clients, entries and keys, and their indexes. */
import { randomBytes, randomInt } from "node:crypto";
import type {
  AccountRecord,
  ApiRecord,
  ClientRecord,
  EntryKind,
  EntryRecord,
  StoredLogo,
} from "./directory.ts";
import type { Query } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";
import { defineKind, type Kind } from "../kinds.ts";

/** A record that others refer to. While it is being removed, until `closingUntil`, nothing new can refer to it. */
export interface Closing {
  readonly closingUntil?: number;
}

export type StoredEntry = EntryRecord & Closing;
export type StoredApi = ApiRecord & Closing;

/** Whether a record exists and can be referred to. */
export function isOpen<T extends Closing>(entry: T | undefined, clock: Clock): entry is T {
  return entry !== undefined && (entry.closingUntil ?? 0) <= clock.now();
}

/** The sealing context of a receiver's credentials. */
export const receiverContext = (kind: EntryKind, key: string): string => `receiver ${kind}:${key}`;

function entryKind(name: EntryKind, holds: string, group?: Kind<StoredEntry>): Kind<StoredEntry> {
  return defineKind<StoredEntry>({
    name,
    holds,
    key: "its key",
    keyOf: ({ key }) => key,
    sealed: (entry, replace) =>
      entry.receiver === null || entry.receiver.sealed === null
        ? entry
        : {
            ...entry,
            receiver: {
              ...entry.receiver,
              sealed: replace(receiverContext(name, entry.key), entry.receiver.sealed),
            },
          },
    references: (entry) => (group === undefined || entry.group === null ? [] : [group.ref(entry.group)]),
    store: "storage",
    exported: true,
    afterRestore: "kept",
    afterReset: {
      becomes: "without the credentials of its receiver",
      change: (entry) =>
        entry.receiver === null ? entry : { ...entry, receiver: { ...entry.receiver, sealed: null } },
    },
    personal: undefined,
  });
}

const GROUP = entryKind("group", "a group of services with one receiver of notifications");

/** Services, groups and portals. */
export const ENTRIES: Readonly<Record<EntryKind, Kind<StoredEntry>>> = {
  group: GROUP,
  service: entryKind("service", "a service to which people are assigned", GROUP),
  portal: entryKind("portal", "a portal to which accounts belong"),
};

const servicesOf = ({ services }: AccountRecord): string[] => Object.keys(services);
const portalOf = ({ portal }: AccountRecord): string[] => (portal === null ? [] : [portal]);

/** The only partition of the index `number`: all accounts, ordered by their numbers. */
const ALL = "all";

/**
 * How far generations move when the storage has gone back. They have grown since, and must not return to a value that was in use.
 * Random, because a backup may be restored twice.
 */
const higher = (generation: number): number => generation + randomInt(1_000_000, 2_000_000);

const allHigher = (generations: Readonly<Record<string, number>>): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(generations).map(([key, value]) => [key, higher(value)]));

function withHigherGenerations(account: AccountRecord): AccountRecord {
  const { sessions_generation, tokens_generation, ways } = account;
  const { password, generation } = ways;
  return {
    ...account,
    ways: {
      ...ways,
      password: { hash: null, ...password, generation: higher(password?.generation ?? 0) },
      ...(generation !== undefined && { generation: higher(generation) }),
    },
    sessions_generation: higher(sessions_generation),
    tokens_generation: higher(tokens_generation),
    service_generations: allHigher(account.service_generations),
    client_generations: allHigher(account.client_generations),
  };
}

/** The epoch of a client or an API. Another one ends their earlier tokens. */
export const newTokensEpoch = (): string => randomBytes(9).toString("base64url");

/** A hash that is guessed so quickly that it is wrapped in another: see `accounts/passwords/hash-wrapping.ts`. */
const isQuick = ({ ways: { password } }: AccountRecord): boolean =>
  /^(?:\$salted-|\{SSHA)/u.test(password?.hash ?? "");

export const ACCOUNT: Kind<AccountRecord, "number" | "service" | "portal" | "salted-sha"> = defineKind({
  name: "account",
  holds: "an account",
  key: "the `sub`",
  keyOf: ({ sub }) => sub,
  index: {
    number: ({ user_id }) => [{ at: ALL, order: user_id }],
    service: (account) => servicesOf(account).map((at) => ({ at, order: account.user_id })),
    portal: (account) => portalOf(account).map((at) => ({ at, order: account.user_id })),
    "salted-sha": (account) => (isQuick(account) ? [{ at: ALL, order: account.user_id }] : []),
  },
  indexFor: {
    number: "`accounts.list`",
    service: "removing a service: are accounts assigned to it?",
    portal: "removing a portal: do accounts belong to it?",
    "salted-sha": "wrapping the hashes of imported accounts that are guessed too quickly",
  },
  references: (account) => [
    ...servicesOf(account).map((key) => ENTRIES.service.ref(key)),
    ...portalOf(account).map((key) => ENTRIES.portal.ref(key)),
  ],
  store: "storage",
  exported: true,
  afterRestore: {
    becomes:
      "with higher generations: sessions, codes, tokens, remembered browsers and device cookies are invalid",
    change: withHigherGenerations,
  },
  afterReset: {
    becomes: "the same, and without its authenticator app",
    change(account) {
      const after = withHigherGenerations(account);
      const { app: _sealed, ...ways } = after.ways;
      return { ...after, ways };
    },
  },
  personal: "e-mail address, all fields of the person, password hash, ids of passkeys, assignments, consents",
});

/** Who has an identifier, or had it. */
export type IdentifierOwner = AccountReference | { readonly client_id: string };

/** Written with an account and with a client, so that no identifier belongs to both. That of an account stays for good. */
export const IDENTIFIER: Kind<IdentifierOwner> = defineKind<IdentifierOwner>({
  name: "identifier",
  holds: "that an account, also one that was deleted, or a client has this identifier",
  key: "the `sub` or the `client_id`",
  keyOf: (owner) => ("sub" in owner ? owner.sub : owner.client_id),
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "the `sub`",
});

export const API: Kind<StoredApi> = defineKind<StoredApi>({
  name: "api",
  holds: "an API that tokens can be issued for",
  key: "its identifier",
  keyOf: ({ identifier }) => identifier,
  references: ({ service, introspection }) => [
    ENTRIES.service.ref(service),
    ...introspection.map((client_id) => CLIENT.ref(client_id)),
  ],
  store: "storage",
  exported: true,
  afterRestore: {
    becomes: "with a new epoch: its tokens are invalid",
    change: (api) => ({ ...api, tokens_epoch: newTokensEpoch() }),
  },
  personal: undefined,
});

export const CLIENT: Kind<ClientRecord> = defineKind<ClientRecord>({
  name: "client",
  holds: "a registered client",
  key: "the `client_id`",
  keyOf: ({ client_id }) => client_id,
  references: ({ service, apis = {} }) => [
    ...(service === null ? [] : [ENTRIES.service.ref(service)]),
    ...Object.keys(apis).map((identifier) => API.ref(identifier)),
  ],
  store: "storage",
  exported: true,
  afterRestore: {
    becomes: "with a new epoch: its device codes, codes and tokens are invalid",
    change: (client) => ({ ...client, tokens_epoch: newTokensEpoch() }),
  },
  personal: undefined,
});

export const CLIENT_LOGO: Kind<StoredLogo> = defineKind<StoredLogo>({
  name: "client-logo",
  holds: "the logo of a client",
  key: "the `client_id`",
  keyOf: ({ client_id }) => client_id,
  parent: { kind: CLIENT, key: ({ client_id }) => client_id },
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});

/** The account that a name or a number belongs to. */
export interface AccountReference {
  readonly sub: string;
}

export const SIGN_IN_NAME: Kind<AccountReference> = defineKind<AccountReference>({
  name: "sign-in-name",
  holds: "the account of a sign-in name",
  key: "the SHA-256 of the name in lower case",
  hashed: true,
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "the hash of an e-mail address or user name, and the `sub`",
});

export const USER_ID: Kind<AccountReference> = defineKind<AccountReference>({
  name: "user-id",
  holds: "the account of a `user_id`, also after it was deleted",
  key: "the `user_id`",
  counter: "user-id",
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "the `sub`",
});

/** Something that a seed has made or found. */
export const SEEDED: Kind<{ readonly mark: string }> = defineKind({
  name: "seeded",
  holds: "that a seed has made or found an account, a client or an entry of the directory",
  key: "a keyed hash of its name",
  keyOf: ({ mark }) => mark,
  store: "storage",
  exported: true,
  afterRestore: "kept",
  afterReset: "removed",
  personal: "a keyed hash of an e-mail address",
});

/** A client that was removed. A new client with the same id must not inherit what it left behind. */
export const REMOVED_CLIENT: Kind<{ readonly client_id: string }> = defineKind({
  name: "removed-client",
  holds: "the `client_id` of a removed client",
  key: "the `client_id`",
  keyOf: ({ client_id }) => client_id,
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});

/** A deleted account, or a client whose grants have ended, until what was still written for it is removed. */
export interface StoredRemoval {
  readonly of: "account" | "client";
  /** The `sub` or the `client_id`. */
  readonly id: string;
  /** When every request that began before it has ended, in milliseconds since the epoch. */
  readonly due: number;
}

export const REMOVAL: Kind<StoredRemoval, "due"> = defineKind({
  name: "removal",
  holds: "a deleted account, or a client whose grants have ended, until everything that names it is removed",
  key: "`account` or `client`, and the `sub` or the `client_id`",
  keyOf: ({ of, id }) => [of, id],
  index: { due: ({ due }) => [{ at: ALL, order: due }] },
  indexFor: { due: "removing what requests have written that were under way" },
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "the `sub`",
});

/** All removals, in the order in which they are due. */
export const BY_REMOVAL_DUE: ReturnType<typeof REMOVAL.where> = REMOVAL.where("due", ALL);

/** The keys that the first start creates. */
export type ServiceKeyName = "cookie-keys" | "client-secret-key";

export interface StoredServiceKey {
  readonly name: ServiceKeyName;
  /** Sealed with its name as the context. */
  readonly sealed: string;
}

export const SERVICE_KEY: Kind<StoredServiceKey> = defineKind<StoredServiceKey>({
  name: "service-key",
  holds: "a key of the service, sealed with `keys.secrets`",
  key: "its name",
  keyOf: ({ name }) => name,
  sealed: ({ name, sealed }, replace) => ({ name, sealed: replace(name, sealed) }),
  store: "storage",
  exported: true,
  afterRestore: "kept",
  afterReset: "removed",
  personal: undefined,
});

/** Kinds that most account changes read and few changes write. */
export const SHARED_KINDS: readonly EntryKind[] = ["service", "group", "portal"];

/** The accounts whose hash is still to be wrapped. */
export const BY_SALTED_SHA: Pick<Query, "kind" | "index" | "at"> = ACCOUNT.where("salted-sha", ALL);

/** All accounts, ordered by their numbers. */
export const BY_NUMBER: Pick<Query, "kind" | "index" | "at"> = ACCOUNT.where("number", ALL);
