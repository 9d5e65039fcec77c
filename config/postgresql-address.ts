/** The address of a PostgreSQL, which may have several hosts. No message repeats an address, because it may hold a password. */
import { decoded, hostOf, isPrintable } from "./value-forms.ts";

/** Files, each with the name of its parameter. */
export type SecretFiles = readonly (readonly [name: string, path: string])[];

/** What TLS verifies about the server: its certificate and its name, only its certificate, or nothing. */
const TLS_MODES = ["verify-full", "verify-ca", "no-verify"] as const;

/** As in pgbouncer.ini: whether a pooler keeps a session of the server for each connection, or gives each transaction another one. */
const POOL_MODES = ["session", "transaction"] as const;

const CHANNEL_BINDINGS = ["disable", "prefer", "require"] as const;

/** What a connection asks of its server: nothing, that it takes writes, or that it is no standby. */
const SESSION_ATTRIBUTES = ["any", "read-write", "primary"] as const;

export interface PostgresHost {
  /** A name, an IP address, or the folder of a Unix socket, which begins with a slash. */
  readonly host: string;
  readonly port: number;
}

/** The parts of a PostgreSQL address: `postgresql://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?pool_size=10&…`. */
export interface PostgresAddress {
  /** At least one. */
  readonly hosts: readonly PostgresHost[];
  /** What the server of a connection must be. With several hosts, the default is `read-write`. */
  readonly wanted: (typeof SESSION_ATTRIBUTES)[number];
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Contains the password, read for each connection. */
  readonly passwordFile: string | undefined;
  readonly database: string | undefined;
  /** The most connections that a process opens for calls. */
  readonly poolSize: number;
  readonly poolMode: (typeof POOL_MODES)[number];
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
/** Every process looks for the primary at all of them. */
const MAX_HOSTS = 8;
const POOL_SIZE = 10;
const MAX_POOL_SIZE = 1_000;
const POSTGRES_PARAMETERS: ReadonlySet<string> = new Set([
  "host",
  "port",
  "target_session_attrs",
  "connect_timeout",
  "channel_binding",
  "pool_size",
  "pool_mode",
  "password_file",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "application_name",
  "options",
]);

/** Stands for the hosts, of which a URL has exactly one. */
const NO_HOST = "-";

/** Scheme, user and password, hosts, and the rest. libpq reads addresses without a host or with several, the parser of URLs does not. */
const PARTS = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#@]*)([/?#].*)?$/u;

interface Parts {
  /** With {@link NO_HOST}. */
  readonly url: URL;
  /** Each with its port, as it is written. */
  readonly hosts: readonly string[];
}

function partsOf(text: string): Parts | undefined {
  if (!isPrintable(text) || /\s/u.test(text)) return undefined;
  const [, scheme = "", user = "", hosts = "", rest = ""] = PARTS.exec(text) ?? [];
  const url = scheme === "" ? null : URL.parse(`${scheme}${user}${NO_HOST}${rest}`);
  return url === null ? undefined : { url, hosts: hosts.split(",") };
}

/** What is wrong with the names of the parameters. A misspelt `sslmode` must not become a connection without TLS. */
function parameterProblem({ search, searchParams }: URL): string | undefined {
  const names = [...searchParams.keys()];
  const wrong = names.find((name, index) => !POSTGRES_PARAMETERS.has(name) || names.indexOf(name) !== index);
  if (wrong === undefined) return undefined;
  const known = [...POSTGRES_PARAMETERS].join(", ");
  // After an unencoded `?` or `#` in a password, its rest would look like a parameter.
  if (search.includes("@") || !/^[a-z][a-z_]{0,40}$/u.test(wrong))
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

const NO_HOSTS = "is not a `postgresql://` URL with a host";
const NOT_ENCODED = "has a part in which a `%` is not followed by two hexadecimal digits";

/** `HOST:PORT`, `:PORT` or `HOST`. @returns a problem, if it is none of them. */
function readHost(text: string): { readonly host: string; readonly port: string } | string {
  const [, only] = /^:(\d+)$/u.exec(text) ?? [];
  if (text === "" || only !== undefined) return { host: "", port: only ?? "" };
  const url = URL.parse(`postgresql://${text}`);
  if (url === null || url.username !== "" || url.hostname === "") return NO_HOSTS;
  const host = hostOf(url);
  return host === undefined ? NOT_ENCODED : { host, port: url.port };
}

/** The hosts before the database, or those of `host` and `port`. */
function readHosts(
  texts: readonly string[],
  parameters: ReadonlyMap<string, string>,
): readonly PostgresHost[] | string {
  const named = texts.map(readHost);
  const read = named.filter((each) => typeof each !== "string");
  if (read.length < named.length) return named.find((each) => typeof each === "string") ?? NO_HOSTS;
  const hasNames = read.some(({ host }) => host !== "");
  if (hasNames && parameters.has("host")) return "has two hosts: one before the database, and `host`";
  if (read.some(({ port }) => port !== "") && parameters.has("port")) return "has two ports";
  const names = parameters.get("host")?.split(",") ?? read.map(({ host }) => host);
  if (names.some((name) => name === ""))
    return names.length === 1 ? NO_HOSTS : "has an empty name among its hosts";
  if (names.length > MAX_HOSTS) return `has more than ${MAX_HOSTS} hosts`;
  const asked = parameters.get("port")?.split(",") ?? read.map(({ port }) => port || String(POSTGRES_PORT));
  if (asked.length !== 1 && asked.length !== names.length)
    return "needs one `port` for all hosts, or one for each";
  const hosts = names.map((host, index) => ({
    host,
    port: numberIn(asked[asked.length === 1 ? 0 : index] ?? "", 1, 65_535) ?? 0,
  }));
  if (hosts.some(({ port }) => port === 0)) return "needs a `port` from 1 to 65535";
  const isTwice = new Set(hosts.map(({ host, port }) => `${host.toLowerCase()} ${port}`)).size < hosts.length;
  return isTwice ? "has the same host twice" : hosts;
}

/** @returns the address, or a problem that does not quote it. */
export function readPostgresAddress(text: string): PostgresAddress | string {
  const parts = partsOf(text);
  if (parts === undefined) return NO_HOSTS;
  const { url } = parts;
  const [user, password, database] = [url.username, url.password, url.pathname.slice(1)].map(decoded);
  if (user === undefined || password === undefined || database === undefined) return NOT_ENCODED;
  const parameters = new Map(url.searchParams);
  const problem = parameterProblem(url);
  if (problem !== undefined) return problem;
  if (url.hash !== "") return "has a `#`, which must be written as %23";
  const hosts = readHosts(parts.hosts, parameters);
  if (typeof hosts === "string") return hosts;
  const attributes = parameters.get("target_session_attrs") ?? (hosts.length > 1 ? "read-write" : "any");
  const wanted = SESSION_ATTRIBUTES.find((each) => each === attributes);
  if (wanted === undefined)
    return "needs a `target_session_attrs` of `read-write`, `primary` or `any`: the service writes, so it can't use a standby";
  const poolSize = numberIn(parameters.get("pool_size") ?? String(POOL_SIZE), 1, MAX_POOL_SIZE);
  if (poolSize === undefined) return `needs a \`pool_size\` from 1 to ${MAX_POOL_SIZE}`;
  const timeout = numberIn(parameters.get("connect_timeout") ?? "0", 0, 99_999);
  if (timeout === undefined) return "needs a `connect_timeout` in whole seconds";
  const passwordFile = parameters.get("password_file");
  if (passwordFile !== undefined && password !== "") return "has both a password and a `password_file`";
  const settings = readSettings(parameters.get("options") ?? "");
  if (settings === undefined) return "needs `options` of the form `-c NAME=VALUE`";
  const mode = parameters.get("pool_mode") ?? "session";
  const poolMode = POOL_MODES.find((each) => each === mode);
  if (poolMode === undefined) return "needs a `pool_mode` of `session` or `transaction`";
  // A session of a pooler has the search path that its role had when it began, or what another client has set.
  if (poolMode === "transaction" && settings.map(([name]) => name).join() !== "search_path")
    return "needs `options` with the schema of the storage, and without other settings, for `pool_mode=transaction`: `options=-c%20search_path%3Dpublic`";
  const tls = readTls(parameters);
  if (typeof tls === "string") return tls;
  if (tls !== undefined && hosts.some(({ host }) => host.startsWith("/")))
    return "has TLS for a Unix socket, which needs none";
  const binding = parameters.get("channel_binding") ?? "disable";
  const channelBinding = CHANNEL_BINDINGS.find((each) => each === binding);
  if (channelBinding === undefined) return "needs a `channel_binding` of `require`, `prefer` or `disable`";
  if (channelBinding === "require" && tls === undefined)
    return "needs an `sslmode` with TLS for `channel_binding=require`";
  return {
    hosts,
    wanted,
    user: user || undefined,
    password: password || undefined,
    passwordFile,
    database: database || undefined,
    poolSize,
    poolMode,
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

/** The servers of the address, each with the database, without user, password and options. */
export function postgresServers(text: string): readonly string[] {
  const address = readPostgresAddress(text);
  if (typeof address === "string") return [];
  const database = address.database ?? "";
  return address.hosts.map(({ host, port }) => {
    const at = port === POSTGRES_PORT ? "" : `:${port}`;
    if (host.startsWith("/"))
      return `postgresql:///${database}?host=${host}${at === "" ? "" : `&port=${port}`}`;
    return `postgresql://${host.includes(":") ? `[${host}]` : host}${at}/${database}`;
  });
}

/** The files with secrets that the address names, by the names of their parameters. */
export function postgresSecretFiles(text: string): SecretFiles {
  const address = readPostgresAddress(text);
  if (typeof address === "string") return [];
  const { passwordFile, tls } = address;
  return [
    ...(passwordFile === undefined ? [] : [["password_file", passwordFile] as const]),
    ...(tls?.key === undefined ? [] : [["sslkey", tls.key] as const]),
  ];
}
