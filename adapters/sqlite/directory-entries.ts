/** Services, groups and portals. */
import { StillReferenced, UnknownReference } from "../../lib/errors.ts";
import type { DirectoryStore, EntryKind, EntryRecord } from "../directory.ts";
import type { Connection } from "./connection.ts";
import { RecordCache } from "./record-cache.ts";
import { type Row, stringAt, textAt } from "./rows.ts";
import { toOptionalText, toText } from "./text.ts";

type EntryQuery = (kind: string, key: string) => Row | undefined;
type Entries = Pick<DirectoryStore, "findEntry" | "listEntries" | "putEntry" | "removeEntry">;

/** An error names at most so many references. */
const NAMED_REFERENCES = 10;

/** What may refer to an entry of each kind. */
const REFERENCES: Readonly<Record<EntryKind, string>> = {
  service: `
    SELECT * FROM (SELECT 'client', client_id FROM clients WHERE service = ?1 LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT 'account', sub FROM assignments WHERE service = ?1 LIMIT ?2)`,
  group: "SELECT 'service', key FROM entries WHERE group_key = ?1 LIMIT ?2",
  portal: "SELECT 'account', sub FROM accounts WHERE portal = ?1 LIMIT ?2",
};

function toRecord(row: Row): EntryRecord {
  return JSON.parse(textAt(row, 0));
}

/** The key of an entry in what is remembered. */
function cacheKey(kind: EntryKind, key: string): string {
  return `${kind} ${key}`;
}

function createCache(connection: Connection, byKey: EntryQuery): RecordCache<EntryRecord> {
  return new RecordCache(connection, (name) => {
    const end = name.indexOf(" ");
    const row = byKey(name.slice(0, end), toText(name.slice(end + 1)));
    return row && toRecord(row);
  });
}

function createRemoval(
  connection: Connection,
  cache: RecordCache<EntryRecord>,
): DirectoryStore["removeEntry"] {
  const references = {
    service: connection.all(REFERENCES.service),
    group: connection.all(REFERENCES.group),
    portal: connection.all(REFERENCES.portal),
  };
  const remove = connection.change("DELETE FROM entries WHERE kind = ? AND key = ?");
  return (kind, key) =>
    connection.write(() => {
      const id = toText(key);
      cache.forget(cacheKey(kind, key));
      const found = references[kind](id, NAMED_REFERENCES).slice(0, NAMED_REFERENCES);
      if (found.length > 0) {
        const names = found.map((row) => `${textAt(row, 0)}:${stringAt(row, 1)}`);
        throw new StillReferenced(`${kind} ${key}`, names);
      }
      return remove(kind, id) > 0;
    });
}

/** The services, groups and portals of the directory. */
export function createEntries(connection: Connection): Entries {
  const byKey = connection.first("SELECT record FROM entries WHERE kind = ? AND key = ?");
  const cache = createCache(connection, byKey);
  const all = connection.all("SELECT record FROM entries WHERE kind = ? ORDER BY key");
  const put = connection.change(`
    INSERT INTO entries (kind, key, group_key, record) VALUES (?, ?, ?, ?)
    ON CONFLICT (kind, key) DO UPDATE SET group_key = excluded.group_key, record = excluded.record`);
  return {
    findEntry: (kind, key) => cache.lookUp(cacheKey(kind, key)),
    listEntries: (kind) => connection.read(() => all(kind).map(toRecord)),
    async putEntry(kind, record) {
      const group = toOptionalText(record.group);
      const row = [kind, toText(record.key), group, JSON.stringify(record)] as const;
      const label = `group ${String(record.group)}`;
      await connection.write(() => {
        cache.forget(cacheKey(kind, record.key));
        if (group !== null && byKey("group", group) === undefined) throw new UnknownReference(label);
        put(...row);
      });
    },
    removeEntry: createRemoval(connection, cache),
  };
}
