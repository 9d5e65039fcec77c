/** The sizes of tables and indexes, and what of them belongs to each kind of record. */
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";

/** A table or an index. */
export interface Structure {
  readonly name: string;
  readonly bytes: number;
  /** Pages from the root to a leaf; missing for a table that is not a tree. */
  readonly depth?: number;
}

/** All records of a kind. */
export interface OfKind {
  readonly records: number;
  /** With their places in all indexes. */
  readonly bytes: number;
}

export interface Structures {
  readonly structures: readonly Structure[];
  readonly kinds: Readonly<Record<string, OfKind>>;
}

type Row = Readonly<Record<string, unknown>>;
type Query = (sql: string) => Row[] | Promise<Row[]>;

/** How much of a structure a kind takes, in proportion to these sums. */
type Weight = "n" | "row" | "key" | "expiry" | "parent" | "entry";

/** What the structures are called in each storage, and in the tables of the documentation. */
const STRUCTURES: readonly (readonly [
  name: string,
  weight: Weight,
  sqlite: string | undefined,
  postgres: string,
])[] = [
  ["Records", "row", "records", "sign_in_records"],
  ["Records by id", "n", undefined, "sign_in_records_pkey"],
  ["Records by kind and key", "key", "sqlite_autoindex_records_1", "sign_in_records_kind_key_key"],
  ["Records by expiry", "expiry", "records_expiry", "sign_in_records_expiry"],
  ["Records by parent", "parent", "records_parent", "sign_in_records_parent"],
  ["Index entries", "entry", undefined, "sign_in_entries"],
  ["Index entries by place", "entry", "entries", "sign_in_entries_pkey"],
];

/** `+` keeps SQLite from reading the table in the order of an index. */
const weights = (prefix: string, kind: string): string => `
  SELECT ${kind} AS kind, count(*) AS n,
    sum(length(kind) + length(key) + length(value) + length(version) + coalesce(length(entries), 0) + 20) AS row,
    sum(length(kind) + length(key) + 8) AS key,
    sum(CASE WHEN expires_at IS NULL THEN 0 ELSE 1 END) AS expiry,
    sum(CASE WHEN parent IS NULL THEN 0 ELSE 1 END) AS parent
  FROM ${prefix}records GROUP BY 1`;

const entryWeights = (prefix: string): string =>
  `SELECT kind, sum(length(kind) + length(name) + length(at) + 16) AS entry FROM ${prefix}entries GROUP BY 1`;

async function measured(
  query: Query,
  prefix: string,
  kind: string,
  sizes: ReadonlyMap<string, Pick<Structure, "bytes" | "depth">>,
): Promise<Structures> {
  const entries = new Map(
    (await query(entryWeights(prefix))).map((row) => [row["kind"], Number(row["entry"])]),
  );
  const rows = await query(weights(prefix, kind));
  const structures: Structure[] = [];
  const bytes = new Map<unknown, number>();
  for (const [name, weight, sqlite, postgres] of STRUCTURES) {
    const size = sizes.get(prefix === "" ? (sqlite ?? "") : postgres);
    if (size === undefined) continue;
    structures.push({ name, ...size });
    const weightOf = (row: Row): number =>
      weight === "entry" ? (entries.get(row["kind"]) ?? 0) : Number(row[weight]);
    const all = rows.reduce((sum, row) => sum + weightOf(row), 0);
    for (const row of rows)
      bytes.set(row["kind"], (bytes.get(row["kind"]) ?? 0) + (size.bytes * weightOf(row)) / all);
  }
  const kinds = rows.map((row): [string, OfKind] => [
    String(row["kind"]),
    { records: Number(row["n"]), bytes: Math.round(bytes.get(row["kind"]) ?? 0) },
  ]);
  return { structures, kinds: Object.fromEntries(kinds) };
}

/** Reads the whole file. */
export async function sqliteStructures(file: string): Promise<Structures> {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 10_000 });
  try {
    const pages = database.prepare(
      `SELECT name, sum(pgsize) AS bytes, max(length(path) - length(replace(path, '/', ''))) AS depth FROM dbstat GROUP BY name`,
    );
    const sizes = pages
      .all()
      .map(
        (row) => [String(row["name"]), { bytes: Number(row["bytes"]), depth: Number(row["depth"]) }] as const,
      );
    return await measured((sql) => database.prepare(sql).all(), "", "+kind", new Map(sizes));
  } finally {
    database.close();
  }
}

export async function postgresStructures(url: string): Promise<Structures> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("CREATE EXTENSION IF NOT EXISTS pageinspect");
    const { rows } = await client.query<{ name: string; bytes: string; depth: string | null }>(
      `SELECT relname AS name, pg_table_size(oid) AS bytes,
         CASE relkind WHEN 'i' THEN (bt_metap(relname)).level + 1 END AS depth
       FROM pg_class WHERE relname LIKE 'sign_in_records%' OR relname LIKE 'sign_in_entries%'`,
    );
    const sizes = rows.map(
      ({ name, bytes, depth }) =>
        [name, { bytes: Number(bytes), ...(depth !== null && { depth: Number(depth) }) }] as const,
    );
    const query = async (sql: string): Promise<Row[]> => (await client.query<Row>(sql)).rows;
    return await measured(query, "sign_in_", "kind", new Map(sizes));
  } finally {
    await client.end();
  }
}
