/** Redis: what changes often and lives shortly, beside a storage for the rest. */
export { openRedis, type RedisOptions } from "./record-store.ts";
export { openRedisV01 } from "./v01.ts";
