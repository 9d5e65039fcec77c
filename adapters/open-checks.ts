/** Opens what is to be checked; a backend's code is loaded when it is chosen. */
import type { Clock } from "../lib/clock.ts";
import { ConfigurationError } from "../lib/errors.ts";
import type { NamesOf, StorageChecks } from "./check.ts";
import { isRedis, schemeOf } from "./open.ts";

export interface CheckOptions {
  /** As `config.storage`, but not in memory. */
  readonly storage: string;
  /** As `config.artifacts`; default: the same as `storage`. */
  readonly artifacts?: string;
  readonly clock: Clock;
  readonly namesOf: NamesOf;
}

async function openMain({ storage, clock, namesOf }: CheckOptions): Promise<StorageChecks> {
  if (schemeOf(storage) !== "sqlite") {
    const { openMongoChecks } = await import("./mongodb/index.ts");
    return openMongoChecks({ url: storage, clock, namesOf });
  }
  const { openSqliteChecks } = await import("./sqlite/index.ts");
  return openSqliteChecks({ path: storage.slice("sqlite:".length), clock, namesOf });
}

/**
 * @throws ConfigurationError when this version has no such backend, or the server there is of the wrong kind.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export async function openChecks(options: CheckOptions): Promise<StorageChecks> {
  const { storage, artifacts = storage, clock } = options;
  const main = await openMain(options);
  if (artifacts === storage) return main;
  try {
    if (!isRedis(artifacts))
      throw new ConfigurationError(["config.artifacts: must be redis:// or rediss://"]);
    const { openRedisChecks } = await import("./redis/index.ts");
    const moved = await openRedisChecks({ url: artifacts, clock });
    return {
      checks: [...main.checks, ...moved.checks],
      async close() {
        await Promise.all([main.close(), moved.close()]);
      },
    };
  } catch (error) {
    await main.close();
    throw error;
  }
}
