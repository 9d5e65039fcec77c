/** The addresses of PostgreSQL. No message repeats an address, because it may hold a password. */
import { decoded, hostOf, isPrintable, withoutCredentials } from "./value-forms.ts";

/** Files, each with the name of its parameter. */
export type SecretFiles = readonly (readonly [name: string, path: string])[];

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

/** The address without user, password and options, for messages. */
export function describePostgres(text: string): string {
  const address = readPostgresAddress(text);
  if (typeof address !== "string" && address.host.startsWith("/"))
    return `postgresql:///${address.database ?? ""}?host=${address.host}`;
  return withoutCredentials(text);
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
