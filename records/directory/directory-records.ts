/**
 * Reads the directory: accounts, clients, and services, groups and portals. `accounts/` changes them, in transactions.
 * Removing an entry takes two, because "nothing refers to it" can't be a condition.
 */
import { StillReferenced } from "../../core/errors.ts";
import { TOKEN, type TokenRecord } from "../administration/token-kinds.ts";
import type { AuditEvent, AuditStore } from "../audit/audit-event.ts";
import type { Records, RefTo, Transaction } from "../records.ts";
import type {
  AccountRecord,
  ApiRecord,
  ClientRecord,
  EntryKind,
  EntryRecord,
  StoredLogo,
} from "./directory.ts";
import {
  ACCOUNT,
  API,
  BY_NUMBER,
  CLIENT_LOGO,
  CLIENT,
  type Closing,
  ENTRIES,
  SIGN_IN_NAME,
  USER_ID,
  REMOVED_CLIENT,
  SERVICE_KEY,
  type ServiceKeyName,
  type StoredApi,
  type StoredEntry,
} from "./directory-kinds.ts";
import { IDENTITY, type StorageIdentity } from "../storage-identity.ts";
import { UNFINISHED_COPY, type UnfinishedCopy } from "../formats/format.ts";
import type { Kind } from "../kinds.ts";

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface DirectoryRecords {
  findAccount(sub: string): Promise<AccountRecord | undefined>;
  /** @param name a normalized sign-in name. */
  findAccountByName(name: string): Promise<AccountRecord | undefined>;
  findAccountByNumber(userId: number): Promise<AccountRecord | undefined>;
  /** Accounts after the account `after`, ordered by `user_id`, at most `limit`. */
  listAccounts(page: {
    readonly after?: number | undefined;
    readonly limit: number;
  }): Promise<AccountRecord[]>;
  /** A number larger than all that were returned before. Gaps are allowed. */
  nextUserId(): Promise<number>;
  /** Moves the counter past `userId`, so that it never returns it. */
  passUserId(userId: number): Promise<void>;

  findClient(clientId: string): Promise<ClientRecord | undefined>;
  findLogo(clientId: string): Promise<StoredLogo | undefined>;
  /** Ordered by `client_id`. */
  listClients(): Promise<ClientRecord[]>;

  findEntry(kind: EntryKind, key: string): Promise<EntryRecord | undefined>;
  /** In the order of `refs`. */
  findEntries(refs: readonly RefTo<StoredEntry>[]): Promise<readonly (StoredEntry | undefined)[]>;
  /** Ordered by `key`. */
  listEntries(kind: EntryKind): Promise<EntryRecord[]>;

  findApi(identifier: string): Promise<ApiRecord | undefined>;
  /** Ordered by identifier. */
  listApis(): Promise<ApiRecord[]>;
  /** Whether there is an API. */
  hasApis(): Promise<boolean>;

  /** Whether a client with this id was removed. */
  wasRemoved(clientId: string): Promise<boolean>;
  /** The sealed key with this name. */
  findServiceKey(name: ServiceKeyName): Promise<string | undefined>;
  /** Stores a sealed key unless there is one; returns the stored one. */
  ensureServiceKey(name: ServiceKeyName, sealed: string): Promise<string>;
  /** The command that has begun to write this storage and not finished; `undefined` if there is none. */
  unfinished(): Promise<"copy" | "renewal" | "reset" | undefined>;
}

/** The counter that numbers the accounts. */
const COUNTER = "user-id";

const byKey = (one: string, other: string): number => (one < other ? -1 : 1);

/** The record without the mark of a removal. */
export function withoutMark<T extends Closing>({
  closingUntil: _closing,
  ...record
}: T): Omit<T, "closingUntil"> {
  return record;
}

export function createDirectoryRecords(records: Records): DirectoryRecords {
  async function findAccount(sub: string): Promise<AccountRecord | undefined> {
    return (await records.find(ACCOUNT.ref(sub)))?.value;
  }

  return {
    findAccount,
    async findAccountByName(name) {
      const [found] = await records.store.get([SIGN_IN_NAME.ref(name)], { withParents: true });
      return found?.parent?.value as AccountRecord | undefined;
    },
    async findAccountByNumber(userId) {
      const owner = await records.find(USER_ID.ref(String(userId)));
      return owner && findAccount(owner.value.sub);
    },
    async listAccounts({ after, limit }) {
      if (limit <= 0) return [];
      const from = after === undefined ? undefined : after + 1;
      const page = await records.list<AccountRecord>({ ...BY_NUMBER, from }, limit);
      return page.map(({ value }) => value);
    },
    nextUserId: () => records.store.next(COUNTER),
    async passUserId(userId) {
      await records.store.next(COUNTER, userId);
    },

    findClient: async (clientId) => (await records.find(CLIENT.ref(clientId)))?.value,
    findLogo: async (clientId) => (await records.find(CLIENT_LOGO.ref(clientId)))?.value,
    async listClients() {
      const all = await records.all<ClientRecord>("client");
      return all.toSorted((one, other) => byKey(one.client_id, other.client_id));
    },

    async findEntry(kind, key) {
      const found = await records.find(ENTRIES[kind].ref(key));
      return found && withoutMark(found.value);
    },
    async findEntries(refs) {
      const found = refs.length === 0 ? [] : await records.store.get(refs);
      return found.map((entry) => entry?.value as StoredEntry | undefined);
    },
    async listEntries(kind) {
      const all = await records.all<StoredEntry>(kind);
      return all.map(withoutMark).toSorted((one, other) => byKey(one.key, other.key));
    },

    async findApi(identifier) {
      const found = await records.find(API.ref(identifier));
      return found && withoutMark(found.value);
    },
    async listApis() {
      const all = await records.all<StoredApi>("api");
      return all.map(withoutMark).toSorted((one, other) => byKey(one.identifier, other.identifier));
    },
    hasApis: async () => (await records.store.scan("api", undefined, 1)).records.length > 0,

    wasRemoved: async (clientId) => (await records.find(REMOVED_CLIENT.ref(clientId))) !== undefined,
    findServiceKey: async (name) => (await records.find(SERVICE_KEY.ref(name)))?.value.sealed,
    ensureServiceKey: (name, sealed) =>
      records.transact(async (tx) => {
        const stored = await tx.get(SERVICE_KEY.ref(name));
        if (stored !== undefined) return stored.sealed;
        tx.put(SERVICE_KEY.record({ name, sealed }));
        return sealed;
      }),
    async unfinished() {
      const [copy, identity] = await records.get<[UnfinishedCopy, StorageIdentity]>([
        UNFINISHED_COPY.ref("current"),
        IDENTITY,
      ]);
      if (copy !== undefined) return "copy";
      return identity?.value.unfinished;
    },
  };
}

