/** The addresses of Redis. No message repeats an address, because it may hold a password. */
import type { SecretFiles } from "./postgresql-address.ts";
import { decoded, hostOf, isPrintable } from "./value-forms.ts";

export interface RedisHost {
  readonly host: string;
  readonly port: number;
}

/**
 * The parts of a Redis address: `redis://USER:PASSWORD@HOST:PORT/DB?prefix=PREFIX`, or `rediss://` for TLS. After
 * `+sentinel` the hosts are sentinels, and after `+cluster` nodes of a cluster.
 */
export interface RedisAddress {
  readonly kind: "server" | "sentinel" | "cluster";
  readonly tls: RedisTls | undefined;
  readonly hosts: readonly [RedisHost, ...RedisHost[]];
  /** The ACL user. Without one, the password is that of the default user. */
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** Contains the password, read for each connection. */
  readonly passwordFile: string | undefined;
  /** The number of the database. */
  readonly db: number;
  /** The prefix of all keys. */
  readonly prefix: string | undefined;
  /** How many replicas must have a write before it is acknowledged. */
  readonly replicas: number;
  readonly sentinel: SentinelAddress | undefined;
}

/** The paths of PEM files, read for each connection. Sentinels and servers have the same. */
interface RedisTls {
  /** Replaces the authorities that Node.js trusts. */
  readonly ca: string | undefined;
  /** The certificate of the service, and its key. */
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** What the sentinels know, and who asks them. */
interface SentinelAddress {
  /** The name of the primary and its replicas. */
  readonly name: string;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Contains the password, read for each connection. */
  readonly passwordFile: string | undefined;
}

const KINDS = { "": "server", "+sentinel": "sentinel", "+cluster": "cluster" } as const;
/** With and without TLS. */
export const REDIS_SCHEMES: readonly string[] = Object.keys(KINDS).flatMap((kind) => [
  `redis${kind}`,
  `rediss${kind}`,
]);
const PORTS = { server: 6379, sentinel: 26_379, cluster: 6379 } as const;
const MAX_HOSTS = 20;

const PREFIX = /^[A-Za-z0-9_.:-]{1,64}$/;
/** As Sentinel takes them. */
const NAME = /^[A-Za-z0-9._-]{1,64}$/;

/** The parameters of the addresses of each kind. */
const COMMON = ["prefix", "replicas", "password_file", "ca_file", "cert_file", "key_file"];
const PARAMETERS: Readonly<Record<RedisAddress["kind"], readonly string[]>> = {
  server: COMMON,
  sentinel: [...COMMON, "master", "sentinel_user", "sentinel_password", "sentinel_password_file"],
  cluster: COMMON,
};

/** Scheme, user and password, hosts, and the rest. The parser of URLs takes one host only. */
const PARTS = /^(rediss?)(\+sentinel|\+cluster)?:\/\/([^/?#]*@)?([^/?#@]+)([/?#].*)?$/u;

const NO_HOST = "is not a `redis://` or `rediss://` URL with a host";

/** @returns `undefined` if it is not `HOST` or `HOST:PORT`. */
function readHost(text: string, port: number): RedisHost | undefined {
  const url = /^[^/?#@\\]+$/u.test(text) ? URL.parse(`redis://${text}`) : null;
  const host = url === null ? undefined : hostOf(url);
  return url === null || !host ? undefined : { host, port: url.port === "" ? port : Number(url.port) };
}

function readHosts(text: string, kind: RedisAddress["kind"]): RedisAddress["hosts"] | string {
  const read = text.split(",").map((each) => readHost(each, PORTS[kind]));
  const [first, ...others] = read.filter((each) => each !== undefined);
  if (first === undefined || others.length + 1 < read.length) return NO_HOST;
  if (kind === "server" && others.length > 0)
    return "has several hosts, which only `redis+sentinel://` and `redis+cluster://` can have";
  if (read.length > MAX_HOSTS) return `has more than ${MAX_HOSTS} hosts`;
  const isTwice = new Set(read.map((each) => `${each?.host.toLowerCase()} ${each?.port}`)).size < read.length;
  return isTwice ? "has the same host twice" : [first, ...others];
}

/** @returns the address, or a problem that does not quote it. */
export function readRedisAddress(text: string): RedisAddress | string {
  const [, scheme = "", form = "", login = "", hosts = "", rest = ""] =
    isPrintable(text) && !/\s/u.test(text) ? (PARTS.exec(text) ?? []) : [];
  const url = scheme === "" ? null : URL.parse(`redis://${login}host${rest}`);
  if (url === null) return NO_HOST;
  const kind = KINDS[form as keyof typeof KINDS];
  const [username, password] = [decoded(url.username), decoded(url.password)];
  if (username === undefined || password === undefined) {
    return "has a user or password in which a `%` is not followed by two hexadecimal digits";
  }
  const servers = readHosts(hosts, kind);
  if (typeof servers === "string") return servers;
  const db = /^\/?(\d{0,5})$/.exec(url.pathname)?.[1];
  if (db === undefined) return "has a path that is not the number of a database";
  if (kind === "cluster" && Number(db) !== 0)
    return "has a number of a database, of which a cluster has only one";
  const parameters = new Map(url.searchParams);
  const names = [...url.searchParams.keys()];
  if (url.hash !== "" || names.some((name) => !PARAMETERS[kind].includes(name)))
    return `knows no other option than ${PARAMETERS[kind].map((name) => `\`?${name}=\``).join(", ")}`;
  const prefixes = url.searchParams.getAll("prefix");
  if (prefixes.length > 1 || prefixes.some((prefix) => !PREFIX.test(prefix))) {
    return "needs a `prefix` of 1 to 64 letters, digits and `_.:-`";
  }
  if (parameters.size < names.length) return "has an option twice";
  const replicas = parameters.get("replicas") ?? "0";
  if (!/^\d$/.test(replicas)) return "needs a number of `replicas` from 0 to 9";
  const passwordFile = parameters.get("password_file") || undefined;
  if (passwordFile !== undefined && password !== "") return "has both a password and a `password_file`";
  const tls = readTls(parameters, scheme === "rediss");
  if (typeof tls === "string") return tls;
  const sentinel = kind === "sentinel" ? readSentinel(parameters) : undefined;
  if (typeof sentinel === "string") return sentinel;
  return {
    kind,
    tls,
    hosts: servers,
    username: username === "" ? undefined : username,
    password: password === "" ? undefined : password,
    passwordFile,
    db: Number(db),
    prefix: prefixes[0],
    replicas: Number(replicas),
    sentinel,
  };
}

function readTls(parameters: ReadonlyMap<string, string>, isOn: boolean): RedisAddress["tls"] | string {
  const [ca, cert, key] = ["ca", "cert", "key"].map((each) => parameters.get(`${each}_file`) || undefined);
  if (!isOn)
    return [ca, cert, key].some((path) => path !== undefined)
      ? "has files for TLS, which only `rediss` uses"
      : undefined;
  return (cert === undefined) === (key === undefined)
    ? { ca, cert, key }
    : "needs `cert_file` and `key_file` together";
}

function readSentinel(parameters: ReadonlyMap<string, string>): SentinelAddress | string {
  const name = parameters.get("master");
  if (name === undefined || !NAME.test(name))
    return "needs `?master=` with the name that the sentinels have for the primary";
  const [user, password, passwordFile] = ["user", "password", "password_file"].map(
    (each) => parameters.get(`sentinel_${each}`) || undefined,
  );
  if (password !== undefined && passwordFile !== undefined)
    return "has both a `sentinel_password` and a `sentinel_password_file`";
  return { name, user, password, passwordFile };
}

/** The address without users and passwords, for messages. */
export function describeRedis(text: string): string {
  const read = readRedisAddress(text);
  if (typeof read === "string") return "redis";
  const { kind, tls, hosts, db, prefix, sentinel } = read;
  const scheme = `redis${tls === undefined ? "" : "s"}${kind === "server" ? "" : `+${kind}`}`;
  const servers = hosts.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`).join();
  const parameters = [sentinel && `master=${sentinel.name}`, prefix && `prefix=${prefix}`].filter(Boolean);
  const query = parameters.length === 0 ? "" : `?${parameters.join("&")}`;
  return `${scheme}://${servers}${kind === "cluster" ? "" : `/${db}`}${query}`;
}

/** The files with secrets that the address names. */
export function redisSecretFiles(text: string): SecretFiles {
  const address = readRedisAddress(text);
  if (typeof address === "string") return [];
  const files: readonly (readonly [name: string, path: string | undefined])[] = [
    ["password_file", address.passwordFile],
    ["key_file", address.tls?.key],
    ["sentinel_password_file", address.sentinel?.passwordFile],
  ];
  return files.flatMap(([name, path]) => (path === undefined ? [] : [[name, path] as const]));
}
