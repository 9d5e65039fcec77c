/** The database file: creates its tables, and finds damage. */
import { DatabaseSync } from "node:sqlite";
import { ConfigurationError, StorageMissing } from "../../core/errors.ts";

/**
 * A record keeps its `id` when it is replaced, and its children refer to that id, so they never belong to a later
 * record with the same key. `records.entries` repeats the index entries of the record, so that a write knows which
 * ones to delete.
 */
const SCHEMA = `
CREATE TABLE IF NOT EXISTS records (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  version TEXT NOT NULL,
  expires_at REAL,
  parent INTEGER,
  entries TEXT,
  UNIQUE (kind, key)
) STRICT;
CREATE INDEX IF NOT EXISTS records_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS records_parent ON records (parent) WHERE parent IS NOT NULL;
CREATE TABLE IF NOT EXISTS entries (
  kind TEXT,
  name TEXT,
  at TEXT,
  place INTEGER,
  record INTEGER,
  PRIMARY KEY (kind, name, at, place, record)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS record_counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`;

/** Creates the tables. */
export function createRecordTables(database: DatabaseSync): void {
  database.exec(SCHEMA);
}

/** Marks the file as ours: "SIGN" in ASCII. */
const APPLICATION_ID = 0x5349474e;

/** The number of the layout of the tables, in `user_version`. */
const LAYOUT = 4;

function pragma(database: DatabaseSync, name: string): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name]);
}

/** Whether the file has our tables. @throws ConfigurationError when it is not ours, or another version wrote it. */
function hasTables(database: DatabaseSync): boolean {
  const layout = pragma(database, "user_version");
  const tables = Number(database.prepare("SELECT count(*) AS n FROM sqlite_schema").get()?.["n"]);
  const isForeign = pragma(database, "application_id") !== APPLICATION_ID && (layout !== 0 || tables !== 0);
  if (isForeign) {
    throw new ConfigurationError(["config.storage: this file is another program's SQLite database"]);
  }
  if (layout === 0 || layout === LAYOUT) return layout === LAYOUT;
  const writer = layout > LAYOUT ? "a later version" : "an earlier version";
  throw new ConfigurationError([
    `config.storage: ${writer} wrote this database, in layout ${layout}; this version reads layout ${LAYOUT} only. Use that version, or start with an empty storage`,
  ]);
}

/** @throws StorageMissing for an empty file; ConfigurationError as {@link prepareFile}. */
export function requireTables(database: DatabaseSync): void {
  if (!hasTables(database)) throw new StorageMissing("the database file is empty");
}

/**
 * Creates the tables in one transaction. Several processes may start at the same time: all but the first wait for its
 * lock, and then find nothing left to do.
 * @throws ConfigurationError when the file belongs to another program or another version.
 */
export function prepareFile(database: DatabaseSync): void {
  if (hasTables(database)) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    // Read again under the lock: another process may have been first.
    if (!hasTables(database)) {
      createRecordTables(database);
      database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
      database.exec(`PRAGMA user_version = ${LAYOUT}`);
    }
    database.exec("COMMIT");
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

/** The damage of a file. */
export interface Damage {
  /** Messages of SQLite, with names of tables and numbers of pages. */
  readonly lines: readonly string[];
  /** Indexes of SQLite that don't match their tables and can be rebuilt. */
  readonly indexes: readonly string[];
}

/** SQLite's message about an index that does not match its table. */
const OF_INDEX = /(?:from|in) index (\w+)$/;
const LOCK_TIMEOUT_MS = 5_000;

function withFile<T>(path: string, work: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(path, { timeout: LOCK_TIMEOUT_MS });
  try {
    return work(database);
  } finally {
    database.close();
  }
}

function integrityLines(path: string, limit: number): string[] {
  try {
    return withFile(path, (database) =>
      database
        .prepare(`PRAGMA integrity_check(${Math.trunc(limit)})`)
        .all()
        .map((row) => String(row["integrity_check"])),
    );
  } catch (error) {
    // A damaged page may make the check itself fail.
    return [error instanceof Error ? error.message : "the file can't be read"];
  }
}

/**
 * Reads the whole file.
 * @param limit approximately how many lines to return at most.
 */
export function findDamage(path: string, limit: number): Damage {
  const lines = integrityLines(path, limit).filter((line) => line !== "ok");
  const indexes = lines.flatMap((line) => OF_INDEX.exec(line)?.[1] ?? []);
  return { lines: lines.filter((line) => !OF_INDEX.test(line)), indexes: [...new Set(indexes)] };
}

/** Rebuilds indexes of SQLite. */
export function rebuildIndexes(path: string, indexes: readonly string[]): void {
  withFile(path, (database) => {
    for (const name of indexes) database.exec(`REINDEX "${name.replaceAll('"', '""')}"`);
  });
}
