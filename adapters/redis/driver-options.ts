/** An address of Redis in the words of the driver. */
import { isIP } from "node:net";
import type { CommonRedisOptions, StandaloneConnectionOptions } from "ioredis";
import type { RedisAddress } from "../../config/redis-address.ts";

/** Where to connect to, and as whom. */
export type DriverOptions = Pick<CommonRedisOptions, "username" | "password" | "db"> &
  Pick<StandaloneConnectionOptions, "host" | "port" | "tls">;

export function driverOptions({ host, port, username, password, db, tls }: RedisAddress): DriverOptions {
  return {
    host,
    port,
    db,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    // A name says which certificate is wanted, an address can't; either is checked against it.
    ...(tls ? { tls: isIP(host) === 0 ? { servername: host } : {} } : {}),
  };
}
