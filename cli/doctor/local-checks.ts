/** The checks of `doctor` that don't open the storage: the configuration, its secrets and its files. */
import { stat, statfs } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { leavesIn } from "../../config/documented-schema.ts";
import { fileSchema } from "../../config/file-schema.ts";
import { configurationSchema } from "../../config/schema.ts";
import { type HostState, nameOf } from "../../adapters/postgresql/hosts.ts";
import { networkFileSystem } from "../../adapters/sqlite/file-system.ts";
import { keyFileOf, readOrMakeKeyFile } from "../../config/keys.ts";
import type { Configuration } from "../../config/configuration.ts";
import { readPostgresAddress } from "../../config/postgresql-address.ts";
import { backendOf, databaseFile, secretFiles } from "../../config/storage-address.ts";
import { isClearSmtp, isLoopback } from "../../config/value-forms.ts";
import { createEvents } from "../../core/events.ts";
import { callbackPath } from "../../interactions/trips.ts";
import { createUpstream } from "../../upstream/upstream.ts";
import { ConfigurationError, SignInError } from "../../core/errors.ts";
import { adviceFor } from "../program/fault-advice.ts";
import { unfinishedFiles } from "../program/new-file.ts";
import { isOpenToAll, type Settings } from "../program/settings.ts";
import type { ConfigFile } from "../server/config-file.ts";
import { refuseDemoSecrets } from "../server/demo-secrets.ts";
import { type Check, type Finding, finding, sentence } from "./findings.ts";

export interface LocalSubject {
  readonly settings: Settings;
  readonly file: ConfigFile;
  readonly configuration: Configuration;
  /** The variables of the configuration. */
  readonly variables: ReadonlyMap<string, string>;
}

const OTHERS = 0o077;

/** Whether other users can read the file. A missing file has no mode. */
async function isOpen(path: string): Promise<boolean> {
  // Windows has no such bits.
  if (process.platform === "win32") return false;
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() === true && (found.mode & OTHERS) !== 0;
}

