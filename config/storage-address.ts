/**
 * The addresses of storages. One table has for each backend the forms of its addresses and the check for them. No
 * message repeats an address, because it may hold a password.
 */
import { isPrintable, isUrl } from "./value-forms.ts";

/** Where records can be stored. */
export type Backend = "sqlite" | "postgresql" | "mongodb" | "redis";

const SQLITE = "sqlite:";
const MEMORY = "sqlite::memory:";

const BACKENDS: Readonly<
  Record<
    Backend,
    {
      readonly schemes: readonly string[];
      /** All forms of its addresses, for messages. */
      readonly form: string;
      /** The usual form of its addresses, for the help of commands. */
      readonly usual: string;
      /** What is wrong with an address of one of the schemes. */
      readonly problem: (address: string) => string | undefined;
    }
  >
> = {
  sqlite: {
    schemes: ["sqlite"],
    form: "`sqlite:PATH`, `sqlite::memory:`",
    usual: "sqlite:PATH",
    problem: sqliteProblem,
  },
  postgresql: {
    schemes: ["postgresql", "postgres"],
    form: "`postgresql://…`",
    usual: "postgresql://USER@HOST/DATABASE",
    problem: (address) => problemOf(readPostgresAddress(address)),
  },
  mongodb: {
    schemes: ["mongodb", "mongodb+srv"],
    form: "`mongodb://…` or `mongodb+srv://…`",
    usual: "mongodb://USER@HOST/DATABASE",
    problem: mongoProblem,
  },
  redis: {
    schemes: ["redis", "rediss"],
    form: "a `redis://` or `rediss://` URL",
    usual: "redis://… or rediss://…",
    problem: (address) => problemOf(readRedisAddress(address)),
  },
};

const { redis: REDIS, ...MAIN } = BACKENDS;

/** Where everything is stored if the configuration doesn't say. */
export const DEFAULT_STORAGE = "sqlite:./sign-in.db";

/** The addresses of `storage`, for messages. */
export const STORAGE_FORM: string = Object.values(MAIN)
  .map(({ form }) => form)
  .join(", ");
/** The usual addresses of `storage`, for the help of commands. */
export const USUAL_STORAGE: string = Object.values(MAIN)
  .map(({ usual }) => usual)
  .join(", ");
/** The addresses of Redis, for messages. */
export const REDIS_FORM: string = REDIS.form;
/** The usual addresses of Redis, for the help of commands. */
export const USUAL_REDIS: string = REDIS.usual;

const BY_SCHEME: ReadonlyMap<string, Backend> = new Map(
  Object.entries(BACKENDS).flatMap(([backend, { schemes }]) =>
    schemes.map((scheme) => [scheme, backend as Backend]),
  ),
);

/** The backend of an address; `undefined` if it is not an address. */
export function backendOf(address: string): Backend | undefined {
  return BY_SCHEME.get(/^[a-z+]+(?=:)/u.exec(address)?.[0] ?? "");
}

/** Whether this backend can be the storage. Redis can't: it holds artifacts only. */
export function keepsRecords(backend: Backend | undefined): backend is Exclude<Backend, "redis"> {
  return backend !== undefined && backend !== "redis";
}

/** What is wrong with the address of a storage; `undefined` if nothing is. */
export function storageProblem(address: string): string | undefined {
  const backend = backendOf(address);
  return keepsRecords(backend) ? BACKENDS[backend].problem(address) : `must be ${STORAGE_FORM}`;
}

/** What is wrong with a Redis address; `undefined` if nothing is. */
export function redisProblem(address: string): string | undefined {
  return backendOf(address) === "redis" ? REDIS.problem(address) : `must be ${REDIS.form}`;
}

function problemOf(read: object | string): string | undefined {
  return typeof read === "string" ? read : undefined;
}

/** Texts that SQLite interprets as something other than a path are refused. */
function sqliteProblem(address: string): string | undefined {
  if (address === MEMORY) return undefined;
  const path = address.slice(SQLITE.length);
  if (path === "") return "has no path after `sqlite:`";
  const isPath = isPrintable(path) && path.trim() === path && !/^:|^\/\/|^file:|[/\\]$/iu.test(path);
  return isPath ? undefined : "has no path of a file after `sqlite:`";
}

/** Whether a storage address is the database in memory, which ends with the process. */
export function isInMemory(storage: string): boolean {
  return storage === MEMORY;
}

/** The database file of SQLite; `undefined` for other backends and in memory. */
export function databaseFile(storage: string): string | undefined {
  return backendOf(storage) === "sqlite" && !isInMemory(storage) ? storage.slice(SQLITE.length) : undefined;
}

