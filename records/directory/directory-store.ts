/**
 * The directory of a service in the record store: clients, services, groups, portals and settings, and the accounts of
 * `accounts.ts`. An entry can only be removed while nothing refers to it.
 */
import type { ClientRecord, DirectoryStore, EntryKind, StoredLogo } from "./directory.ts";
import {
  AlreadyExists,
  IdentifierTaken,
  StillReferenced,
  UnknownReference,
  VersionConflict,
} from "../../core/errors.ts";
import type { AuditEvent, AuditStore } from "../audit/audit-event.ts";
import type { Positions } from "../deliveries/add-deliveries.ts";
import type { LaneAccess } from "../deliveries/lane-access.ts";
import { Changes, type Read, type Records } from "../records.ts";
import { createAccounts } from "./accounts.ts";
import {
  type IdentifierOwner,
  accountIn,
  accountRef,
  CLIENT_LOGO,
  clientRecord,
  clientRef,
  entryRecord,
  entryRef,
  identifierRecord,
  isOpen,
  type StoredEntry,
  REFERRING,
  type Setting,
  settingRef,
} from "./directory-kinds.ts";

type Clients = Pick<DirectoryStore, "findClient" | "findLogo" | "listClients" | "commitClient">;
type Settings = Pick<DirectoryStore, "ensureSetting" | "findSetting">;
type Entries = Pick<DirectoryStore, "findEntry" | "listEntries" | "putEntry" | "removeEntry">;

/** How many references an error names. */
const NAMED_REFERENCES = 10;
/** Milliseconds that a removal may take. After that the entry can be referred to again. */
const CLOSING = 4_000;

const byKey = (one: string, other: string): number => (one < other ? -1 : 1);

type Audit = Pick<AuditStore, "recordOf">;

function createClients(records: Records, { recordOf }: Audit): Clients {
  async function commitOnce(change: Parameters<DirectoryStore["commitClient"]>[0]): Promise<void> {
    const { client_id, expectedVersion, record, logo, audit } = change;
    const service = record?.service ?? null;
    const refs = [clientRef(client_id), accountRef(client_id), entryRef("service", service ?? "")];
    const [client, reserved, entry] = await records.get<[ClientRecord, IdentifierOwner, StoredEntry]>(refs);
    if (client?.value.version !== expectedVersion) {
      if (expectedVersion === undefined) throw new AlreadyExists(`client ${client_id}`);
      throw new VersionConflict("the client was changed in between");
    }
    const changes = new Changes();
    if (record === undefined) {
      if (client !== undefined) changes.delete(clientRef(client_id), client);
      if (accountIn(reserved?.value) === undefined) changes.drop(accountRef(client_id));
    } else {
      if (client === undefined && accountIn(reserved?.value) !== undefined) {
        throw new IdentifierTaken("an account with this sub");
      }
      if (service !== null) {
        if (!isOpen(entry, records.clock)) throw new UnknownReference("the client's service");
        changes.expect(entryRef("service", service), entry);
      }
      changes.write(clientRecord(record), client);
      if (client === undefined) changes.write(identifierRecord(client_id), reserved);
      if (logo === null) changes.drop(CLIENT_LOGO.ref(client_id));
      else if (logo !== undefined) changes.add(CLIENT_LOGO.record(logo));
    }
    if (audit !== undefined) changes.add(recordOf(audit));
    await records.commit(changes);
  }

  return {
    findClient: async (clientId) => (await records.find<ClientRecord>(clientRef(clientId)))?.value,
    findLogo: async (clientId) => (await records.find<StoredLogo>(CLIENT_LOGO.ref(clientId)))?.value,
    async listClients() {
      const all = await records.all<ClientRecord>("client");
      return all.toSorted((one, other) => byKey(one.client_id, other.client_id));
    },
    commitClient(change) {
      // The caller may change its objects before everything is written.
      const copy = structuredClone(change);
      return records.retry(() => commitOnce(copy));
    },
  };
}

