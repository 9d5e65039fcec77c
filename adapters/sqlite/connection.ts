/** The one connection to a database file: how it is opened, and how the stores read and write through it. */
import { mkdir, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { DatabaseSync, type SQLOutputValue } from "node:sqlite";
import type { Clock } from "../clock.ts";
import { StorageUnavailable } from "../errors.ts";
import { asFault, closedFault, DEFAULT_WAIT, isLocked, whileLocked } from "./faults.ts";
import {
  createTransaction,
  type Durability,
  GroupCommit,
  inMemoryDurability,
  logDurability,
} from "./group-commit.ts";

/** The path that means a database in memory, gone when it is closed. */
export const IN_MEMORY = ":memory:";

/**
 * `synchronous=NORMAL`: SQLite waits for the disk at its checkpoints only. Every commit is waited for in
 * `group-commit.ts`, before it is acknowledged: what was acknowledged survives the loss of power. The page cache may
 * grow to 16 MiB. The log grows to 16 MiB before it is written back, which nobody can do anything beside, and is cut
 * back to 64 MiB after a burst. What a savepoint would take back is kept in memory, not in a temporary file.
 */
const PRAGMAS = `
  PRAGMA synchronous = NORMAL;
  PRAGMA trusted_schema = OFF;
  PRAGMA cache_size = -16384;
  PRAGMA wal_autocheckpoint = 4096;
  PRAGMA temp_store = MEMORY;
  PRAGMA journal_size_limit = 67108864;
`;

/** The columns by their position in the SELECT. */
export type Row = Readonly<Record<number, SQLOutputValue>>;

/** A column that always holds text, as it is stored: JSON, or a string in its stored form. */
export function textAt(row: Row, column: number): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw new TypeError(`column ${column} holds no text`);
}

/** A column that always holds a number. */
export function numberAt(row: Row, column: number): number {
  const value = row[column];
  if (typeof value === "number") return value;
  throw new TypeError(`column ${column} holds no number`);
}

/** A column that holds a number or nothing. */
export function optionalNumberAt(row: Row, column: number): number | null {
  return row[column] === null ? null : numberAt(row, column);
}

/** A value that SQLite takes for a parameter here. */
export type Parameter = string | number | null;

export interface WriteOptions {
  /** Milliseconds after which it is refused if it has not begun; default 5000. */
  readonly wait?: number;
  /**
   * Need not be on the disk before it is told, unless it may have read what has to be and is not: then it survives the
   * end of this process, but not the loss of power until something else is written. Default `false`.
   */
  readonly relaxed?: boolean;
}

export interface Connection {
  readonly clock: Clock;
  /** A statement that is kept prepared and gives the first row. */
  first(sql: string): (...parameters: Parameter[]) => Row | undefined;
  /** A statement that is kept prepared and gives all rows. */
  all(sql: string): (...parameters: Parameter[]) => Row[];
  /** A statement that is kept prepared and gives the number of rows that it changed. */
  change(sql: string): (...parameters: Parameter[]) => number;
  /** A statement that is kept prepared, inserts a row and gives its `rowid`. */
  insert(sql: string): (...parameters: Parameter[]) => number;
  /** A number that changes when another connection has written to the file. To be used within `read`. */
  foreignVersion(): number;
  /** Runs `work` now, and again later while it meets a lock. Each of its statements sees one state. It must not write. */
  read<T>(work: () => T): Promise<T>;
  /**
   * Runs `work` in a transaction, together with the other writes of this turn of the event loop.
   */
  write<T>(work: () => T, options?: WriteOptions): Promise<T>;
  /** Whether it has not been told to close. */
  isOpen(): boolean;
  /** Lets the waiting writes finish, then closes; from the call on everything else is refused. */
  close(): Promise<void>;
}

/** Makes the folder and an empty file that only its owner can read; SQLite gives its log the same mode. */
async function createFile(path: string): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    await (await open(path, "a", 0o600)).close();
  } catch (cause) {
    const code = String(Reflect.get(Object(cause), "code"));
    throw new StorageUnavailable(`the database file ${path} can't be opened: ${code}`, { cause });
  }
}

function useLog(database: DatabaseSync): void {
  const mode = database.prepare("PRAGMA journal_mode = WAL").get()?.["journal_mode"];
  if (mode !== "wal") {
    throw new StorageUnavailable(
      `the database can't keep a write-ahead log here: it stays at ${String(mode)}`,
    );
  }
}

async function openDatabase(
  path: string,
  prepare: (database: DatabaseSync) => void,
  patience: (database: DatabaseSync) => number,
): Promise<DatabaseSync> {
  const inMemory = path === IN_MEMORY;
  const file = inMemory ? path : resolve(path);
  if (!inMemory) await createFile(file);
  // SQLite's own waiting would block the event loop.
  const database = await whileLocked(() => new DatabaseSync(file, { timeout: 0 }));
  try {
    await whileLocked(() => {
      if (!inMemory) useLog(database);
      database.exec(PRAGMAS);
    });
    const wait = await whileLocked(() => patience(database));
    await whileLocked(() => prepare(database), wait);
  } catch (error) {
    database.close();
    throw error;
  }
  return database;
}

function statements(database: DatabaseSync): Pick<Connection, "first" | "all" | "change" | "insert"> {
  return {
    first(sql) {
      const statement = database.prepare(sql);
      // Arrays cost a third less than objects with names.
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
      return (...parameters) => Number(statement.run(...parameters).lastInsertRowid);
    },
  };
}

/**
 * Asks at most once in one turn of the event loop and its microtasks: whatever is answered in this turn was
 * asked for before it, so an answer as of its first look is not out of date.
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
  /** Says when a commit survives the loss of power. Default: when the log is on the disk. */
  readonly durability?: Durability;
  /** Creates the schema or brings it up to date; called again while it meets a lock. */
  readonly prepare: (database: DatabaseSync) => void;
  /** Milliseconds for which `prepare` may meet locks. Default 5000. */
  readonly patience?: (database: DatabaseSync) => number;
}

/**
 * Opens the database, creates what is missing and brings its schema up to date.
 * @throws StorageUnavailable when the file can't be opened, is damaged, or stays locked.
 * @throws ConfigurationError when it belongs to another program or a later version.
 */
export async function connect(
  path: string,
  clock: Clock,
  {
    durability = path === IN_MEMORY ? inMemoryDurability : logDurability(resolve(path)),
    prepare,
    patience = () => DEFAULT_WAIT,
  }: ConnectOptions,
): Promise<Connection> {
  const database = await openDatabase(path, prepare, patience);
  const group = new GroupCommit(createTransaction(database, durability));
  const prepared = statements(database);
  let closing: Promise<void> | undefined;

  const undo = database.prepare("ROLLBACK");

  function look<T>(work: () => T): T {
    // A write that could be neither committed nor undone is still open: nobody is to see what is in it.
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
    write(work, { wait = DEFAULT_WAIT, relaxed = false } = {}) {
      return closing === undefined ? group.add(work, wait, !relaxed) : Promise.reject(closedFault());
    },
    isOpen: () => closing === undefined,
    close() {
      closing ??= finish();
      return closing;
    },
  };
}