/** A connection string of MongoDB may list several hosts, which `URL` can't parse. */
function mongoProblem(address: string): string | undefined {
  return /^mongodb(?:\+srv)?:\/\/(?:[^\s/@]+@)?[^\s/@?,]+(?:,[^\s/@?,]+)*(?:\/\S*)?(?:\?\S*)?$/u.test(
    address,
  ) && isPrintable(address)
    ? undefined
    : "is not a MongoDB connection string";
}

/** The text with its percent-encoding decoded; `undefined` if that is malformed. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** A host as `node:net` expects it: only URLs put IPv6 addresses in brackets. */
function hostOf({ hostname }: URL): string | undefined {
  return decoded(hostname.replace(/^\[(.*)\]$/u, "$1"));
}

/** What TLS verifies about the server: its certificate and its name, only its certificate, or nothing. */
const TLS_MODES = ["verify-full", "verify-ca", "no-verify"] as const;

const CHANNEL_BINDINGS = ["disable", "prefer", "require"] as const;

/** The parts of a PostgreSQL address: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?pool_size=10&…`. */
export interface PostgresAddress {
  /** A host, or the folder of a Unix socket, which begins with a slash. */
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Contains the password, read for each connection. */
  readonly passwordFile: string | undefined;
  readonly database: string | undefined;
  /** The most connections that a process opens for calls. */
  readonly poolSize: number;
  readonly applicationName: string;
  /** Settings of the server for each connection, such as `search_path`. */
  readonly settings: readonly (readonly [name: string, value: string])[];
  /** Seconds for opening a connection; `undefined`: as long as a call may take. */
  readonly connectTimeoutSeconds: number | undefined;
  /** Whether the password is bound to the TLS connection (SCRAM-SHA-256-PLUS): if the server can, or else not at all. */
  readonly channelBinding: (typeof CHANNEL_BINDINGS)[number];
  /** `undefined`: without TLS. The others are paths of PEM files. */
  readonly tls:
    | {
        readonly mode: (typeof TLS_MODES)[number];
        readonly ca: string | undefined;
        readonly cert: string | undefined;
        readonly key: string | undefined;
      }
    | undefined;
}

const POSTGRES_PORT = 5432;
const POOL_SIZE = 10;
const MAX_POOL_SIZE = 1_000;
const POSTGRES_PARAMETERS: ReadonlySet<string> = new Set([
  "host",
  "port",
  "connect_timeout",
  "channel_binding",
  "pool_size",
  "password_file",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "application_name",
  "options",
]);

/** Stands for a host that is not there: a URL with a user needs one. */
const NO_HOST = "-";

