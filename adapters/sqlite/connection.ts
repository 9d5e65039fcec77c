/** The only connection to a database file: opens it, and runs the reads and writes of the store. */
import { constants } from "node:fs";
import { access, mkdir, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { DatabaseSync, type SQLOutputValue } from "node:sqlite";
import type { Clock } from "../../core/clock.ts";
import { neededUser, StorageUnavailable } from "../../core/errors.ts";
import { asFault, closedFault, DEFAULT_LOCK_WAIT_MS, isLocked, whileLocked } from "./faults.ts";
import {
  createTransaction,
  type Durability,
  GroupCommit,
  inMemoryDurability,
  logDurability,
} from "./group-commit.ts";

/** The path of a database in memory, which is gone when it is closed. */
export const IN_MEMORY = ":memory:";

/**
 * With `synchronous=NORMAL`, SQLite itself syncs to the disk only at checkpoints. `group-commit.ts` syncs each commit
 * before it is acknowledged, so acknowledged commits survive a power failure. The page cache may grow to 16 MiB. The
 * log grows to 16 MiB before a checkpoint, which blocks everything else, and is cut back to 64 MiB after a burst.
 * Savepoints are held in memory, not in a temporary file.
 */
const PRAGMAS = `
  PRAGMA synchronous = NORMAL;
  PRAGMA trusted_schema = OFF;
  PRAGMA cache_size = -16384;
  PRAGMA wal_autocheckpoint = 4096;
  PRAGMA temp_store = MEMORY;
  PRAGMA journal_size_limit = 67108864;
`;

/** Columns, by their position in the SELECT. */
export type Row = Readonly<Record<number, SQLOutputValue>>;

/** A text column, as stored: JSON, or a string in its stored form. */
export function textAt(row: Row, column: number): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw new TypeError(`column ${column} holds no text`);
}

/** A number column. */
export function numberAt(row: Row, column: number): number {
  const value = row[column];
  if (typeof value === "number") return value;
  throw new TypeError(`column ${column} holds no number`);
}

/** A number column that may be NULL. */
export function optionalNumberAt(row: Row, column: number): number | null {
  return row[column] === null ? null : numberAt(row, column);
}

/** A parameter of a statement. */
export type Parameter = string | number | null;

export interface WriteOptions {
  /** Milliseconds after which a write that has not begun is refused; default 5000. */
  readonly wait?: number;
  /**
   * Acknowledges the write before it is on disk: it survives a crash of this process, but not a power failure. If it
   * may have read a durable write that is not on disk yet, it waits for that. Default `false`.
   */
  readonly relaxed?: boolean;
}

export interface Connection {
  readonly clock: Clock;
  /** A prepared statement that returns the first row. */
  first(sql: string): (...parameters: Parameter[]) => Row | undefined;
  /** A prepared statement that returns all rows. */
  all(sql: string): (...parameters: Parameter[]) => Row[];
  /** A prepared statement that returns how many rows it changed. */
  change(sql: string): (...parameters: Parameter[]) => number;
  /** A prepared statement that inserts a row and returns its `rowid`; `undefined` if it inserted none. */
  insert(sql: string): (...parameters: Parameter[]) => number | undefined;
  /** A number that changes when another connection has written to the file. Call it within `read` or `write`. */
  foreignVersion(): number;
  /**
   * Runs `work` synchronously, and again later if the file is locked. Each of its statements reads one state. It must
   * not write.
   */
  read<T>(work: () => T): Promise<T>;
  /** Runs `work` in a transaction, together with the other writes of this tick. */
  write<T>(work: () => T, options?: WriteOptions): Promise<T>;
  /** Calls back when a write, or a whole transaction, is rolled back. */
  onRollback(listener: () => void): void;
  /** `false` once `close` was called. */
  isOpen(): boolean;
  /** Refuses new calls, waits for the writes that are queued, and closes. */
  close(): Promise<void>;
}

/** Creates the folder, and an empty file that only its owner can read. SQLite gives the log the same mode. */
async function createFile(path: string): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    await (await open(path, "a", 0o600)).close();
    // SQLite writes the log next to the file.
    await access(dirname(path), constants.W_OK);
  } catch (cause) {
    const code = String(Reflect.get(Object(cause), "code"));
    throw new StorageUnavailable(
      `the database file ${path} can't be opened: ${code}${neededUser(code, path)}`,
      { cause },
    );
  }
}

