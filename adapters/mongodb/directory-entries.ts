/** Services, groups and portals. */
import type { ClientSession } from "mongodb";
import { StillReferenced } from "../../lib/errors.ts";
import type { AccountRecord, ClientRecord, DirectoryStore, EntryKind, EntryRecord } from "../directory.ts";
import type { Connection } from "./connection.ts";
import type { StoredAccount } from "./directory-account-commit.ts";
import type { StoredClient } from "./directory-clients.ts";
import { createGuards, type Reference } from "./directory-references.ts";
import { toKey } from "./keys.ts";

type Entries = Pick<DirectoryStore, "findEntry" | "listEntries" | "putEntry" | "removeEntry">;

export interface StoredEntry {
  readonly _id: string;
  readonly kind: EntryKind;
  readonly key: string;
  /** Left out when there is none. */
  readonly group?: string;
  /** The {@link EntryRecord} as JSON. */
  readonly json: string;
}

/** An error names at most so many references. */
const NAMED_REFERENCES = 10;

function toRecord({ json }: StoredEntry): EntryRecord {
  return JSON.parse(json);
}

export function toEntryDocument(kind: EntryKind, record: EntryRecord): StoredEntry {
  return {
    _id: toKey(kind, record.key),
    kind,
    key: toKey(record.key),
    ...(record.group === null ? {} : { group: toKey(record.group) }),
    json: JSON.stringify(record),
  };
}

const few = (session: ClientSession) => ({ session, limit: NAMED_REFERENCES });

function accountNames(found: readonly StoredAccount[]): string[] {
  return found.map(({ json }) => `account:${(JSON.parse(json) as AccountRecord).sub}`);
}

/** Finds what refers to an entry of each kind, as errors name it. */
function createReferences(
  connection: Connection,
): Readonly<Record<EntryKind, (key: string, session: ClientSession) => Promise<string[]>>> {
  const clients = connection.collection<StoredClient>("clients");
  const accounts = connection.collection<StoredAccount>("accounts");
  const entries = connection.collection<StoredEntry>("entries");

  return {
    async service(key, session) {
      const own = await clients.find({ service: key }, few(session)).toArray();
      const names = own.map(({ json }) => `client:${(JSON.parse(json) as ClientRecord).client_id}`);
      return [...names, ...accountNames(await accounts.find({ services: key }, few(session)).toArray())];
    },
    async group(key, session) {
      const members = await entries.find({ group: key }, few(session)).toArray();
      return members.map((member) => `service:${toRecord(member).key}`);
    },
    portal: async (key, session) =>
      accountNames(await accounts.find({ portal: key }, few(session)).toArray()),
  };
}

function createRemoval(connection: Connection): DirectoryStore["removeEntry"] {
  const entries = connection.collection<StoredEntry>("entries");
  const references = createReferences(connection);
  const guards = createGuards(connection);
  return (kind, key) =>
    connection.inTransaction(async (session) => {
      const found = await references[kind](toKey(key), session);
      if (found.length > 0) throw new StillReferenced(`${kind} ${key}`, found.slice(0, NAMED_REFERENCES));
      const { deletedCount } = await entries.deleteOne({ _id: toKey(kind, key) }, { session });
      await guards.remove(kind, key, session);
      return deletedCount > 0;
    });
}

/** The services, groups and portals of the directory. */
export function createEntries(connection: Connection): Entries {
  const entries = connection.collection<StoredEntry>("entries");
  const guards = createGuards(connection);
  return {
    async findEntry(kind, key) {
      const found = await connection.run(() => entries.findOne({ _id: toKey(kind, key) }));
      return found === null ? undefined : toRecord(found);
    },
    async listEntries(kind) {
      const all = await connection.run(() => entries.find({ kind }).sort({ key: 1 }).toArray());
      return all.map(toRecord);
    },
    async putEntry(kind, record) {
      const document = toEntryDocument(kind, record);
      const { _id } = document;
      const { key, group } = record;
      const references: Reference[] =
        group === null ? [] : [{ kind: "group", key: group, label: `group ${group}` }];
      await connection.inTransaction(async (session) => {
        const { upsertedCount } = await entries.replaceOne({ _id }, document, { session, upsert: true });
        if (upsertedCount > 0) await guards.create(kind, key, session);
        await guards.require(references, session);
      });
    },
    removeEntry: createRemoval(connection),
  };
}
