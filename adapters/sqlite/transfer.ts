/** A database file that is copied from or into. */
import { stat } from "node:fs/promises";
import type { Clock } from "../../lib/clock.ts";
import { StorageUnavailable } from "../../lib/errors.ts";
import { type StorageTransfer, UNFINISHED_COPY } from "../transfer.ts";
import { connect, type Connection } from "./connection.ts";
import { whileLocked } from "./faults.ts";
import { stringAt } from "./rows.ts";
import { toText } from "./text.ts";
import { createArtifactsPart } from "./transfer-artifacts.ts";
import { createDeliveryParts } from "./transfer-deliveries.ts";
import { createDirectoryParts } from "./transfer-directory.ts";

export interface SqliteTransferOptions {
  readonly path: string;
  /** Decides what has expired. */
  readonly clock: Clock;
  /** Whether a missing file is a fault; else it is made. */
  readonly mustExist: boolean;
}

/** @throws StorageUnavailable when there is no such file. */
export async function requireFile(path: string): Promise<void> {
  try {
    if ((await stat(path)).isFile()) return;
  } catch (cause) {
    const code = String(Reflect.get(Object(cause), "code"));
    throw new StorageUnavailable(`the database file ${path} can't be opened: ${code}`, { cause });
  }
  throw new StorageUnavailable(`${path} is not a file`);
}

function createMarks(connection: Connection): Pick<StorageTransfer, "readMark" | "writeMark"> {
  const find = connection.first("SELECT value FROM kept WHERE name = ?");
  const put = connection.change("INSERT OR REPLACE INTO kept (name, value) VALUES (?, ?)");
  const remove = connection.change("DELETE FROM kept WHERE name = ?");
  return {
    readMark: () =>
      connection.read(() => {
        const row = find(UNFINISHED_COPY);
        return row && stringAt(row, 0);
      }),
    async writeMark(text) {
      await connection.write(() =>
        text === undefined ? remove(UNFINISHED_COPY) : put(UNFINISHED_COPY, toText(text)),
      );
    },
  };
}

/**
 * Opens the file and brings its schema up to date.
 * @throws StorageUnavailable as `openSqlite`, and for a file that must exist and does not.
 * @throws ConfigurationError when the file belongs to another program or a later version.
 */
export async function openSqliteTransfer(options: SqliteTransferOptions): Promise<StorageTransfer> {
  const { path, clock, mustExist } = options;
  if (mustExist) await requireFile(path);
  const connection = await connect(path, clock);
  try {
    // Preparing a statement reads the schema, which may meet a lock like any other read.
    return await whileLocked(() => ({
      parts: {
        ...createDirectoryParts(connection),
        ...createDeliveryParts(connection),
        artifacts: createArtifactsPart(connection),
      },
      ...createMarks(connection),
      close: () => connection.close(),
    }));
  } catch (error) {
    await connection.close();
    throw error;
  }
}