/** How many references an error names. */
const MAX_NAMED_REFERENCES = 10;
/** How long a removal may take. After that the entry can be referred to again. */
const CLOSING_MS = 4_000;

/** What can be removed from the directory once nothing refers to it. */
type Removable = EntryKind | "api";

/** The references to a record, as `StillReferenced` lists them. Clients, services and APIs are few, so all of them are read. */
async function references(records: Records, kind: Removable, key: string): Promise<string[]> {
  if (kind === "group") {
    const services = await records.all<StoredEntry>("service");
    return services.filter(({ group }) => group === key).map((service) => `service:${service.key}`);
  }
  const clients = kind === "portal" ? [] : await records.all<ClientRecord>("client");
  const clientIds = clients
    .filter(({ service, apis = {} }) => (kind === "api" ? Object.hasOwn(apis, key) : service === key))
    .map(({ client_id }) => `client:${client_id}`);
  if (kind === "api") return clientIds;
  const apis = kind === "service" ? await records.all<StoredApi>("api") : [];
  const accounts = await records.list<AccountRecord>(ACCOUNT.where(kind, key), MAX_NAMED_REFERENCES);
  return [
    ...clientIds,
    ...apis.filter(({ service }) => service === key).map(({ identifier }) => `api:${identifier}`),
    ...accounts.map(({ value }) => `account:${value.sub}`),
  ];
}

/** The administration tokens that are limited to a service. While it is closed, no other one is made. */
async function tokensOf(records: Records, key: string): Promise<readonly string[]> {
  const all = await records.all<TokenRecord>(TOKEN.name);
  return all.filter(({ service }) => service === key).map(({ id }) => id);
}

/**
 * Closes the record, so that nothing new can refer to it, looks for references, and then removes it or opens it again. A
 * process that dies in between leaves it closed for a few seconds.
 *
 * @returns `false` if there is none.
 * @throws StillReferenced naming at most ten references: `client:ID`, `service:KEY`, `api:IDENTIFIER`, `account:SUB`.
 */
export async function removeEntry(
  { records, audit }: { readonly records: Records; readonly audit: Pick<AuditStore, "recordOf"> },
  kind: Removable,
  key: string,
  event: AuditEvent,
): Promise<boolean> {
  const own = (kind === "api" ? API : ENTRIES[kind]) as Kind<Closing>;
  const ref = own.ref(key);
  async function endToken(tx: Transaction, id: string): Promise<void> {
    const token = await tx.get(TOKEN.ref(id));
    if (token === undefined || token.ended_at !== null) return;
    const { role, service } = token;
    tx.put(TOKEN.record({ ...token, ended_at: Math.floor(records.clock.now() / 1000) }));
    tx.create(audit.recordOf({ ...event, action: "token.ended", subject: id, detail: { role, service } }));
  }

  for (;;) {
    const closingUntil = records.clock.now() + CLOSING_MS;
    const entry = await records.transact(async (tx) => {
      const found = await tx.get(ref);
      if (found !== undefined) tx.put(own.record({ ...found, closingUntil }));
      return found && withoutMark(found);
    });
    if (entry === undefined) return false;
    const found = await references(records, kind, key);
    const limited = kind === "service" ? await tokensOf(records, key) : [];
    const isDone = await records.transact(
      async (tx) => {
        const closed = await tx.get(ref);
        // Somebody has removed or replaced the entry since, and something may refer to the new one.
        if (closed?.closingUntil !== closingUntil) return false;
        if (found.length > 0) tx.put(own.record(entry));
        else {
          tx.remove(ref);
          tx.create(audit.recordOf(event));
          // A service that gets this key later is another one.
          for (const id of limited) await endToken(tx, id);
        }
        return true;
      },
      { deadline: closingUntil },
    );
    if (!isDone) continue;
    if (found.length > 0) throw new StillReferenced(`${kind} ${key}`, found.slice(0, MAX_NAMED_REFERENCES));
    return true;
  }
}
