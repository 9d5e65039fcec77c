/** Opens the storage that the configuration names; a backend's code is loaded when it is chosen. */
import type { Configuration } from "../config/configuration.ts";
import type { Clock } from "../lib/clock.ts";
import { ConfigurationError } from "../lib/errors.ts";
import type { RateLimiterFactory } from "./rate-limits.ts";
import type { RecordStore } from "./record-store.ts";
import type { Storage } from "./storage.ts";

const SQLITE = "sqlite:";

/** Makes the storage of a service over a record store: the rules of accounts, artifacts and deliveries. */
export type Compose = (store: RecordStore, rateLimits: RateLimiterFactory, clock: Clock) => Promise<Storage>;

/** What opening needs to know. */
export type StorageConfiguration = Pick<Configuration, "storage" | "artifacts" | "clock">;

/** What is before the colon. An address may hold a password, so no message repeats one. */
export function schemeOf(address: string): string {
  return /^[a-z+]+(?=:)/.exec(address)?.[0] ?? "";
}

/** What is wrong with `config.storage`. */
function storageProblem(address: string): string | undefined {
  switch (schemeOf(address)) {
    case "sqlite":
      return address === SQLITE ? "the path after sqlite: is missing" : undefined;
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
function artifactsProblem({ storage, artifacts }: StorageConfiguration): string | undefined {
  if (artifacts === storage || isRedis(artifacts)) return undefined;
  return "must be redis://… or rediss://…, or left out";
}

/** Whether an address is one of Redis. */
export function isRedis(address: string): boolean {
  return ["redis", "rediss"].includes(schemeOf(address));
}

async function openMain({ storage, clock }: StorageConfiguration, compose: Compose): Promise<Storage> {
  switch (schemeOf(storage)) {
    case "sqlite": {
      const { openSqlite } = await import("./sqlite/index.ts");
      return openSqlite({ path: storage.slice(SQLITE.length), clock });
    }
    case "postgres":
    case "postgresql": {
      const { openPostgres } = await import("./postgresql/index.ts");
      const { store, rateLimits } = await openPostgres({ url: storage, clock });
      return compose(store, rateLimits, clock);
    }
    default: {
      const { openMongo } = await import("./mongodb/index.ts");
      return openMongo({ url: storage, clock });
    }
  }
}

/**
 * @param compose what makes a storage of a record store.
 * @param onWarning told what an operator should put right. Default: nobody.
 * @throws ConfigurationError when there is no such backend, or the server there is of the wrong kind.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export async function openStorageWith(
  compose: Compose,
  configuration: StorageConfiguration,
  onWarning: (text: string) => void = () => undefined,
): Promise<Storage> {
  const { artifacts, clock } = configuration;
  const problems = [
    ["storage", storageProblem(configuration.storage)],
    ["artifacts", artifactsProblem(configuration)],
  ].flatMap(([option, text]) => (text === undefined ? [] : [`config.${option}: ${text}`]));
  if (problems.length > 0) throw new ConfigurationError(problems);
  const main = await openMain(configuration, compose);
  if (!isRedis(artifacts)) return main;
  try {
    const { openRedis } = await import("./redis/index.ts");
    return withParts(main, await openRedis({ url: artifacts, clock, onWarning }));
  } catch (error) {
    await main.close();
    throw error;
  }
}

/** One storage of two: what the second keeps, it keeps instead of the first. */
function withParts(
  main: Storage,
  moved: Pick<Storage, "artifacts" | "rateLimits" | "parts" | "close">,
): Storage {
  return {
    ...main,
    ...moved,
    parts: [...main.parts, ...moved.parts],
    async close() {
      await Promise.all([main.close(), moved.close()]);
    },
  };
}
