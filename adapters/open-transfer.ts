/** Opens a storage to be copied from or into; a backend's code is loaded when it is chosen. */
import type { Clock } from "../lib/clock.ts";
import { ConfigurationError } from "../lib/errors.ts";
import { isRedis, schemeOf } from "./open.ts";
import type { StorageTransfer } from "./transfer.ts";

export interface TransferOptions {
  /** As `config.storage`, but not in memory. */
  readonly storage: string;
  /** As `config.artifacts`; default: the same as `storage`. */
  readonly artifacts?: string;
  /** Decides what has expired. */
  readonly clock: Clock;
  /** Whether a database file that is not there is a fault; else it is made. */
  readonly mustExist: boolean;
  /** Told what an operator should put right. Default: nobody. */
  readonly onWarning?: (text: string) => void;
}

async function openMain({ storage, clock, mustExist }: TransferOptions): Promise<StorageTransfer> {
  if (schemeOf(storage) !== "sqlite") {
    const { openMongoTransfer } = await import("./mongodb/index.ts");
    return openMongoTransfer({ url: storage, clock, mustExist });
  }
  if (storage === "sqlite::memory:") {
    throw new ConfigurationError(["config.storage: what is in memory ends with its process"]);
  }
  const { openSqliteTransfer } = await import("./sqlite/index.ts");
  return openSqliteTransfer({ path: storage.slice("sqlite:".length), clock, mustExist });
}

/**
 * @throws ConfigurationError when this version has no such backend, or the server there is of the wrong kind.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export async function openTransfer(options: TransferOptions): Promise<StorageTransfer> {
  const { storage, artifacts = storage, clock, onWarning } = options;
  const main = await openMain(options);
  if (artifacts === storage) return main;
  try {
    if (!isRedis(artifacts))
      throw new ConfigurationError(["config.artifacts: must be redis:// or rediss://"]);
    const { openRedisTransfer } = await import("./redis/index.ts");
    const moved = await openRedisTransfer({ url: artifacts, clock, ...(onWarning && { onWarning }) });
    return {
      ...main,
      parts: { ...main.parts, artifacts: moved.artifacts },
      async close() {
        await Promise.all([main.close(), moved.close()]);
      },
    };
  } catch (error) {
    await main.close();
    throw error;
  }
}