/** Whether the value of a key in the file must stay secret: `secret`, or an address with a password. */
function isSecret(holds: string | undefined, value: unknown): boolean {
  if (value === undefined) return false;
  if (holds === "address") return /^[a-z+]+:\/\/[^/?#]*:[^/?#]*@/iu.test(JSON.stringify(value).slice(1));
  return holds === "secret";
}

function hasSecrets({ config, seed, sourceOf }: Settings): boolean {
  const written = { ...config, seed };
  return [configurationSchema, fileSchema]
    .flatMap((schema) => leavesIn(schema, config))
    .filter(({ path }) => sourceOf(path) === "file")
    .some(({ path, holds }) => {
      let value: unknown = written;
      for (const key of path) value = Reflect.get(Object(value), key);
      return isSecret(holds, value);
    });
}

/** Whether every command but this one refuses the file. */
async function isRefused({ sourceOf }: Settings, file: string): Promise<boolean> {
  return sourceOf(["keys", "secrets"]) === "file" && (await isOpenToAll(file));
}

/** One finding for all readable files. */
function readable(files: readonly (readonly [file: string, path: string])[]): readonly Finding[] {
  const paths = files.map(([, path]) => path).join(" ");
  return files.map(([file]) => finding("file_readable", { file, paths }));
}

/** Backups that a killed run has left in the folder of the database or in the current one. */
async function leftBehind(database: string): Promise<readonly Finding[]> {
  const folders = [...new Set([dirname(resolve(database)), resolve(".")])];
  const left = await Promise.all(
    folders.map(async (folder) => (await unfinishedFiles(folder)).map((name) => join(folder, name))),
  );
  return left.flat().map((path) => finding("backup_unfinished", { path }));
}

const files: Check<LocalSubject> = {
  id: "files",
  async run({ settings, configuration: { storage, artifacts, queue, keys }, variables }) {
    const open: (readonly [what: string, path: string])[] = [];
    const { file } = settings;
    const found: Finding[] = [];
    if (file !== undefined && (await isRefused(settings, file)))
      found.push(finding("configuration_file_open", { paths: file }));
    else if (file !== undefined && hasSecrets(settings) && (await isOpen(file)))
      open.push([`The configuration ${file}, which contains secrets,`, file]);
    for (const [name, path] of variables)
      if (name.endsWith("_FILE") && (await isOpen(path))) open.push([`The file of ${name}`, path]);
    const named = new Map(
      [storage, artifacts, queue].flatMap(secretFiles).map(([name, path]) => [path, name]),
    );
    for (const [path, name] of named) if (await isOpen(path)) open.push([`The file of ${name}`, path]);
    const database = databaseFile(storage);
    if (database === undefined) return [...found, ...readable(open)];
    if (await isOpen(database)) open.push([`The database ${database}`, database]);
    found.push(...readable(open), ...(await leftBehind(database)));
    const keyFile = keyFileOf(storage);
    if (keys.secrets !== undefined || keyFile === undefined) return found;
    // The first start creates a missing file. If it should exist, opening the storage reports it.
    if ((await stat(keyFile).catch(() => undefined)) === undefined) return found;
    try {
      await readOrMakeKeyFile(keyFile, { mayCreate: false });
    } catch (error) {
      if (!(error instanceof SignInError)) throw error;
      found.push(finding("key_file_refused", { message: sentence(error.message) }));
    }
    return found;
  },
};

/** A random secret has more different bytes or characters: 32 random bytes have about 30. */
const MIN_BYTES = 16;
const MIN_CHARACTERS = 8;

function isWeak(secret: Iterable<unknown>, least: number): boolean {
  return new Set(secret).size < least;
}

const secrets: Check<LocalSubject> = {
  id: "secrets",
  async run({ file, configuration: { keys, metrics, storage } }) {
    const keyFile = keyFileOf(storage);
    const stored =
      keys.secrets ??
      (keyFile === undefined
        ? []
        : await readOrMakeKeyFile(keyFile, { mayCreate: false }).catch((): string[] => []));
    const weak = [
      ...stored
        .filter((key) => isWeak(Buffer.from(key, "base64"), MIN_BYTES))
        .map(() => (keys.secrets === undefined ? "the key file of the storage" : "keys.secrets")),
      ...(keys.cookies ?? []).filter((key) => isWeak(key, MIN_CHARACTERS)).map(() => "keys.cookies"),
      ...(metrics?.token !== undefined && isWeak(metrics.token, MIN_CHARACTERS) ? ["metrics.token"] : []),
    ];
    const found = [...new Set(weak)].map((place) => finding("secret_weak", { place }));
    try {
      refuseDemoSecrets(file);
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      for (const problem of error.problems)
        found.push(finding("secret_published", { message: `${problem}.` }));
    }
    if (metrics?.port !== undefined && metrics.token === undefined && !isLocal(metrics.host))
      found.push(finding("metrics_open", { host: metrics.host }));
    return found;
  },
};

function isLocal(host: string): boolean {
  return isLoopback(host === "::1" ? "[::1]" : host);
}

const proxy: Check<LocalSubject> = {
  id: "proxy",
  async run({ configuration: { deployments, proxy: trusted } }) {
    const isSecure = [deployments.oauth2, deployments.openid].some((each) => each?.secure === true);
    return isSecure && trusted === false ? [finding("proxy_unset", {})] : [];
  },
};

const mail: Check<LocalSubject> = {
  id: "mail",
  async run({ configuration: { mail: server } }) {
    if (server === undefined || "send" in server || !server.allowClearText || !isClearSmtp(server.url))
      return [];
    return [finding("mail_clear_text", {})];
  },
};

/** Asks each provider as a sign-in does, and shows the addresses to register there. */
const providers: Check<LocalSubject> = {
  id: "providers",
  async run({ configuration }) {
    const { clock, deployments } = configuration;
    const bases = [deployments.oauth2, deployments.openid].filter((each) => each !== undefined);
    const upstream = createUpstream({
      configuration,
      clock,
      events: createEvents(() => undefined),
      logger: { warn: () => undefined },
    });
    try {
      const examined = upstream.providers.map(async ({ key }) => {
        const addresses = bases.map(({ url }) => url + callbackPath(key));
        const found = await upstream.examine(key, addresses);
        return [
          ...found.map(({ problem, advice }) => finding("provider_refused", { message: problem, advice })),
          finding("provider_addresses", { key, addresses: addresses.join(" and ") }),
        ];
      });
      return (await Promise.all(examined)).flat();
    } finally {
      await upstream.close();
    }
  },
};

/** Bytes below which a disk counts as full: less than one day of a small service. */
const MIN_FREE_BYTES = 64 * 2 ** 20;

/** Reads go on when a disk is full, so opening the database does not notice it. */
async function fullDisk(database: string): Promise<readonly Finding[]> {
  // Before the first start there is no folder.
  const found = await statfs(dirname(database)).catch(() => undefined);
  if (found === undefined || found.bavail * found.bsize >= MIN_FREE_BYTES) return [];
  const free = Math.floor((found.bavail * found.bsize) / 2 ** 20);
  return [finding("disk_full", { megabytes: free })];
}

const fileSystem: Check<LocalSubject> = {
  id: "file-system",
  async run({ configuration: { storage } }) {
    const database = databaseFile(storage);
    if (database === undefined) return [];
    const name = await networkFileSystem(database);
    const full = await fullDisk(database);
    return name === undefined ? full : [...full, finding("network_file_system", { name })];
  },
};

/** A host of PostgreSQL in words. */
function describeHost({ host, answer }: HostState): string {
  const name = nameOf(host);
  if (answer === undefined) return `${name} does not answer`;
  if (answer.isStandby) return `${name} is a standby`;
  if (answer.isReadOnly) return `${name} takes no writes`;
  const { history } = answer;
  return `${name} is the primary${history === undefined ? "" : ` (timeline ${history.timeline})`}`;
}

const hosts: Check<LocalSubject> = {
  id: "hosts",
  async run({ configuration: { storage } }) {
    const address = backendOf(storage) === "postgresql" ? readPostgresAddress(storage) : "";
    if (typeof address === "string" || address.hosts.length < 2) return [];
    const { Connections } = await import("../../adapters/postgresql/connection.ts");
    const connections = await Connections.open(storage);
    const states = await connections.states();
    await connections.close();
    const primaries = states.filter(({ answer }) => answer !== undefined && !answer.isReadOnly);
    return [
      finding("hosts_known", { hosts: states.map(describeHost).join(", ") }),
      ...states.flatMap(({ host, reason }) =>
        reason === undefined
          ? []
          : [finding("host_unreachable", { host: nameOf(host), reason, advice: adviceFor({ reason }) })],
      ),
      // Hosts of one pooler are one server.
      ...(address.wanted === "any" || primaries.length < 2
        ? []
        : [finding("hosts_split", { hosts: primaries.map(describeHost).join(", ") })]),
    ];
  },
};

export const localChecks: readonly Check<LocalSubject>[] = [
  files,
  fileSystem,
  secrets,
  proxy,
  mail,
  providers,
  hosts,
];
