/** A MongoDB that is checked. */
import type { Clock } from "../../lib/clock.ts";
import type { NamesOf, StorageChecks } from "../check.ts";
import { createDeliveryChecks } from "./check-deliveries.ts";
import { createDirectoryChecks } from "./check-directory.ts";
import { createIndexChecks } from "./check-indexes.ts";
import { createNameChecks } from "./check-names.ts";
import { connect } from "./connection.ts";
import { PAGE_TIME } from "./transfer-collections.ts";
import { requireStorage } from "./transfer.ts";

export interface MongoCheckOptions {
  readonly url: string;
  readonly clock: Clock;
  readonly namesOf: NamesOf;
}

/**
 * Opens the database as it is.
 * @throws StorageUnavailable as `openMongo`, and when there is no storage in the database.
 * @throws ConfigurationError as `openMongo`.
 */
export async function openMongoChecks({ url, clock, namesOf }: MongoCheckOptions): Promise<StorageChecks> {
  const connection = await connect(url, clock, { isPatient: true });
  try {
    await connection.run(() => requireStorage(connection.db), PAGE_TIME);
  } catch (error) {
    await connection.close();
    throw error;
  }
  return {
    checks: [
      ...createIndexChecks(connection),
      ...createDirectoryChecks(connection),
      ...createNameChecks(connection, namesOf),
      ...createDeliveryChecks(connection),
    ],
    close: () => connection.close(),
  };
}
