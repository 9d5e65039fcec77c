/** The Redis backend, for artifacts and rate limits. */
export { openRedisChecks } from "./check.ts";
export { openRedis, type RedisOptions, type RedisParts } from "./open.ts";
export { openRedisTransfer, type RedisTransfer } from "./transfer.ts";
