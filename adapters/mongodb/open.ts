/** Storage in MongoDB: any number of processes share it. */
import type { Clock } from "../../lib/clock.ts";
import type { Storage } from "../storage.ts";
import { createArtifactStore } from "./artifacts.ts";
import { connect } from "./connection.ts";
import { createDeliveryStore } from "./deliveries.ts";
import { createAccounts } from "./directory-accounts.ts";
import { createAudit, createKept } from "./directory-audit.ts";
import { createClients } from "./directory-clients.ts";
import { createEntries } from "./directory-entries.ts";
import { asFault } from "./faults.ts";
import { prepareDatabase } from "./indexes.ts";
import { openClient } from "./open-client.ts";
import { mongoRateLimits } from "./rate-limits.ts";

export interface MongoOptions {
  /** `mongodb://…` or `mongodb+srv://…`; the database is named after the hosts, default `sign-in`. */
  readonly url: string;
  /** Decides what has expired. */
  readonly clock: Clock;
}

/** Makes what is missing. An index on many documents takes its time, which no request would wait for. */
async function prepare(url: string): Promise<void> {
  const { client, db } = await openClient(url, { isPatient: true });
  try {
    await prepareDatabase(db);
  } catch (error) {
    throw asFault(error);
  } finally {
    await client.close();
  }
}

/**
 * Opens the storage and makes its collections and indexes. Any number of processes may do so at once.
 * @throws StorageUnavailable when the server does not answer within 15 seconds.
 * @throws ConfigurationError when the address is wrong, the user is refused, the server has no transactions, or the
 *   database was written by a later version.
 */
export async function openMongo({ url, clock }: MongoOptions): Promise<Storage> {
  await prepare(url);
  const connection = await connect(url, clock);
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
    rateLimits: mongoRateLimits(connection),
    arrived: () => Promise.resolve(),
    parts: [
      {
        name: "storage",
        async ping() {
          await connection.run(() => connection.db.command({ ping: 1 }));
        },
      },
    ],
    close: () => connection.close(),
  };
}
