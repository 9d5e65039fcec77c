/** Whether a database file is sound. */
import { DatabaseSync } from "node:sqlite";

/** What is wrong with a file. */
export interface Damage {
  /** What SQLite says of it: names of tables and numbers of pages. */
  readonly lines: readonly string[];
  /** Indexes of SQLite that do not fit their tables, and can be made anew. */
  readonly indexes: readonly string[];
}

/** What SQLite says of an index that does not fit its table. */
const OF_INDEX = /(?:from|in) index (\w+)$/;
/** Milliseconds for which a lock is waited for. */
const PATIENCE = 5_000;

function withFile<T>(path: string, work: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(path, { timeout: PATIENCE });
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
    // A damaged page may end the check itself.
    return [error instanceof Error ? error.message : "the file can't be read"];
  }
}

/** Reads the whole file. @param limit at most about so many lines. */
export function findDamage(path: string, limit: number): Damage {
  const lines = integrityLines(path, limit).filter((line) => line !== "ok");
  const indexes = lines.flatMap((line) => OF_INDEX.exec(line)?.[1] ?? []);
  return { lines: lines.filter((line) => !OF_INDEX.test(line)), indexes: [...new Set(indexes)] };
}

/** Makes indexes of SQLite anew. */
export function makeIndexes(path: string, indexes: readonly string[]): void {
  withFile(path, (database) => {
    for (const name of indexes) database.exec(`REINDEX "${name.replaceAll('"', '""')}"`);
  });
}
