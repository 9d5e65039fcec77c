/**
 * Writes records into the tables of an empty storage, past its commits: the index entries of a million accounts take hours
 * one by one, and minutes in their order.
 */
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
  parent: number | null,
  entries: string | null,
];

/** Numbers the rows from 1. */
function rowsMaker(): (family: readonly RecordData[]) => Row[] {
  let last = 0;
  return (family) => {
    const first = last + 1;
    return family.map(({ kind, key, value, parent, index = [] }) => [
      (last += 1),
      kind,
      key,
      JSON.stringify(value),
      "filled",
      parent === undefined ? null : first,
      index.length === 0 ? null : JSON.stringify(index),
    ]);
  };
}

/** @param file a database that the service has created, and that nobody else has open. */
export function sqliteBulk(file: string): Bulk {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = DELETE");
  database.exec(
    "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; BEGIN",
  );
  const insert = database.prepare(
    "INSERT INTO records (id, kind, key, value, version, parent, entries) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  const rowsOf = rowsMaker();
  return {
    async add(family) {
      for (const row of rowsOf(family)) insert.run(...row);
    },
    async finish() {
      database.exec(`
        INSERT INTO entries (kind, name, at, place, record)
        SELECT r.kind, e.value ->> 'name', e.value ->> 'at', e.value ->> 'order', r.id
        FROM records AS r, json_each(r.entries) AS e WHERE r.entries IS NOT NULL ORDER BY 1, 2, 3, 4, 5;
        COMMIT`);
      database.exec("PRAGMA journal_mode = WAL");
      database.close();
    },
  };
}

/** Rows of one statement. */
const TOGETHER = 2_000;
const TYPES = ["bigint", "text", "text", "text", "text", "bigint", "text"] as const;

/** @param url of a database whose tables the service has created. */
export async function postgresBulk(url: string): Promise<Bulk> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(
    "SET synchronous_commit = off; SET work_mem = '512MB'; SET maintenance_work_mem = '512MB'",
  );
  const rowsOf = rowsMaker();
  let waiting: Row[] = [];
  const send = async (): Promise<void> => {
    const rows = waiting;
    waiting = [];
    const arrays = TYPES.map((type, column) => `$${column + 1}::${type}[]`).join(", ");
    await client.query({
      name: "fill",
      text: `INSERT INTO sign_in_records (id, kind, key, value, version, parent, entries) OVERRIDING SYSTEM VALUE
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
        WHERE r.entries IS NOT NULL ORDER BY 1, 2, 3, 4, 5`);
      await client.query("SELECT setval('sign_in_records_id_seq', (SELECT max(id) FROM sign_in_records))");
      await client.query("VACUUM ANALYZE sign_in_records, sign_in_entries");
      await client.end();
    },
  };
}