/** `postgresql://USER@/DATABASE?host=…`, which libpq reads and the parser of URLs does not. */
const WITHOUT_HOST = /^(postgres(?:ql)?:\/\/[^/?#]*@)(?=[:/?#]|$)/u;

function parsePostgresUrl(text: string): URL | undefined {
  if (!isPrintable(text) || /\s/u.test(text)) return undefined;
  const url = URL.parse(text.replace(WITHOUT_HOST, `$1${NO_HOST}`));
  return url !== null && /^postgres(?:ql)?:$/u.test(url.protocol) ? url : undefined;
}

/** What is wrong with the names of the parameters. A misspelt `sslmode` must not become a connection without TLS. */
function parameterProblem({ search, searchParams }: URL): string | undefined {
  const names = [...searchParams.keys()];
  const wrong = names.find((name, index) => !POSTGRES_PARAMETERS.has(name) || names.indexOf(name) !== index);
  if (wrong === undefined) return undefined;
  const known = [...POSTGRES_PARAMETERS].join(", ");
  // After an unencoded `?` or `#` in a password, its rest would look like a parameter.
  if (search.includes("@") || !/^[a-z][a-z_]{0,40}$/iu.test(wrong))
    return `knows only these parameters, each once: ${known}`;
  return POSTGRES_PARAMETERS.has(wrong)
    ? `has the parameter \`${wrong}\` twice`
    : `has the unknown parameter \`${wrong}\`; it knows these: ${known}`;
}

/** A whole number from a parameter; `undefined` if it is none. */
function numberIn(text: string, least: number, most: number): number | undefined {
  const number = /^\d{1,5}$/u.test(text) ? Number(text) : -1;
  return number >= least && number <= most ? number : undefined;
}

/** @returns the address, or a problem that does not quote it. */
export function readPostgresAddress(text: string): PostgresAddress | string {
  const url = parsePostgresUrl(text);
  if (url === undefined) return "is not a `postgresql://` URL with a host";
  const [user, password, named, database] = [
    decoded(url.username),
    decoded(url.password),
    url.hostname === NO_HOST ? "" : hostOf(url),
    decoded(url.pathname.slice(1)),
  ];
  if (user === undefined || password === undefined || named === undefined || database === undefined) {
    return "has a part in which a `%` is not followed by two hexadecimal digits";
  }
  const parameters = new Map(url.searchParams);
  const problem = parameterProblem(url);
  if (problem !== undefined) return problem;
  if (url.hash !== "") return "has a `#`, which must be written as %23";
  if (named !== "" && parameters.has("host")) return "has two hosts: one before the database, and `host`";
  if (url.port !== "" && parameters.has("port")) return "has two ports";
  const host = parameters.get("host") ?? named;
  if (host === "") return "is not a `postgresql://` URL with a host";
  const port = numberIn(parameters.get("port") ?? (url.port || String(POSTGRES_PORT)), 1, 65_535);
  if (port === undefined) return "needs a `port` from 1 to 65535";
  const poolSize = numberIn(parameters.get("pool_size") ?? String(POOL_SIZE), 1, MAX_POOL_SIZE);
  if (poolSize === undefined) return `needs a \`pool_size\` from 1 to ${MAX_POOL_SIZE}`;
  const timeout = numberIn(parameters.get("connect_timeout") ?? "0", 0, 99_999);
  if (timeout === undefined) return "needs a `connect_timeout` in whole seconds";
  const passwordFile = parameters.get("password_file");
  if (passwordFile !== undefined && password !== "") return "has both a password and a `password_file`";
  const settings = readSettings(parameters.get("options") ?? "");
  if (settings === undefined) return "needs `options` of the form `-c NAME=VALUE`";
  const tls = readTls(parameters);
  if (typeof tls === "string") return tls;
  if (tls !== undefined && host.startsWith("/")) return "has TLS for a Unix socket, which needs none";
  const wanted = parameters.get("channel_binding") ?? "disable";
  const channelBinding = CHANNEL_BINDINGS.find((each) => each === wanted);
  if (channelBinding === undefined) return "needs a `channel_binding` of `require`, `prefer` or `disable`";
  if (channelBinding === "require" && tls === undefined)
    return "needs an `sslmode` with TLS for `channel_binding=require`";
  return {
    host,
    port,
    user: user || undefined,
    password: password || undefined,
    passwordFile,
    database: database || undefined,
    poolSize,
    applicationName: parameters.get("application_name") ?? "sign-in-service",
    settings,
    connectTimeoutSeconds: timeout === 0 ? undefined : timeout,
    channelBinding,
    tls,
  };
}

/**
 * `-c NAME=VALUE` or `--NAME=VALUE`, any number of times, as PostgreSQL reads them: a backslash makes a space part of a value.
 * @returns `undefined` for anything else.
 */
function readSettings(options: string): PostgresAddress["settings"] | undefined {
  const words = options.match(/(?:\\.|[^\s\\])+/gu) ?? [];
  const settings: [name: string, value: string][] = [];
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] === "-c" ? `-c${words[(at += 1)] ?? ""}` : words[at];
    const [, name, value] = /^(?:-c|--)([a-z_][\w.-]*)=(.*)$/iu.exec(word ?? "") ?? [];
    if (name === undefined || value === undefined) return undefined;
    settings.push([name.replaceAll("-", "_"), value.replaceAll(/\\(.)/gu, "$1")]);
  }
  return settings;
}

function readTls(parameters: ReadonlyMap<string, string>): PostgresAddress["tls"] | string {
  const [ca, cert, key] = ["sslrootcert", "sslcert", "sslkey"].map((name) => parameters.get(name));
  const hasFiles = [ca, cert, key].some((path) => path !== undefined);
  const wanted = parameters.get("sslmode") ?? (hasFiles ? "verify-full" : "disable");
  if (wanted === "disable") return hasFiles ? "has files for TLS, and an `sslmode` without TLS" : undefined;
  const mode = TLS_MODES.find((each) => each === wanted);
  // `require` and `prefer` check the server with some clients and not with others.
  if (mode === undefined) {
    return "needs an `sslmode` of `verify-full`, `verify-ca` (any name in the certificate), `no-verify` (any certificate) or `disable`";
  }
  if (mode === "verify-ca" && ca === undefined) return "needs `sslrootcert` with `sslmode=verify-ca`";
  if ((cert === undefined) !== (key === undefined)) return "needs `sslcert` and `sslkey` together";
  return { mode, ca, cert, key };
}

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
  if (url === null) return `must be ${REDIS.form}`;
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
