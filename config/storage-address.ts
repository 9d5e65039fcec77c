/**
 * The addresses of stores. One table has a row for each family of addresses: configuration, help, commands and opening
 * read it. No message repeats an address, because it may hold a password.
 */
import {
  postgresSecretFiles,
  postgresServers,
  readPostgresAddress,
  type SecretFiles,
} from "./postgresql-address.ts";
import { describeRedis, readRedisAddress, REDIS_SCHEMES, redisSecretFiles } from "./redis-address.ts";
import { isPrintable, withoutCredentials } from "./value-forms.ts";

/** The code that opens a store: `adapters/open.ts` has an entry for each. */
export type Backend = "sqlite" | "postgresql" | "mongodb" | "redis";

/** The keys of the configuration that hold addresses. */
export type AddressKey = "storage" | "artifacts" | "queue";

interface AddressScheme {
  readonly backend: Backend;
  readonly schemes: readonly string[];
  /** The keys for which it can stand. What serves as `storage` holds the artifacts as well. */
  readonly serves: readonly AddressKey[];
  /** All forms of its addresses, for messages. */
  readonly forms: readonly string[];
  /** The usual forms, for the help of commands. */
  readonly usual: readonly string[];
  /** What is wrong with an address of one of the schemes; `undefined` if nothing is. */
  readonly problem: (address: string) => string | undefined;
  /** The address without secrets, for messages. Addresses of one store have the same. */
  readonly describe: (address: string) => string;
  /** Each server of the store, as `describe` would name it alone. Default: there is one. */
  readonly servers?: (address: string) => readonly string[];
  /** The files with secrets that the address names. */
  readonly secretFiles?: (address: string) => SecretFiles;
  /** The tools that back it up. Default: this program. */
  readonly backup?: string;
}

const SQLITE = "sqlite:";
const MEMORY = "sqlite::memory:";

const SCHEMES: readonly AddressScheme[] = [
  {
    backend: "sqlite",
    schemes: ["sqlite"],
    serves: ["storage"],
    forms: ["`sqlite:PATH`", "`sqlite::memory:`"],
    usual: ["sqlite:PATH"],
    problem: sqliteProblem,
    describe: (address) => address,
  },
  {
    backend: "postgresql",
    schemes: ["postgresql", "postgres"],
    serves: ["storage"],
    forms: ["`postgresql://…`"],
    usual: ["postgresql://USER@HOST/DATABASE"],
    problem: (address) => problemOf(readPostgresAddress(address)),
    describe: (address) => postgresServers(address).join(" or "),
    servers: postgresServers,
    secretFiles: postgresSecretFiles,
    backup: "PostgreSQL: use pg_dump and pg_restore",
  },
  {
    backend: "mongodb",
    schemes: ["mongodb", "mongodb+srv"],
    serves: ["storage"],
    forms: ["`mongodb://…`", "`mongodb+srv://…`"],
    usual: ["mongodb://USER@HOST/DATABASE"],
    problem: mongoProblem,
    describe: withoutCredentials,
    backup: "MongoDB: use mongodump --oplog and mongorestore --oplogReplay",
  },
  {
    backend: "redis",
    schemes: REDIS_SCHEMES,
    serves: ["artifacts", "queue"],
    forms: ["`redis://…`", "`rediss://…`", "`redis+sentinel://…`", "`redis+cluster://…`"],
    usual: ["redis://…", "rediss://…"],
    problem: (address) => problemOf(readRedisAddress(address)),
    describe: describeRedis,
    secretFiles: redisSecretFiles,
  },
];

/** Where everything is stored if the configuration doesn't say. */
export const DEFAULT_STORAGE = "sqlite:./sign-in.db";

function ofKey(key: AddressKey): readonly AddressScheme[] {
  return SCHEMES.filter(({ serves }) => serves.includes(key));
}

/** `a, b or c`. */
function alternatives(forms: readonly string[]): string {
  return [forms.slice(0, -1).join(", "), ...forms.slice(-1)].filter((part) => part !== "").join(" or ");
}

/** All addresses that a key may hold, for messages. */
export function addressForm(key: AddressKey): string {
  return alternatives(ofKey(key).flatMap(({ forms }) => forms));
}

/** The usual addresses that a key may hold, for the help of commands. */
export function usualAddress(key: AddressKey): string {
  return alternatives(ofKey(key).flatMap(({ usual }) => usual));
}

const BY_SCHEME: ReadonlyMap<string, AddressScheme> = new Map(
  SCHEMES.flatMap((row) => row.schemes.map((scheme) => [scheme, row])),
);

function rowOf(address: string): AddressScheme | undefined {
  return BY_SCHEME.get(/^[a-z+]+(?=:)/u.exec(address)?.[0] ?? "");
}

/** The backend of an address; `undefined` if it is not an address. */
export function backendOf(address: string): Backend | undefined {
  return rowOf(address)?.backend;
}

/** Whether the scheme of this address is one for the key. */
export function suits(key: AddressKey, address: string): boolean {
  return rowOf(address)?.serves.includes(key) === true;
}

/** What is wrong with the address that a key holds; `undefined` if nothing is. */
export function addressProblem(key: AddressKey, address: string): string | undefined {
  const row = rowOf(address);
  return row?.serves.includes(key) === true ? row.problem(address) : `must be ${addressForm(key)}`;
}

/** The address without secrets, for messages. Addresses of one store have the same. */
export function describeStore(address: string): string {
  return rowOf(address)?.describe(address) ?? "";
}

/** Identifies the servers of the store: stores with one in common are the same. */
export function serversOf(address: string): readonly string[] {
  return rowOf(address)?.servers?.(address) ?? [describeStore(address)];
}

/** The files with secrets that the address names, by the names of their parameters. */
export function secretFiles(address: string): SecretFiles {
  return rowOf(address)?.secretFiles?.(address) ?? [];
}

/** The tools that back up this storage; `undefined` if this program does. */
export function backupTools(storage: string): string | undefined {
  return rowOf(storage)?.backup;
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
