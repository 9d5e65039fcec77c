/** The record store in one SQLite file, or in memory. */
import { stat } from "node:fs/promises";
import type { Clock } from "../../core/clock.ts";
import { StorageMissing, StorageUnavailable } from "../../core/errors.ts";
import { checkCommit, type DataCopy, type RecordStore } from "../record-store.ts";
import { connect, type Connection, IN_MEMORY, numberAt, textAt } from "./connection.ts";
import { prepareFile, requireTables } from "./database-file.ts";
import { whileLocked } from "./faults.ts";
import { createRecordReads, RecordCache } from "./record-reads.ts";
import { createRecordWrites } from "./record-writes.ts";

export interface SqliteOptions {
  /**
   * The database file. It is created with mode 0600, and its folder too, if missing. `:memory:` stores nothing on
   * disk.
   */
  readonly path: string;
  /** Decides which records have expired. */
  readonly clock: Clock;
  /** Whether the storage must exist; opening it then writes nothing. Default `false`: missing parts are created. */
  readonly mustExist?: boolean;
}

/** @throws StorageUnavailable if the file does not exist. */
async function requireFile(path: string): Promise<void> {
  try {
    if ((await stat(path)).isFile()) return;
  } catch (cause) {
    const code = String(Reflect.get(Object(cause), "code"));
    const Fault = code === "ENOENT" ? StorageMissing : StorageUnavailable;
    throw new Fault(`the database file ${path} can't be opened: ${code}`, { cause });
  }
  throw new StorageUnavailable(`${path} is not a file`);
}

/** A restored or moved file is another file, unless a backup was written into the old one. */
async function copyOf(path: string): Promise<DataCopy> {
  try {
    const { ino } = await stat(path, { bigint: true });
    return { id: String(ino) };
  } catch (cause) {
    throw new StorageUnavailable(
      `the database file can't be found: ${String(Reflect.get(Object(cause), "code"))}`,
      {
        cause,
      },
    );
  }
}

/** How often to check whether another process has written. */
const WATCH_INTERVAL_MS = 50;

/** Calls `onChange` after another connection has written to the file. */
function watch(connection: Connection, onChange: () => void): () => void {
  let known: number | undefined;
  const look = async (): Promise<void> => {
    const version = await connection.read(() => connection.foreignVersion());
    if (known !== undefined && version !== known) onChange();
    known = version;
  };
  // The next read meets the same fault and reports it.
  const timer = setInterval(() => void look().catch(() => undefined), WATCH_INTERVAL_MS).unref();
  void look().catch(() => undefined);
  return () => clearInterval(timer);
}

const quoted = (name = ""): string => `"${name.replaceAll('"', '""')}"`;

/** What only other versions need, with the statements that drop it. */
function leftoversIn(
  connection: Connection,
  former: readonly string[],
): readonly { readonly name: string; readonly statement: string }[] {
  const typeOf = connection.first("SELECT type FROM sqlite_schema WHERE name = ?");
  const columnOf = connection.first("SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
  return former.flatMap((name) => {
    const [table = "", column] = name.split(".");
    if (column === undefined) {
      const found = typeOf(name);
      return found === undefined ? [] : [{ name, statement: `DROP ${textAt(found, 0)} ${quoted(name)}` }];
    }
    const statement = `ALTER TABLE ${quoted(table)} DROP COLUMN ${quoted(column)}`;
    return columnOf(table, column) === undefined ? [] : [{ name, statement }];
  });
}

/**
 * Opens the store. Any number of processes on one machine may open the same file.
 * @throws StorageUnavailable when the file can't be opened, is damaged, or stays locked for 5 seconds.
 * @throws ConfigurationError when the file belongs to another program or another version.
 */
export async function openSqlite({ path, clock, mustExist = false }: SqliteOptions): Promise<RecordStore> {
  if (mustExist) await requireFile(path);
  const connection = await connect(path, clock, { prepare: mustExist ? requireTables : prepareFile });
  // Preparing a statement reads the schema, which may be locked like any other read.
  return whileLocked(() => {
    const cache = new RecordCache(connection);
    const reads = createRecordReads(connection, clock, cache);
    const writes = createRecordWrites(connection, clock, cache);
    // By the clock of the machine, which all processes share, in whole milliseconds.
    const time = connection.first(
      "SELECT unixepoch('subsec') * 1000 FROM (SELECT count(*) FROM record_counters)",
    );
    const watches = new Set<() => void>();
    return {
      get: (refs, { withParents = false } = {}) => connection.read(() => reads.get(refs, withParents)),
      list: (queries) => connection.read(() => reads.list(queries)),
      scan: (kind, after, limit) => connection.read(() => reads.scan(kind, after, limit)),
      count: (queries) => connection.read(() => reads.count(queries)),
      async commit(change) {
        checkCommit(change);
        const wait = change.deadline - clock.now();
        if (wait <= 0)
          throw new StorageUnavailable("the deadline of this commit has passed", { reason: "deadline" });
        const prepared = writes.prepare(change);
        const { relaxed = false } = change;
        await connection.write(() => writes.commit(prepared), { wait, relaxed });
      },
      next: (counter, atLeast = 1) => connection.write(() => writes.next(counter, atLeast)),
      sweep: (limit, now) => connection.write(() => writes.sweep(limit, now), { relaxed: true }),
      watch(_kinds, onChange) {
        const end = watch(connection, onChange);
        watches.add(end);
        return () => {
          watches.delete(end);
          end();
        };
      },
      ...(path !== IN_MEMORY && { copy: () => copyOf(path) }),
      leftovers: (former) => connection.read(() => leftoversIn(connection, former).map(({ name }) => name)),
      dropLeftovers: (former) =>
        connection.write(() => {
          for (const { statement } of leftoversIn(connection, former)) connection.change(statement)();
        }),
      ping: () => connection.read(() => numberAt(time() ?? {}, 0)),
      close() {
        for (const end of watches) end();
        return connection.close();
      },
    };
  });
}
