/** Opens a storage of version 0.1 for its migration; a backend's code is loaded when it is chosen. */
import { isRedis, schemeOf } from "./open.ts";
import type { Clock } from "./clock.ts";
import type { V01Remains, V01Source } from "./v01.ts";

const SQLITE = "sqlite:";

const isSqlite = (address: string): boolean => schemeOf(address) === "sqlite";

/**
 * @returns `undefined` for a database file, which is carried over while it is opened.
 * @throws ConfigurationError, StorageUnavailable as `openStores` does.
 */
export async function openV01(address: string, clock: Clock): Promise<V01Source | undefined> {
  if (isSqlite(address)) return undefined;
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
