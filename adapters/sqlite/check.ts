/** A database file that is checked. */
import type { Clock } from "../../lib/clock.ts";
import type { NamesOf, StorageChecks } from "../check.ts";
import { createDeliveryChecks } from "./check-deliveries.ts";
import { createDirectoryChecks } from "./check-directory.ts";
import { createSchemaChecks } from "./check-schema.ts";
import { connect } from "./connection.ts";
import { requireFile } from "./transfer.ts";

export interface SqliteCheckOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly namesOf: NamesOf;
}

/**
 * Opens the file and brings its schema up to date.
 * @throws StorageUnavailable when there is no such file, or it is damaged too badly to be opened.
 * @throws ConfigurationError when the file belongs to another program or a later version.
 */
export async function openSqliteChecks({ path, clock, namesOf }: SqliteCheckOptions): Promise<StorageChecks> {
  await requireFile(path);
  const connection = await connect(path, clock);
  return {
    checks: [
      ...createSchemaChecks(connection),
      ...createDirectoryChecks(connection, namesOf),
      ...createDeliveryChecks(connection),
    ],
    close: () => connection.close(),
  };
}
