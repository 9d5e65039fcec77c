/** Addresses of Redis: `redis://USER:PASSWORD@HOST:PORT/DB?prefix=PREFIX`, or `rediss://` for TLS. */

/** What an address says. */
export interface RedisAddress {
  readonly tls: boolean;
  readonly host: string;
  readonly port: number;
  /** Of an ACL user; without one, the default user's password is meant. */
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** The number of the database. */
  readonly db: number;
  /** What all keys begin with, if it is said. */
  readonly prefix: string | undefined;
}

const DEFAULT_PORT = 6379;
/** Another one, such as a misspelt `rediss:`, is not taken for a connection without TLS. */
const PROTOCOLS: ReadonlySet<string> = new Set(["redis:", "rediss:"]);
const PREFIX = /^[A-Za-z0-9_.:-]{1,64}$/;

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** @returns the address, or what is wrong with it in words that don't repeat it. */
export function readRedisAddress(text: string): RedisAddress | string {
  const url = URL.parse(text);
  if (url === null || !PROTOCOLS.has(url.protocol) || url.hostname === "") {
    return "must be a `redis://` or `rediss://` URL";
  }
  const [username, password] = [decoded(url.username), decoded(url.password)];
  if (username === undefined || password === undefined) {
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
    // An IPv6 address is in brackets in a URL, and nowhere else.
    host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port === "" ? DEFAULT_PORT : Number(url.port),
    username: username === "" ? undefined : username,
    password: password === "" ? undefined : password,
    db: Number(db),
    prefix: prefixes[0],
  };
}
