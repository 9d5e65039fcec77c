/** What `doctor` checks and what it can find, with the texts. `docs/reference/doctor.md` prints these tables. */
import { SERVER_FINDINGS } from "./server-findings.ts";

/** The checks by id, in the order in which they run. Each title is a phrase. */
export const CHECKS = {
  configuration: "unknown keys and wrong values",
  files: "the modes of files with secrets, and unfinished backups",
  "file-system": "the file system of the database, and its free space",
  secrets: "weak and missing secrets",
  proxy: "the proxy in front of https addresses",
  mail: "mail that goes unencrypted",
  providers: "providers to sign in with: their documents, the client, and the redirect addresses",
  hosts: "which hosts of a PostgreSQL with a standby answer, and which is the primary",
  storage: "whether the storage can be used",
  redis: "the settings of Redis, and with Sentinel or in a cluster its servers",
  clocks: "the clocks of the storage's servers",
  indexes: "damage of the database file, and its indexes",
  history: "whether the storage has gone back to an earlier state, and Redis was emptied",
  keys: "whether keys.secrets belong to the storage",
  search: "whether the search for people finds everybody",
  deployments: "whether the servers on this storage have these deployments",
  operators: "the accounts of operators, and whether their second factors open the console",
  clients: "the redirect addresses and origins of public clients",
  receivers: "connections to receivers of notifications, account events and logout tokens; nothing is sent",
  upgrade: "whether the storage and the configuration can go to another version (needs --against)",
  server: "whether the server answers",
  addresses: "issuer and base URLs, as the server is reached",
  cookies: "cookies that a browser would refuse, and redirects on the way to the login page",
  bodies: "a body parser in front of the service",
  "server-clock": "the clock of the server",
  requests: "Host, forwarding headers and bodies as the server got them (needs metrics.port)",
} as const;

export type CheckId = keyof typeof CHECKS;

/** Sentences with values in braces. The name of a value is the same in all three. */
interface FindingTexts {
  readonly check: CheckId;
  /** `problem`: something does not work, or is not safe. `warning`: it may be intended. `note`: nothing is wrong. */
  readonly level: "note" | "warning" | "problem";
  /** What is wrong. */
  readonly what: string;
  /** Why it matters. */
  readonly why: string;
  /** What to do. */
  readonly fix: string;
  /** Set if other checks can't be made because of it. */
  readonly isUnreachable?: true;
}

const STAYS = "The new version refuses to start, and changes nothing.";

