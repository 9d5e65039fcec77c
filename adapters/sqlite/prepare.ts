/** Makes a database file ready: creates its tables, or carries over what version 0.1 has written. */
import type { DatabaseSync } from "node:sqlite";
import { ConfigurationError } from "../errors.ts";
import type { V01Options } from "../v01.ts";
import { DEFAULT_WAIT } from "./faults.ts";
import { createRecordTables } from "./record-rows.ts";
import { migrateV01 } from "./v01.ts";

/** Marks the file as ours: "SIGN" in ASCII. */
const APPLICATION_ID = 0x5349474e;

/** `user_version` of a file with records. Version 0.1 refuses every number above its own. */
const LAYOUT = 4;

/** Milliseconds in which another process may carry over a file of version 0.1, however large. */
const MIGRATION_WAIT = 3_600_000;

function oldVersion(): ConfigurationError {
  return new ConfigurationError([
    "config.storage: this database was written by version 0.1; run sign-in-service migrate",
  ]);
}

function pragma(database: DatabaseSync, name: string): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name]);
}

/** @throws ConfigurationError when the file is not ours or from a later version. */
function layoutOf(database: DatabaseSync): number {
  const layout = pragma(database, "user_version");
  const tables = Number(database.prepare("SELECT count(*) AS n FROM sqlite_schema").get()?.["n"]);
  const isForeign = pragma(database, "application_id") !== APPLICATION_ID && (layout !== 0 || tables !== 0);
  if (isForeign) {
    throw new ConfigurationError(["config.storage: this file is another program's SQLite database"]);
  }
  if (layout > LAYOUT) {
    throw new ConfigurationError(["config.storage: this database was written by a later version"]);
  }
  return layout;
}

/** How long a start waits for other processes with this file. */
export function patienceFor(database: DatabaseSync): number {
  const layout = pragma(database, "user_version");
  return layout > 0 && layout < LAYOUT ? MIGRATION_WAIT : DEFAULT_WAIT;
}

/**
 * Creates the tables, or makes records of what version 0.1 has kept: all of it in one transaction. Several processes
 * may do so at once: all but the first wait for its lock, and find nothing left to do behind it.
 * @param now milliseconds since the epoch: what has expired by then is left behind.
 * @throws ConfigurationError when the file is not ours or from a later version.
 */
export function prepareFile(database: DatabaseSync, v01: V01Options | undefined, now: number): void {
  if (layoutOf(database) === LAYOUT) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    // Read again under the lock: another process may have been first.
    const layout = layoutOf(database);
    if (layout !== LAYOUT) {
      if (layout === 0) createRecordTables(database);
      else if (v01 === undefined) throw oldVersion();
      else migrateV01(database, layout, { ...v01, now, createTables: createRecordTables });
      database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
      database.exec(`PRAGMA user_version = ${LAYOUT}`);
    }
    database.exec("COMMIT");
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}
