/**
 * Reads the directory: accounts, clients, and services, groups and portals. `accounts/` changes them, in transactions.
 */
import type { Records } from "../records.ts";
import type { AccountRecord, ClientRecord, EntryKind, EntryRecord, StoredLogo } from "./directory.ts";
import {
  accountIn,
  type AccountReference,
  accountRef,
  BY_NUMBER,
  CLIENT_LOGO,
  clientRef,
  entryRef,
  type IdentifierOwner,
  nameRef,
  numberRef,
  type Setting,
  SETTING,
  settingRef,
  type StoredEntry,
} from "./directory-kinds.ts";

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface DirectoryRecords {
  findAccount(sub: string): Promise<AccountRecord | undefined>;
  /** @param name a normalised sign-in name. */
  findAccountByName(name: string): Promise<AccountRecord | undefined>;
  findAccountByNumber(userId: number): Promise<AccountRecord | undefined>;
  /** Accounts after the account `after`, ordered by `user_id`, at most `limit`. */
  listAccounts(page: { readonly after?: string; readonly limit: number }): Promise<AccountRecord[]>;
  /** A number larger than all that were returned before. Gaps are allowed. */
  nextUserId(): Promise<number>;
  /** Moves the counter past `userId`, so that it never returns it. */
  passUserId(userId: number): Promise<void>;

  findClient(clientId: string): Promise<ClientRecord | undefined>;
  findLogo(clientId: string): Promise<StoredLogo | undefined>;
  /** Ordered by `client_id`. */
  listClients(): Promise<ClientRecord[]>;

  findEntry(kind: EntryKind, key: string): Promise<EntryRecord | undefined>;
  /** Ordered by `key`. */
  listEntries(kind: EntryKind): Promise<EntryRecord[]>;

  /** Stores `value` under `name` unless there is a value; returns the stored one. */
  ensureSetting(name: string, value: string): Promise<string>;
  /** The value that is stored under `name`. */
  findSetting(name: string): Promise<string | undefined>;
}

/** The counter that numbers the accounts. */
const COUNTER = "user-id";

const byKey = (one: string, other: string): number => (one < other ? -1 : 1);

/** The entry without the mark of a removal. */
export function toEntryRecord({ closingUntil: _closing, ...entry }: StoredEntry): EntryRecord {
  return entry;
}

export function createDirectoryRecords(records: Records): DirectoryRecords {
  async function findAccount(sub: string): Promise<AccountRecord | undefined> {
    return accountIn((await records.find<IdentifierOwner>(accountRef(sub)))?.value);
  }

  return {
    findAccount,
    async findAccountByName(name) {
      const owner = await records.find<AccountReference>(nameRef(name));
      return owner && findAccount(owner.value.sub);
    },
    async findAccountByNumber(userId) {
      const owner = await records.find<AccountReference>(numberRef(userId));
      return owner && findAccount(owner.value.sub);
    },
    async listAccounts({ after, limit }) {
      if (limit <= 0) return [];
      const last = after === undefined ? undefined : await findAccount(after);
      if (after !== undefined && last === undefined) return [];
      const bounds = last === undefined ? {} : { from: last.user_id + 1 };
      const page = await records.list<AccountRecord>({ ...BY_NUMBER, ...bounds }, limit);
      return page.map(({ value }) => value);
    },
    nextUserId: () => records.store.next(COUNTER),
    async passUserId(userId) {
      await records.store.next(COUNTER, userId);
    },

    findClient: async (clientId) => (await records.find<ClientRecord>(clientRef(clientId)))?.value,
    findLogo: async (clientId) => (await records.find<StoredLogo>(CLIENT_LOGO.ref(clientId)))?.value,
    async listClients() {
      const all = await records.all<ClientRecord>("client");
      return all.toSorted((one, other) => byKey(one.client_id, other.client_id));
    },

    async findEntry(kind, key) {
      const found = await records.find<StoredEntry>(entryRef(kind, key));
      return found && toEntryRecord(found.value);
    },
    async listEntries(kind) {
      const all = await records.all<StoredEntry>(kind);
      return all.map(toEntryRecord).toSorted((one, other) => byKey(one.key, other.key));
    },

    findSetting: async (name) => (await records.find<Setting>(settingRef(name)))?.value.value,
    ensureSetting: (name, value) =>
      records.transact(async (tx) => {
        const stored = await tx.get(SETTING.ref(name));
        if (stored !== undefined) return stored.value;
        tx.put(SETTING.record({ value }, { key: name }));
        return value;
      }),
  };
}
