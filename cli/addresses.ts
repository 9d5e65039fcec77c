/** Where a storage is, as a command is told: addresses, variables of the environment, configuration files. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { defaults } from "../config/defaults.ts";
import { isInMemory, isSqlite, isStorageAddress, readRedisAddress } from "../config/value-forms.ts";
import { CommandFailure, misused } from "./command-failure.ts";

/** A storage and where its artifacts are. */
export interface Place {
  readonly storage: string;
  /** `undefined`: with the storage. */
  readonly artifacts: string | undefined;
  /** Where its `keys.secrets` are, in words. */
  readonly secrets: string;
}

/** What a command line says about one storage. */
export interface PlaceWords {
  /** How a sentence names it: `FROM`. */
  readonly name: string;
  readonly address: string | undefined;
  readonly artifacts: string | undefined;
  /** A configuration file, in place of the two. */
  readonly config: string | undefined;
}

/** The value of a variable of the environment; `undefined` when it is not set. */
export type ReadVariable = (name: string) => string | undefined;

const VARIABLE = "env:";

/** `env:NAME` stands for what is in that variable. */
function resolveVariable(text: string, readVariable: ReadVariable): string {
  if (!text.startsWith(VARIABLE)) return text;
  const name = text.slice(VARIABLE.length);
  const value = readVariable(name);
  if (value === undefined) throw misused(`The environment variable ${name} is not set`);
  return value;
}

function checkStorage(storage: string, name: string): string {
  if (!isStorageAddress(storage)) {
    throw misused(
      `${name} must be sqlite:PATH, postgresql://…, mongodb://… or mongodb+srv://…, or env:NAME for one in a variable`,
    );
  }
  if (isInMemory(storage)) throw misused(`${name} is in memory, and ends with its process`);
  return storage;
}

function checkArtifacts(artifacts: string, name: string): string {
  const read = readRedisAddress(artifacts);
  if (typeof read === "string")
    throw misused(`The address of ${name}'s artifacts ${read.replaceAll("`", "")}`);
  return artifacts;
}

async function readJson(path: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new CommandFailure(`${path} can't be read (${String(Reflect.get(Object(cause), "code"))}).`, {
      cause,
    });
  }
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    // What the parser says quotes the file, which holds secrets.
    throw new CommandFailure(`${path} is no JSON.`);
  }
}

function textMember(file: object, name: string, path: string): string | undefined {
  const value: unknown = Reflect.get(file, name);
  if (value === undefined || typeof value === "string") return value;
  throw new CommandFailure(`${path}: ${name} must be a string.`);
}

/** `storage` and `artifacts` of a configuration file; what else it says is not looked at. */
async function readConfigFile(path: string, name: string): Promise<Place> {
  const file = await readJson(path);
  if (typeof file !== "object" || file === null) throw new CommandFailure(`${path} holds no configuration.`);
  const storage = checkStorage(textMember(file, "storage", path) ?? defaults.storage, name);
  const artifacts = textMember(file, "artifacts", path);
  const isElsewhere = artifacts !== undefined && artifacts !== storage;
  const keys: unknown = Reflect.get(file, "keys");
  const isConfigured = Reflect.get(Object(keys), "secrets") !== undefined;
  return {
    storage,
    artifacts: isElsewhere ? checkArtifacts(artifacts, name) : undefined,
    secrets: isConfigured ? `in ${path}` : secretsOf(storage),
  };
}

function secretsOf(storage: string): string {
  return isSqlite(storage)
    ? `in ${pathOf(storage)}.keys (or in the old configuration)`
    : "in the old configuration";
}

/** The path of an SQLite address. */
export function pathOf(storage: string): string {
  return storage.slice("sqlite:".length);
}

/** @throws CommandFailure with a sentence that repeats no address, for it may hold a password. */
export async function readPlace(words: PlaceWords, readVariable: ReadVariable): Promise<Place> {
  const { name, address, artifacts, config } = words;
  if (config !== undefined) {
    if (address !== undefined || artifacts !== undefined) {
      throw misused(`${name} is said twice: by a configuration file and by its address`);
    }
    return readConfigFile(config, name);
  }
  if (address === undefined) throw misused(`${name} is missing`);
  const storage = checkStorage(resolveVariable(address, readVariable), name);
  return {
    storage,
    artifacts: artifacts && checkArtifacts(resolveVariable(artifacts, readVariable), name),
    secrets: secretsOf(storage),
  };
}

/** A Redis without user and password. */
function describeRedis(address: string): string {
  const read = readRedisAddress(address);
  if (typeof read === "string") return "redis";
  const { tls, host, port, db, prefix } = read;
  const where = `${host.includes(":") ? `[${host}]` : host}:${port}/${db}`;
  return `${tls ? "rediss" : "redis"}://${where}${prefix === undefined ? "" : `?prefix=${prefix}`}`;
}

/** A storage without user, password and options. */
function describeStorage(storage: string): string {
  if (isSqlite(storage)) return storage;
  const [, scheme = "", , rest = ""] = /^([a-z+]+:\/\/)([^/]*@)?([^?]*)/u.exec(storage) ?? [];
  return scheme + rest;
}

/** A place for a person to read: no secrets. */
export function describePlace({ storage, artifacts }: Place): string {
  const main = describeStorage(storage);
  return artifacts === undefined ? main : `${main} + ${describeRedis(artifacts)}`;
}

/** The parts of a place, each the same for the same server or file, whoever asks and from which folder. */
function identities({ storage, artifacts }: Place): string[] {
  const main = isSqlite(storage) ? resolve(pathOf(storage)) : describeStorage(storage);
  return artifacts === undefined ? [main] : [main, describeRedis(artifacts)];
}

/** Whether two places have a server or file in common. */
export function overlap(one: Place, other: Place): boolean {
  const own = identities(one);
  return identities(other).some((each) => own.includes(each));
}

/** The same for the same place, and nothing else. */
export function identityOf(place: Place): string {
  return createHash("sha256")
    .update(JSON.stringify(identities(place)))
    .digest("base64url");
}
