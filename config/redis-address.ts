/** The addresses of Redis. No message repeats an address, because it may hold a password. */
import { decoded, hostOf, isUrl } from "./value-forms.ts";

/** The parts of a Redis address: `redis://USER:PASSWORD@HOST:PORT/DB?prefix=PREFIX`, or `rediss://` for TLS. */
export interface RedisAddress {
  readonly tls: boolean;
  readonly host: string;
  readonly port: number;
  /** The ACL user. Without one, the password is that of the default user. */
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** The number of the database. */
  readonly db: number;
  /** The prefix of all keys. */
  readonly prefix: string | undefined;
}

const REDIS_PORT = 6379;
const PREFIX = /^[A-Za-z0-9_.:-]{1,64}$/;

/** @returns the address, or a problem that does not quote it. */
export function readRedisAddress(text: string): RedisAddress | string {
  const url = isUrl(text, /^rediss?:$/u) ? URL.parse(text) : null;
  if (url === null) return "is not a `redis://` or `rediss://` URL with a host";
  const [username, password, host] = [decoded(url.username), decoded(url.password), hostOf(url)];
  if (username === undefined || password === undefined || host === undefined) {
    return "has a user or password in which a `%` is not followed by two hexadecimal digits";
  }
  const db = /^\/?(\d{0,5})$/.exec(url.pathname)?.[1];
  if (db === undefined) return "has a path that is not the number of a database";
  const unknown = [...url.searchParams.keys()].some((name) => name !== "prefix");
  if (unknown || url.hash !== "") return "knows no other option than `?prefix=`";
  const prefixes = url.searchParams.getAll("prefix");
  if (prefixes.length > 1 || prefixes.some((prefix) => !PREFIX.test(prefix))) {
    return "needs a `prefix` of 1 to 64 letters, digits and `_.:-`";
  }
  return {
    tls: url.protocol === "rediss:",
    host,
    port: url.port === "" ? REDIS_PORT : Number(url.port),
    username: username === "" ? undefined : username,
    password: password === "" ? undefined : password,
    db: Number(db),
    prefix: prefixes[0],
  };
}

/** The address without user and password, for messages. */
export function describeRedis(text: string): string {
  const read = readRedisAddress(text);
  if (typeof read === "string") return "redis";
  const { tls, host, port, db, prefix } = read;
  const where = `${host.includes(":") ? `[${host}]` : host}:${port}/${db}`;
  return `${tls ? "rediss" : "redis"}://${where}${prefix === undefined ? "" : `?prefix=${prefix}`}`;
}
