/**
 * Reads and writes all records of a database file, each in one transaction, for backups. Services may use the file at
 * the same time: a reader sees a snapshot and blocks nobody, and writes become visible only when they are complete.
 */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../core/clock.ts";
import type { JsonObject, RecordData, Ref } from "../record-store.ts";
import { connect, numberAt, statements } from "./connection.ts";
import { prepareFile } from "./database-file.ts";
import { asFault, whileLocked } from "./faults.ts";
import { createInsert, prepareRecord } from "./record-writes.ts";

/** A stored record without the parts that follow from its value. */
export interface WholeRecord extends Ref {
  readonly value: JsonObject;
  /** Milliseconds since the epoch; `null`: never. */
  readonly expiresAt: number | null;
}

/** All records at one moment. */
export interface FileSnapshot {
  /** How many records there are, the expired ones included. */
  readonly count: number;
  /** The counters and their last values. */
  readonly counters: Readonly<Record<string, number>>;
  /** Every live record, parents before their children. Each row is read when it is asked for. */
  records(): Iterable<WholeRecord>;
  close(): void;
}

type Columns = readonly [string, string, string, number | null];

/**
 * Opens a file that a store has opened before. Until the snapshot is closed, the log of the file grows with every
 * write.
 * @param now milliseconds since the epoch: records that have expired by then are left out.
 * @throws StorageUnavailable
 */
export async function openSnapshot(path: string, now: number): Promise<FileSnapshot> {
  const database = await whileLocked(() => new DatabaseSync(path, { timeout: 0 }));
  try {
    const count = await whileLocked(() => {
      database.exec("PRAGMA query_only = ON; BEGIN");
      try {
        // The first read decides which moment the transaction sees.
        return Number(database.prepare("SELECT count(*) AS n FROM records").get()?.["n"]);
      } catch (error) {
        database.exec("ROLLBACK");
        throw error;
      }
    });
    const counters = database.prepare("SELECT name, value FROM record_counters").all();
    return {
      count,
      counters: Object.fromEntries(counters.map(({ name, value }) => [String(name), Number(value)])),
      records: () => liveRecords(database, now),
      close: () => database.close(),
    };
  } catch (error) {
    database.close();
    throw asFault(error);
  }
}

function* liveRecords(database: DatabaseSync, now: number): Generator<WholeRecord> {
  // In the order of ids: a child is always written after its parent. A record without a kind is a tombstone.
  const select = database.prepare(
    `SELECT r.kind, r.key, r.value, r.expires_at FROM records AS r LEFT JOIN records AS p ON p.id = r.parent
     WHERE r.kind <> '' AND (r.expires_at IS NULL OR r.expires_at > ?1)
       AND (r.parent IS NULL OR (p.kind <> '' AND (p.expires_at IS NULL OR p.expires_at > ?1)))
     ORDER BY r.id`,
  );
  select.setReturnArrays(true);
  try {
    for (const row of select.iterate(now)) {
      const [kind, key, value, expiresAt] = row as unknown as Columns;
      yield { kind, key, value: JSON.parse(value) as JsonObject, expiresAt };
    }
  } catch (error) {
    throw asFault(error);
  }
}

function kindsIn(database: DatabaseSync): string[] {
  const kinds = database.prepare("SELECT DISTINCT kind FROM records WHERE kind <> ''").all();
  return kinds.map(({ kind }) => String(kind));
}

/** The kinds of records in a file. None if there is no file, or it has no tables yet. */
export async function storedKinds(path: string): Promise<string[]> {
  if (!existsSync(path)) return [];
  return whileLocked(() => {
    const database = new DatabaseSync(path, { timeout: 0 });
    try {
      const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'records'").get();
      return table === undefined ? [] : kindsIn(database);
    } finally {
      database.close();
    }
  });
}

/** Writes into the transaction of {@link fillFile}. */
export interface FileFiller {
  /** Writes a record. One whose parent was not written is left out. */
  put(record: RecordData): void;
  /** Sets a counter. */
  count(name: string, value: number): void;
}

export interface FillOptions {
  readonly clock: Clock;
  /** Kinds that a file may contain and still count as empty. Their records are replaced. */
  readonly besides: readonly string[];
  /** Throws the error for a file with records of these kinds. */
  readonly refuse: (kinds: readonly string[]) => never;
}

/**
 * Fills an empty database file in one transaction, and creates the file if it is missing. If `work` fails or the process
 * dies, the database stays empty. Another process that wants to write waits, and gives up after five seconds.
 * @throws StorageUnavailable, and ConfigurationError when the file belongs to another program or another version.
 */
export async function fillFile<T>(
  path: string,
  { clock, besides, refuse }: FillOptions,
  work: (filler: FileFiller) => Promise<T>,
): Promise<T> {
  await (await connect(path, clock, { prepare: prepareFile })).close();
  const database = await whileLocked(() => new DatabaseSync(path, { timeout: 0 }));
  try {
    // The commit is on disk when it returns.
    database.exec("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384");
    await whileLocked(() => database.exec("BEGIN IMMEDIATE"));
    const filled = kindsIn(database).filter((kind) => !besides.includes(kind));
    if (filled.length > 0) refuse(filled);
    database.exec("DELETE FROM records; DELETE FROM entries; DELETE FROM record_counters");
    const result = await work(fillerOf(database));
    await whileLocked(() => database.exec("COMMIT"));
    return result;
  } catch (error) {
    throw asFault(error);
  } finally {
    // An open transaction is rolled back.
    database.close();
  }
}

function fillerOf(database: DatabaseSync): FileFiller {
  const version = randomUUID();
  const { first, change, insert } = statements(database);
  const find = first("SELECT id FROM records WHERE kind = ? AND key = ?");
  const insertRecord = createInsert({ insert, change });
  const setCounter = change("INSERT INTO record_counters (name, value) VALUES (?, ?)");
  return {
    put(record) {
      const { parent } = record;
      const above = parent && find(parent.kind, parent.key);
      if (parent !== undefined && above === undefined) return;
      insertRecord(prepareRecord(record), version, above === undefined ? null : numberAt(above, 0));
    },
    count: (name, value) => void setCounter(name, value),
  };
}
