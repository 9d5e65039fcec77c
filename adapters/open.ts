/** Opens what the configuration names; a backend's code is loaded when it is chosen. */
import type { Configuration } from "../config/configuration.ts";
import type { Clock } from "./clock.ts";
import { ConfigurationError } from "./errors.ts";
import { memoryRateLimits } from "./rate-limits-memory.ts";
import type { RateLimiterFactory } from "./rate-limits.ts";
import type { RecordStore } from "./record-store.ts";
import type { V01Options, V01Remains, V01Source } from "./v01.ts";

const SQLITE = "sqlite:";

/** A store that is open, and the limiters that all its processes share. */
export interface OpenedStore {
  readonly store: RecordStore;
  readonly rateLimits: RateLimiterFactory;
  /** Whether version 0.1 has written there and nothing has been carried over. Left out: it can't have. */
  readonly isV01?: () => Promise<boolean>;
}

/** The stores of a service. */
export interface OpenedStores {
  readonly main: OpenedStore;
  /** Where codes, tokens, sessions and rate limits are, if not in `main`. */
  readonly artifacts: OpenedStore | undefined;
  close(): Promise<void>;
}

/** What opening needs to know. */
export interface StoresConfiguration extends Pick<
  Configuration,
  "storage" | "store" | "artifacts" | "clock"
> {
  /** Kinds with records that many commits rely on and few change: for stores that can't share a lock. */
  readonly sharedKinds: readonly string[];
  /** Kinds that somebody watches: for stores that announce what was committed. */
  readonly watchedKinds: readonly string[];
  /** How a database file of version 0.1 is carried over while it is opened. Left out: it is refused. */
  readonly v01?: V01Options | undefined;
  /** Whether a storage that is not there is a fault. Default: it is made. */
  readonly mustExist?: boolean;
}

/** What is before the colon. An address may hold a password, so no message repeats one. */
export function schemeOf(address: string): string {
  return /^[a-z+]+(?=:)/.exec(address)?.[0] ?? "";
}

/** What is wrong with `config.storage`. */
function storageProblem({ storage, store }: StoresConfiguration): string | undefined {
  if (store !== undefined) return undefined;
  switch (schemeOf(storage)) {
    case "sqlite":
      return storage === SQLITE ? "the path after sqlite: is missing" : undefined;
    case "mongodb":
    case "mongodb+srv":
    case "postgres":
    case "postgresql":
      return undefined;
    default:
      return "must be sqlite:PATH, sqlite::memory:, postgresql://…, mongodb://… or mongodb+srv://…";
  }
}

/** What is wrong with `config.artifacts`. */
function artifactsProblem({ storage, artifacts }: StoresConfiguration): string | undefined {
  if (artifacts === storage || isRedis(artifacts)) return undefined;
  return "must be redis://… or rediss://…, or left out";
}

/** Whether artifacts have a server of their own. */
function isRedis(address: string): boolean {
  return ["redis", "rediss"].includes(schemeOf(address));
}

async function openMain(configuration: StoresConfiguration): Promise<OpenedStore> {
  const { storage, store: own, clock, sharedKinds, watchedKinds, v01, mustExist = false } = configuration;
  // The contract has no limits: each process counts by itself.
  if (own !== undefined) return { store: own, rateLimits: memoryRateLimits(clock) };
  switch (schemeOf(storage)) {
    case "sqlite": {
      const { openSqlite } = await import("./sqlite/index.ts");
      const store = await openSqlite({ path: storage.slice(SQLITE.length), clock, v01, mustExist });
      // Several processes would each allow the whole limit; one process is what SQLite is for.
      return { store, rateLimits: memoryRateLimits(clock) };
    }
    case "postgres":
    case "postgresql": {
      const { openPostgres } = await import("./postgresql/index.ts");
      return openPostgres({ url: storage, clock, announced: watchedKinds, mustExist });
    }
    default: {
      const { openMongo } = await import("./mongodb/index.ts");
      return openMongo({ url: storage, clock, shared: sharedKinds, mustExist });
    }
  }
}

/**
 * @param onWarning told what an operator should put right. Default: nobody.
 * @throws ConfigurationError when there is no such backend, or the server there is of the wrong kind.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export async function openStores(
  configuration: StoresConfiguration,
  onWarning: (text: string) => void = () => undefined,
): Promise<OpenedStores> {
  const { artifacts, clock } = configuration;
  const problems = [
    ["storage", storageProblem(configuration)],
    ["artifacts", artifactsProblem(configuration)],
  ].flatMap(([option, text]) => (text === undefined ? [] : [`config.${option}: ${text}`]));
  if (problems.length > 0) throw new ConfigurationError(problems);
  const main = await openMain(configuration);
  if (!isRedis(artifacts)) return { main, artifacts: undefined, close: () => main.store.close() };
  try {
    const { openRedis } = await import("./redis/index.ts");
    const away = await openRedis({ url: artifacts, clock, onWarning });
    return {
      main,
      artifacts: away,
      async close() {
        await Promise.all([main.store.close(), away.store.close()]);
      },
    };
  } catch (error) {
    await main.store.close();
    throw error;
  }
}

/**
 * Opens a storage of version 0.1 for its migration.
 * @returns `undefined` for a database file, which is carried over while it is opened.
 * @throws ConfigurationError, StorageUnavailable as `openStores` does.
 */
export async function openV01(address: string, clock: Clock): Promise<V01Source | undefined> {
  if (schemeOf(address) === "sqlite") return undefined;
  if (isRedis(address)) {
    const { openRedisV01 } = await import("./redis/index.ts");
    return openRedisV01({ url: address, clock });
  }
  const { openMongoV01 } = await import("./mongodb/index.ts");
  return openMongoV01({ url: address, clock });
}

/** What a migration has kept. @throws ConfigurationError, StorageUnavailable as `openStores` does. */
export async function openV01Remains(address: string, clock: Clock): Promise<V01Remains> {
  const source = await openV01(address, clock);
  if (source !== undefined) return source;
  const { openSqliteRemains } = await import("./sqlite/index.ts");
  return openSqliteRemains(address.slice(SQLITE.length));
}
