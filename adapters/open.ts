/** Opens the stores that the configuration names. A backend's code is loaded only when it is chosen. */
import type { Configuration } from "../config/configuration.ts";
import { backendOf, databaseFile, redisProblem, storageProblem } from "../config/storage-address.ts";
import { ConfigurationError } from "../core/errors.ts";
import { memoryRateLimits, type RateLimiterFactory } from "./rate-limits.ts";
import type { RecordStore } from "./record-store.ts";

/** An open store, and the rate limiters that its processes share. */
export interface OpenedStore {
  readonly store: RecordStore;
  readonly rateLimits: RateLimiterFactory;
}

/** The stores of a service. */
export interface OpenedStores {
  readonly main: OpenedStore;
  /** The store of codes, tokens, sessions and rate limits, if it is not `main`. */
  readonly artifacts: OpenedStore | undefined;
  close(): Promise<void>;
}

export interface StoresConfiguration extends Pick<
  Configuration,
  "storage" | "store" | "artifacts" | "clock"
> {
  /** Kinds with records that many commits expect and few change, for stores without shared locks. */
  readonly sharedKinds: readonly string[];
  /** Kinds that are watched, for stores that announce commits. */
  readonly watchedKinds: readonly string[];
  /** Counts rate limits if the storage can't. Default: in the memory of this store. */
  readonly memoryCounters?: RateLimiterFactory | undefined;
  /** Whether the storage must exist; opening it then writes nothing. Default: what is missing is created. */
  readonly mustExist?: boolean;
}

async function openMain(configuration: StoresConfiguration): Promise<OpenedStore> {
  const { storage, store: own, clock, sharedKinds, watchedKinds, mustExist = false } = configuration;
  const { memoryCounters = memoryRateLimits(clock) } = configuration;
  // The storage contract has no rate limits, so each process counts on its own.
  if (own !== undefined) return { store: own as RecordStore, rateLimits: memoryCounters };
  const backend = backendOf(storage);
  if (backend === "postgresql") {
    const { openPostgres } = await import("./postgresql/record-store.ts");
    return openPostgres({ url: storage, clock, announced: watchedKinds, mustExist });
  }
  if (backend === "mongodb") {
    const { openMongo } = await import("./mongodb/record-store.ts");
    return openMongo({ url: storage, clock, shared: sharedKinds, mustExist });
  }
  const { openSqlite } = await import("./sqlite/record-store.ts");
  const store = await openSqlite({ path: databaseFile(storage) ?? ":memory:", clock, mustExist });
  // With several processes each would allow the whole limit, but SQLite is meant for one process.
  return { store, rateLimits: memoryCounters };
}

/**
 * @param onWarning receives what an operator should fix.
 * @throws ConfigurationError for an unknown backend or an unsuitable server.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export async function openStores(
  configuration: StoresConfiguration,
  onWarning: (text: string) => void = () => undefined,
): Promise<OpenedStores> {
  const { storage, store: own, artifacts, clock } = configuration;
  const isSeparate = artifacts !== storage;
  const problems = [
    ["storage", own === undefined ? storageProblem(storage) : undefined],
    ["artifacts", isSeparate ? redisProblem(artifacts) : undefined],
  ].flatMap(([option, text]) => (text === undefined ? [] : [`config.${option}: ${text}`]));
  if (problems.length > 0) throw new ConfigurationError(problems);
  const main = await openMain(configuration);
  if (!isSeparate) return { main, artifacts: undefined, close: () => main.store.close() };
  try {
    const { openRedis } = await import("./redis/record-store.ts");
    const separate = await openRedis({ url: artifacts, clock, onWarning });
    return {
      main,
      artifacts: separate,
      async close() {
        await Promise.all([main.store.close(), separate.store.close()]);
      },
    };
  } catch (error) {
    await main.store.close();
    throw error;
  }
}