function useLog(database: DatabaseSync): void {
  const mode = database.prepare("PRAGMA journal_mode = WAL").get()?.["journal_mode"];
  if (mode !== "wal") {
    throw new StorageUnavailable(
      `the database can't use a write-ahead log here: its journal mode stays ${String(mode)}`,
    );
  }
}

async function openDatabase(path: string, prepare: (database: DatabaseSync) => void): Promise<DatabaseSync> {
  const inMemory = path === IN_MEMORY;
  const file = inMemory ? path : resolve(path);
  if (!inMemory) await createFile(file);
  // Waiting inside SQLite would block the event loop.
  const database = await whileLocked(() => new DatabaseSync(file, { timeout: 0 }));
  try {
    await whileLocked(() => database.exec(PRAGMAS));
    // Before the log is enabled, which changes the file: it may belong to another program.
    await whileLocked(() => prepare(database));
    if (!inMemory) await whileLocked(() => useLog(database));
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

/** The prepared statements of a database. */
export function statements(database: DatabaseSync): Pick<Connection, "first" | "all" | "change" | "insert"> {
  return {
    first(sql) {
      const statement = database.prepare(sql);
      // Arrays cost a third less than objects.
      statement.setReturnArrays(true);
      return (...parameters) => statement.get(...parameters);
    },
    all(sql) {
      const statement = database.prepare(sql);
      statement.setReturnArrays(true);
      return (...parameters) => statement.all(...parameters);
    },
    change(sql) {
      const statement = database.prepare(sql);
      return (...parameters) => Number(statement.run(...parameters).changes);
    },
    insert(sql) {
      const statement = database.prepare(sql);
      return (...parameters) => {
        const { changes, lastInsertRowid } = statement.run(...parameters);
        return Number(changes) === 0 ? undefined : Number(lastInsertRowid);
      };
    },
  };
}

/**
 * Queries the version at most once per tick: everything that is returned in this tick was requested before, so the
 * state of the first query is current enough.
 */
function createVersionCheck({ first }: Pick<Connection, "first">): () => number {
  const select = first("PRAGMA data_version");
  let version: number | undefined;
  const forget = (): void => {
    version = undefined;
  };
  return () => {
    if (version === undefined) {
      version = numberAt(select() ?? {}, 0);
      process.nextTick(forget);
    }
    return version;
  };
}

export interface ConnectOptions {
  /** Waits until a commit survives a power failure. Default: until the log is on disk. */
  readonly durability?: Durability;
  /** Creates the schema. Called again while the file is locked. */
  readonly prepare: (database: DatabaseSync) => void;
}

/**
 * Opens the database, and creates its schema.
 * @throws StorageUnavailable when the file can't be opened, is damaged, or stays locked.
 * @throws ConfigurationError when it belongs to another program or another version.
 */
export async function connect(
  path: string,
  clock: Clock,
  {
    durability = path === IN_MEMORY ? inMemoryDurability : logDurability(resolve(path)),
    prepare,
  }: ConnectOptions,
): Promise<Connection> {
  const database = await openDatabase(path, prepare);
  let onRollback: (() => void) | undefined;
  const group = new GroupCommit(createTransaction(database, durability, () => onRollback?.()));
  const prepared = statements(database);
  let closing: Promise<void> | undefined;

  const undo = database.prepare("ROLLBACK");

  function look<T>(work: () => T): T {
    // A transaction that could be neither committed nor rolled back is still open: reads must not see it.
    if (database.isTransaction) undo.run();
    return work();
  }

  async function finish(): Promise<void> {
    await group.idle();
    await durability.close();
    database.close();
  }

  return {
    clock,
    ...prepared,
    foreignVersion: createVersionCheck(prepared),
    read(work) {
      if (closing !== undefined) return Promise.reject(closedFault());
      try {
        return Promise.resolve(look(work));
      } catch (error) {
        return isLocked(error) ? whileLocked(() => look(work)) : Promise.reject(asFault(error));
      }
    },
    write(work, { wait = DEFAULT_LOCK_WAIT_MS, relaxed = false } = {}) {
      return closing === undefined ? group.add(work, wait, !relaxed) : Promise.reject(closedFault());
    },
    onRollback(listener) {
      onRollback = listener;
    },
    isOpen: () => closing === undefined,
    close() {
      closing ??= finish();
      return closing;
    },
  };
}