function createEntries(records: Records, { recordOf }: Audit): Entries {
  const find = (kind: EntryKind, key: string): Promise<Read<StoredEntry> | undefined> =>
    records.find<StoredEntry>(entryRef(kind, key));

  /** The references to the entry, as `StillReferenced` lists them. */
  async function references(kind: EntryKind, key: string): Promise<string[]> {
    const queries = REFERRING[kind](key).map((where) => Object.assign(where, { limit: NAMED_REFERENCES }));
    const pages = await records.store.list(queries);
    const named = pages.flatMap((page) =>
      page.records.map((record) => {
        const { sub, client_id, key: service } = record.value as Readonly<Record<string, string | undefined>>;
        return `${record.kind}:${sub ?? client_id ?? service}`;
      }),
    );
    return named.slice(0, NAMED_REFERENCES);
  }

  /**
   * Closes the entry, so that nothing new can refer to it, looks for references, and then removes or reopens it. A
   * process that dies in between leaves it closed for a few seconds.
   */
  async function removeOnce(kind: EntryKind, key: string, audit: AuditEvent | undefined): Promise<boolean> {
    const open = await find(kind, key);
    if (open === undefined) return false;
    const { closingUntil: _closed, ...entry } = open.value;
    const closingUntil = records.clock.now() + CLOSING;
    const closing = new Changes();
    closing.write(entryRecord(kind, { ...entry, closingUntil }), open);
    await records.commit(closing);
    const closed = await find(kind, key);
    const found = await references(kind, key);
    const changes = new Changes();
    if (closed !== undefined) {
      if (found.length > 0) changes.write(entryRecord(kind, entry), closed);
      else {
        changes.delete(entryRef(kind, key), closed);
        if (audit !== undefined) changes.add(recordOf(audit));
      }
    }
    await records.commit(changes, { deadline: closingUntil });
    if (found.length > 0) throw new StillReferenced(`${kind} ${key}`, found);
    return true;
  }

  return {
    async findEntry(kind, key) {
      const found = await find(kind, key);
      return found && withoutMark(found.value);
    },
    async listEntries(kind) {
      const all = await records.all<StoredEntry>(kind);
      return all.map(withoutMark).toSorted((one, other) => byKey(one.key, other.key));
    },
    putEntry(kind, record, audit) {
      const copy = structuredClone(record);
      return records.retry(async () => {
        const { key, group } = copy;
        const [entry, parent] = await records.get<[StoredEntry, StoredEntry]>([
          entryRef(kind, key),
          entryRef("group", group ?? ""),
        ]);
        const changes = new Changes();
        if (group !== null) {
          if (!isOpen(parent, records.clock)) throw new UnknownReference(`group ${group}`);
          changes.expect(entryRef("group", group), parent);
        }
        changes.write(entryRecord(kind, copy), entry);
        if (audit !== undefined) changes.add(recordOf(audit(entry === undefined)));
        await records.commit(changes);
      });
    },
    removeEntry: (kind, key, audit) => records.retry(() => removeOnce(kind, key, audit)),
  };
}

function withoutMark({ closingUntil: _closed, ...entry }: StoredEntry): Omit<StoredEntry, "closingUntil"> {
  return entry;
}

/** Settings that the first process stores and all others read. */
function createSettings(records: Records): Settings {
  const find = async (name: string): Promise<string | undefined> =>
    (await records.find<Setting>(settingRef(name)))?.value.value;
  return {
    findSetting: find,
    ensureSetting: (name, value) =>
      records.retry(async () => {
        const stored = await find(name);
        if (stored !== undefined) return stored;
        const changes = new Changes();
        changes.write({ ...settingRef(name), value: { value } }, undefined);
        await records.commit(changes);
        return value;
      }),
  };
}

/** @param audit makes the audit records of changes. @param positions numbers the deliveries of a commit. */
export function createDirectoryStore(
  records: LaneAccess,
  audit: Pick<AuditStore, "recordOf">,
  positions: Positions,
): DirectoryStore {
  return {
    ...createAccounts(records, audit, positions),
    ...createClients(records, audit),
    ...createEntries(records, audit),
    ...createSettings(records),
  };
}