const CHMOD = "Run: chmod 600 {paths}";
const SYNCHRONIZE = "Synchronize the clocks of all machines with NTP, for example with chrony.";
const CLOCK = {
  what: "The clock of {whose} is {seconds} seconds {side} that of this machine.",
  why: "Codes and tokens expire too early or too late, clients refuse ID tokens, and writes can miss their deadline.",
  fix: SYNCHRONIZE,
} as const;
export const FINDINGS = {
  file_readable: {
    check: "files",
    level: "warning",
    what: "{file} can be read by other users of this machine.",
    why: "Anyone who reads it can act as the service, or has the data of its accounts.",
    fix: CHMOD,
  },
  configuration_file_open: {
    check: "files",
    level: "problem",
    what: "The configuration {paths}, which contains keys.secrets, can be used by every user of this machine.",
    why: "The service does not start with it. Anyone who reads it can decrypt what the storage keeps encrypted.",
    fix: CHMOD,
  },
  key_file_refused: {
    check: "files",
    level: "problem",
    what: "{message}",
    why: "The service does not start with it.",
    fix: "If others can use it, run chmod 600 on it. If it is damaged, restore it from a backup.",
  },
  backup_unfinished: {
    check: "files",
    level: "warning",
    what: "A run of backup that was killed has left {path}.",
    why: "It takes space, and is no backup: no run continues or removes it.",
    fix: "If no other run writes it, delete it.",
  },
  disk_full: {
    check: "file-system",
    level: "problem",
    what: "The disk of the database is full: {megabytes} MB are free.",
    why: "Without room, every sign-in and every change gets a 503.",
    fix: "Make room on this disk. The service recovers by itself.",
  },
  network_file_system: {
    check: "file-system",
    level: "warning",
    what: "The database is on a network file system ({name}).",
    why: "Processes on several machines that use one SQLite file over a network damage it.",
    fix: "Put it on a local disk, or use PostgreSQL or MongoDB for more than one machine.",
  },
  secret_weak: {
    check: "secrets",
    level: "problem",
    what: "A secret in {place} is not random.",
    why: "It can be guessed, which exposes sessions, tokens and stored secrets.",
    fix: "Create one with: openssl rand -base64 32. For keys, put it first and keep the old one after it.",
  },
  secret_published: {
    check: "secrets",
    level: "problem",
    what: "{message}",
    why: "The server does not start with secrets that everybody can read.",
    fix: "Put a new secret in its place.",
  },
  metrics_open: {
    check: "secrets",
    level: "warning",
    what: "The metrics port listens on {host}, and needs no token.",
    why: "Anyone who can reach it sees how many people sign in, and where notifications fail.",
    fix: "Set metrics.token, or let metrics.host be 127.0.0.1.",
  },
  proxy_unset: {
    check: "proxy",
    level: "warning",
    what: "The addresses are https, and proxy is false.",
    why: "The bundled server speaks plain http, so something in front of it terminates TLS. Everybody appears to come from its address, and shares one rate limit.",
    fix: "Set proxy to 1, or to the addresses of the proxies. If your own server terminates TLS itself, leave it.",
  },
  mail_clear_text: {
    check: "mail",
    level: "warning",
    what: "Mail may go unencrypted to the mail server: mail.allowClearText is true.",
    why: "Anyone who reads it in transit can use its reset links, and gets the password of the mail server.",
    fix: "Use smtps://, or a server that offers STARTTLS, and remove mail.allowClearText.",
  },
  provider_refused: {
    check: "providers",
    level: "problem",
    what: "{message}",
    why: "Nobody can sign in with this provider.",
    fix: "{advice}",
  },
  provider_addresses: {
    check: "providers",
    level: "note",
    what: "The provider {key} sends people back to {addresses}.",
    why: "A provider does that only if the address is registered there.",
    fix: "Register each address with the client at the provider, exactly as it is here.",
  },
  hosts_known: {
    check: "hosts",
    level: "note",
    what: "{hosts}.",
    why: "All of them are in the address of the storage.",
    fix: "Nothing, if this is what you expect.",
  },
  host_unreachable: {
    check: "hosts",
    level: "warning",
    what: "{host} does not answer ({reason}).",
    why: "If the primary is lost meanwhile, this host can't take over.",
    fix: "{advice}",
  },
  hosts_split: {
    check: "hosts",
    level: "problem",
    what: "More than one host takes writes: {hosts}.",
    why: "What is written to one of them is missing in the other, and will be lost.",
    fix: "Stop the one with the older timeline, and make it a standby of the other. Look whether processes have written to it since the promotion.",
  },
  storage_in_memory: {
    check: "storage",
    level: "warning",
    what: "The storage is in memory.",
    why: "All data is gone when the server stops.",
    fix: "Set storage, unless this is a trial.",
  },
  storage_missing: {
    check: "storage",
    level: "warning",
    what: "{message}",
    why: "No server has used this storage yet, so it could not be checked.",
    fix: "Start the server once, and run this again. If it should contain data, correct storage.",
  },
  storage_unreachable: {
    check: "storage",
    level: "problem",
    what: "{message}",
    why: "Without it, the service answers every request with 503.",
    fix: "{advice}",
    isUnreachable: true,
  },
  storage_refused: {
    check: "storage",
    level: "problem",
    what: "{message}",
    why: "The service does not start with it.",
    fix: "Change the server as described, or the configuration.",
  },
  postgresql_shared: {
    check: "storage",
    level: "warning",
    what: "{message}",
    why: "Whoever can create functions there could later run code as the service. Each start looks whether somebody has.",
    fix: "Create a schema that belongs to the role of the service, and name it in its search_path.",
  },
  postgresql_host: {
    check: "storage",
    level: "warning",
    what: "{message}",
    why: "It changed while this command ran.",
    fix: "Find out what happens to the servers, and run this again.",
  },
  storage_clock_refused: {
    check: "storage",
    level: "problem",
    what: "{message}",
    why: "With more than 60 seconds of difference, no process starts or serves.",
    fix: SYNCHRONIZE,
  },
  redis_evicts: {
    check: "redis",
    level: "problem",
    what: "{message}",
    why: "A Redis that evicts keys deletes sessions, tokens and wake-ups that are still valid, without a trace.",
    fix: "Run CONFIG SET maxmemory-policy noeviction, and put it into redis.conf. Give Redis enough memory, and alert before it is full.",
  },
  redis_servers: {
    check: "redis",
    level: "note",
    what: "The Redis of config.{key}: {servers}.",
    why: "These are all that the sentinels or the cluster name.",
    fix: "Nothing, if this is what you expect.",
  },
  redis_server_unreachable: {
    check: "redis",
    level: "warning",
    what: "The {role} {server} of config.{key} can't be asked ({reason}).",
    why: "If the primary is lost meanwhile, there may be nothing to take over, or nobody to say so.",
    fix: "{advice}",
  },
  redis_server_evicts: {
    check: "redis",
    level: "problem",
    what: "The {role} {server} of config.{key} has maxmemory-policy {policy}.",
    why: "A Redis that evicts keys deletes sessions, tokens and wake-ups that are still valid, without a trace. A replica may become the primary at any time.",
    fix: "Run CONFIG SET maxmemory-policy noeviction there, and put it into its redis.conf.",
  },
  redis_slots_unserved: {
    check: "redis",
    level: "problem",
    what: "No primary of the cluster of config.{key} serves {count} of its 16384 slots.",
    why: "Unless cluster-require-full-coverage is no, the whole cluster refuses requests. If it is no, those for keys in these slots fail.",
    fix: "Start the primary that served them, or its replica. If both are lost, run redis-cli --cluster fix.",
  },
  redis_without_replica: {
    check: "redis",
    level: "warning",
    what: "The primary {server} of config.{key} has no replica.",
    why: "Nothing can take over when it is lost.",
    fix: "Give it a replica, or better two, or find out why they have lost it.",
  },
  redis_unfenced: {
    check: "redis",
    level: "warning",
    what: "The primary {server} of config.artifacts acknowledges what no replica has: min-replicas-to-write is 0, and the address has no replicas.",
    why: "When another server takes over, codes may work again that were used in the last moment, and tokens that were ended. One that is cut off goes on taking writes.",
    fix: "Add replicas=1 to the address (two replicas are needed then for one to fail), or set min-replicas-to-write 1 with min-replicas-max-lag on all servers.",
  },
  queue_unreachable: {
    check: "redis",
    level: "problem",
    what: "{message}",
    why: "Without it, notifications are late, and a worker is not healthy. People can sign in.",
    fix: "{advice}",
    isUnreachable: true,
  },
  storage_clock_differs: { check: "clocks", level: "warning", ...CLOCK },
  storage_clock_wrong: { check: "clocks", level: "problem", ...CLOCK },
  database_damaged: {
    check: "indexes",
    level: "problem",
    what: "The database has {damage} ({count} found).",
    why: "Accounts or tokens may not be found, and the next write can make it worse.",
    fix: "Run sign-in-service storage check with --repair, and restore a backup if that does not help.",
  },
  storage_went_back: {
    check: "history",
    level: "problem",
    what: "{message}",
    why: "Sessions, tokens, codes and links that have ended are valid again, a user_id can be given out twice, and notifications are sent again.",
    fix: "{advice}",
  },
  redis_emptied: {
    check: "history",
    level: "warning",
    what: "The Redis of config.artifacts was found empty at {time}.",
    why: "Everybody was signed out, and all codes and tokens of before are void.",
    fix: "Find out who emptied or restarted it, and give it appendonly yes and maxmemory-policy noeviction.",
  },
  keys_wrong: {
    check: "keys",
    level: "problem",
    what: "{message}",
    why: "The service does not start: the secrets of receivers and the signing keys in the storage can't be read.",
    fix: "Restore the keys.secrets, or the key file, that the storage was used with, the newest first.",
  },
  keys_reseal_pending: {
    check: "keys",
    level: "warning",
    what: "Not everything in the storage is encrypted with the first of keys.secrets.",
    why: "Anyone who has the old secret can still decrypt it, and the service does not start without the old secret.",
    fix: "Run sign-in-service keys reseal, and then remove the old secret.",
  },
  search_incomplete: {
    check: "search",
    level: "warning",
    what: "The search for people does not find every account.",
    why: "Whoever searches by the beginning of a name gets an error, and finds people by whole addresses and usernames only.",
    fix: "Run sign-in-service storage reindex, which works beside running servers.",
  },
  deployments_differ: {
    check: "deployments",
    level: "problem",
    what: "The last server on this storage was started at {started}, and this configuration has {configured}.",
    why: "Servers with other addresses break each other's account pages, and mail that a command causes links to the wrong address.",
    fix: "Give the servers and the command line the same deployments. If their address has just changed, restart all servers.",
  },
  operator_missing: {
    check: "operators",
    level: "warning",
    what: "The operator {sub} has no account in this storage.",
    why: "Nobody has this role, and the person who should have it is refused.",
    fix: "Correct operators. sign-in-service accounts find shows the sub of a person.",
  },
  operator_without_factor: {
    check: "operators",
    level: "warning",
    what: "The operator {sub} has no second factor.",
    why: "The console refuses them, and whoever steals their password can add a factor of their own.",
    fix: "Ask them to add a passkey or an authenticator app on the account page, or remove them from operators.",
  },
  operator_factor_new: {
    check: "operators",
    level: "warning",
    what: "The first second factor of the operator {sub} is younger than 24 hours, and nobody has confirmed it.",
    why: "Whoever steals a password can add one, so the console refuses them until it is old enough or confirmed.",
    fix: "Ask them in person whether they added it. If so, run: sign-in-service operators confirm {sub}. If not, remove it, set a new password and end their sessions.",
  },
  client_address_refused: {
    check: "clients",
    level: "problem",
    what: "The public client {client} has an address that this service does not accept: {problem}.",
    why: "Addresses on loopback are for development. Where other machines reach the service, people can't come back to them.",
    fix: "Set the addresses with clients update, or in the seed.",
  },
  client_address_claimable: {
    check: "clients",
    level: "warning",
    what: "The public client {client} has a redirect address that any application on a device can claim: {address}.",
    why: "Another application can receive its codes. It can't exchange them without the verifier, and people are asked each time.",
    fix: "Where the platform has them, use https addresses that the operating system gives to your application alone.",
  },
  receiver_refused: {
    check: "receivers",
    level: "problem",
    what: "{receiver} is refused by this configuration: {message}.",
    why: "A server with this configuration sends nothing there, so its service never learns of deleted and changed accounts, or of sign-outs.",
    fix: "If the address is right, add it, its network or its host to notifications.allowedReceivers, here and where the server has its configuration.",
  },
  receiver_refused_here: {
    check: "receivers",
    level: "warning",
    what: "{receiver} gets its notifications, but this command may not connect to it: {message}.",
    why: "The server has other values than this configuration, so what commands say about it can be wrong.",
    fix: "Give this configuration the notifications.allowedReceivers of the server.",
  },
  receiver_unreachable: {
    check: "receivers",
    level: "problem",
    what: "{receiver} can't be reached from this machine ({code}).",
    why: "What is sent there waits, is retried and is finally parked.",
    fix: "Check its address, its certificate and the firewall, then run sign-in-service receivers test.",
  },
  server_clock_differs: { check: "server-clock", level: "warning", ...CLOCK },
  server_clock_wrong: { check: "server-clock", level: "problem", ...CLOCK },
  upgrade_backwards: {
    check: "upgrade",
    level: "problem",
    what: "Version {version} is older than this one, which is {own}.",
    why: "An older version does not know what this one has written.",
    fix: "To go back, see Go back in docs/operate/day-to-day/upgrading.md.",
  },
  upgrade_format: {
    check: "upgrade",
    level: "problem",
    what: "The storage is in format {format}, which version {version} does not read.",
    why: STAYS,
    fix: "Upgrade to the minor versions in between one after the other, each with its storage migrate.",
  },
  upgrade_unfinished: {
    check: "upgrade",
    level: "problem",
    what: "The storage has not been changed to the format of this version yet.",
    why: "Version {version} reads the format of this version only if it is whole.",
    fix: "Run storage migrate of this version first.",
  },
  upgrade_stops: {
    check: "upgrade",
    level: "warning",
    what: "Version {version} needs format {next}, and a storage gets there in one step.",
    why: "The two versions can't run side by side.",
    fix: "Stop all servers and workers, run storage migrate of the new version, and start the new version.",
  },
  upgrade_migrates: {
    check: "upgrade",
    level: "note",
    what: "Version {version} writes format {next}. It runs beside this one until storage migrate.",
    why: "Until then you can go back by starting this version again.",
    fix: "Replace the processes one after the other, and then run storage migrate of the new version.",
  },
  upgrade_node: {
    check: "upgrade",
    level: "problem",
    what: "Version {version} needs Node.js {needed}, and this is {node}.",
    why: "It does not start on an older one.",
    fix: "Install the newer Node.js first: this version runs on it as well.",
  },
  upgrade_key: {
    check: "upgrade",
    level: "problem",
    what: "Version {version} has no key {key} in its configuration.",
    why: STAYS,
    fix: "Read in the changelog what takes its place.",
  },
  ...SERVER_FINDINGS,
} as const satisfies Readonly<Record<string, FindingTexts>>;

