/** Storage in one SQLite file, or in memory: everything in this process, with no other software. */
import type { Clock } from "../../lib/clock.ts";
import { memoryRateLimits } from "../rate-limits-memory.ts";
import type { Storage } from "../storage.ts";
import { createArtifactStore } from "./artifacts.ts";
import { connect } from "./connection.ts";
import { createDeliveryStore } from "./deliveries.ts";
import { createAccounts } from "./directory-accounts.ts";
import { createAudit, createKept } from "./directory-audit.ts";
import { createClients } from "./directory-clients.ts";
import { createEntries } from "./directory-entries.ts";
import { whileLocked } from "./faults.ts";

export interface SqliteOptions {
  /** The database file, created with mode 0600 and its folder when missing; `:memory:` keeps nothing. */
  readonly path: string;
  /** Decides what has expired. */
  readonly clock: Clock;
}

/**
 * Opens the storage. Any number of processes may have the same file open.
 * @throws StorageUnavailable when the file can't be opened, is damaged, or stays locked for 5 seconds.
 * @throws ConfigurationError when the file belongs to another program or a later version.
 */
export async function openSqlite({ path, clock }: SqliteOptions): Promise<Storage> {
  const connection = await connect(path, clock);
  // Preparing a statement reads the schema, which may meet a lock like any other read.
  return whileLocked(() => {
    const anything = connection.first("SELECT 1 FROM counters");
    return {
      directory: {
        ...createAccounts(connection),
        ...createClients(connection),
        ...createEntries(connection),
        ...createKept(connection),
        ...createAudit(connection),
      },
      artifacts: createArtifactStore(connection),
      deliveries: createDeliveryStore(connection),
      // Several processes would each allow the whole limit; one process is what SQLite is for.
      rateLimits: memoryRateLimits(clock),
      arrived: () => connection.arrived(),
      parts: [
        {
          name: "storage",
          async ping() {
            await connection.read(() => anything());
          },
        },
      ],
      close: () => connection.close(),
    };
  });
}
