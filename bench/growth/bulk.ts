/**
 * Writes records into the tables of a storage, past its commits, which take hours for a million accounts. Rows are inserted in the order in
 * which they are given, and their index entries in the order of the rows, so that the pages are as full as those of a storage that has grown.
 */
import { randomUUID } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import type { RecordData } from "../../adapters/record-store.ts";

/** Fills one storage. */
export interface Bulk {
  /** Each record is a child of the first, if it has a parent. */
  add(family: readonly RecordData[]): Promise<void>;
  /** Makes the index entries of all records. */
  finish(): Promise<void>;
}

/** A row of the records of both storages. */
type Row = readonly [
  id: number,
  kind: string,
  key: string,
  value: string,
  version: string,
  expiresAt: number | null,
  parent: number | null,
  entries: string | null,
];

/** @param taken the highest id that is taken. */
function rowsMaker(taken: number): (family: readonly RecordData[]) => Row[] {
  let last = taken;
  return (family) => {
    const first = last + 1;
    return family.map(({ kind, key, value, parent, expiresAt, index = [] }) => [
      (last += 1),
      kind,
      key,
      JSON.stringify(value),
      randomUUID(),
      expiresAt ?? null,
      parent === undefined ? null : first,
      index.length === 0 ? null : JSON.stringify(index),
    ]);
  };
}

/** @param file a database that the service has created, and that nothing else has open. */
export function sqliteBulk(file: string): Bulk {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = DELETE");
  database.exec(
    "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; BEGIN",
  );
  const insert = database.prepare(
    "INSERT INTO records (id, kind, key, value, version, expires_at, parent, entries) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const last = Number(database.prepare("SELECT coalesce(max(id), 0) AS id FROM records").get()?.["id"]);
  const rowsOf = rowsMaker(last);
  return {
    async add(family) {
      for (const row of rowsOf(family)) insert.run(...row);
    },
    async finish() {
      database.exec(`
        INSERT INTO entries (kind, name, at, place, record)
        SELECT r.kind, e.value ->> 'name', e.value ->> 'at', e.value ->> 'order', r.id
        FROM records AS r, json_each(r.entries) AS e WHERE r.id > ${last} AND r.entries IS NOT NULL ORDER BY r.id;
        COMMIT`);
      database.exec("PRAGMA journal_mode = WAL");
      database.close();
    },
  };
}

/** Rows of one statement. */
const TOGETHER = 2_000;
const TYPES = ["bigint", "text", "text", "text", "text", "float8", "bigint", "text"] as const;

/** @param url of a database whose tables the service has created. */
export async function postgresBulk(url: string): Promise<Bulk> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(
    "SET synchronous_commit = off; SET work_mem = '512MB'; SET maintenance_work_mem = '512MB'",
  );
  const { rows: highest } = await client.query("SELECT coalesce(max(id), 0)::int AS id FROM sign_in_records");
  const last = (highest[0] as { id: number }).id;
  const rowsOf = rowsMaker(last);
  let waiting: Row[] = [];
  const send = async (): Promise<void> => {
    const rows = waiting;
    waiting = [];
    const arrays = TYPES.map((type, column) => `$${column + 1}::${type}[]`).join(", ");
    await client.query({
      name: "fill",
      text: `INSERT INTO sign_in_records (id, kind, key, value, version, expires_at, parent, entries) OVERRIDING SYSTEM VALUE
        SELECT * FROM unnest(${arrays})`,
      values: TYPES.map((_type, column) => rows.map((row) => row[column])),
    });
  };
  return {
    async add(family) {
      waiting.push(...rowsOf(family));
      if (waiting.length >= TOGETHER) await send();
    },
    async finish() {
      if (waiting.length > 0) await send();
      await client.query(`
        INSERT INTO sign_in_entries (kind, name, at, place, record)
        SELECT r.kind, e.name, e.at, e."order", r.id
        FROM sign_in_records AS r CROSS JOIN LATERAL json_to_recordset(r.entries::json) AS e (name text, at text, "order" bigint)
        WHERE r.id > ${last} AND r.entries IS NOT NULL ORDER BY r.id`);
      await client.query("SELECT setval('sign_in_records_id_seq', (SELECT max(id) FROM sign_in_records))");
      await client.query("VACUUM ANALYZE sign_in_records, sign_in_entries");
      await client.end();
    },
  };
}