export type FindingCode = keyof typeof FINDINGS;

/** The names in the braces of a text. */
type ValuesIn<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ValuesIn<Rest>
  : never;

type ValuesOf<Code extends FindingCode> = Readonly<
  Record<ValuesIn<(typeof FINDINGS)[Code]["what" | "why" | "fix"]>, string | number>
>;

/** Something that is wrong. None of the texts contains a secret. */
export interface Finding extends FindingTexts {
  readonly code: FindingCode;
}

/** @param values what stands in the braces of the texts. */
export function finding<Code extends FindingCode>(code: Code, values: ValuesOf<Code>): Finding {
  const texts: FindingTexts = FINDINGS[code];
  const known = new Map<string, string | number>(Object.entries(values));
  const filled = (text: string): string =>
    text.replaceAll(/\{(\w+)\}/gu, (_braces, name: string) => String(known.get(name)));
  return { ...texts, code, what: filled(texts.what), why: filled(texts.why), fix: filled(texts.fix) };
}

/** A check of one thing. */
export interface Check<S> {
  readonly id: CheckId;
  /** @returns nothing if all is well. */
  readonly run: (subject: S) => Promise<readonly Finding[]>;
}

/** The message of an error as a sentence. The name of a key stays as it is. */
export function sentence(message: string): string {
  const first = /^\w+\./u.test(message) ? message.slice(0, 1) : message.slice(0, 1).toUpperCase();
  return `${first}${message.slice(1)}${message.endsWith(".") ? "" : "."}`;
}
