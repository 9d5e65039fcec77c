/** Reads the address of a storage from arguments, environment variables and configuration files. */
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import { accountSettings, type AccountSettings } from "../../config/attributes.ts";
import { isSecret } from "../../config/keys.ts";
import {
  addressProblem,
  databaseFile,
  DEFAULT_STORAGE,
  describeStore,
  isInMemory,
  serversOf,
} from "../../config/storage-address.ts";
import { CommandFailure, misused } from "./command-failure.ts";
import type { ReadVariable, CommandContext } from "./command.ts";
import type { Arguments } from "./arguments.ts";
import { readJsonObject } from "./json-file.ts";
import { isConfigured, readSettings } from "./settings.ts";

/** The addresses of a storage and its artifacts. */
export interface StorageAddress {
  readonly storage: string;
  /** `undefined`: in the storage. */
  readonly artifacts: string | undefined;
  /** Where its `keys.secrets` are: a phrase for messages. */
  readonly secrets: string;
  /** Its `keys.secrets`, if the configuration has them. */
  readonly keys?: readonly string[];
  /** What its configuration says about accounts; missing without a configuration. */
  readonly accounts?: AccountSettings;
}

/** The arguments of a command for one storage. */
interface AddressArguments {
  /** Its name in messages, such as `FROM`. */
  readonly name: string;
  readonly address: string | undefined;
  readonly artifacts: string | undefined;
  /** A configuration file, instead of the two. */
  readonly config: string | undefined;
}

const VARIABLE = "env:";

/** Replaces `env:NAME` by the value of that variable. */
export function resolveVariable(text: string, readVariable: ReadVariable): string {
  if (!text.startsWith(VARIABLE)) return text;
  const name = text.slice(VARIABLE.length);
  const value = readVariable(name);
  if (value === undefined) throw misused(`The environment variable ${name} is not set`);
  return value;
}

/** Warns about an address with a password that was given as an argument. @param argument names it in the warning. */
export function warnAboutPassword(argument: string, text: string, err: CommandContext["err"]): void {
  if (!/^[a-z+]+:\/\/[^/@]*:[^/@]+@/u.test(text)) return;
  err.write(
    `warning: other users of this machine can read the password in ${argument}, and your shell may keep it. Put the address in a variable, and give env:NAME\n`,
  );
}

function checkStorage(storage: string, name: string): string {
  const problem = addressProblem("storage", storage);
  if (problem !== undefined) {
    throw misused(
      `${name} ${problem.replaceAll("`", "")}. It can also be env:NAME, for the value of an environment variable`,
    );
  }
  if (isInMemory(storage)) throw misused(`${name} is in memory, where only its own process can read it`);
  return storage;
}

function checkArtifacts(artifacts: string, name: string): string {
  const problem = addressProblem("artifacts", artifacts);
  if (problem !== undefined)
    throw misused(`The address of ${name}'s artifacts ${problem.replaceAll("`", "")}`);
  return artifacts;
}

function textMember(file: object, name: string, path: string): string | undefined {
  const value: unknown = Reflect.get(file, name);
  if (value === undefined || typeof value === "string") return value;
  throw new CommandFailure(`${path}: ${name} must be a string.`, { code: "invalid_configuration" });
}

/** `storage` and `artifacts` of a configuration. Other keys are ignored. @param where it comes from. */
function addressIn(config: object, where: string, name: string): StorageAddress {
  const storage = checkStorage(textMember(config, "storage", where) ?? DEFAULT_STORAGE, name);
  const artifacts = textMember(config, "artifacts", where);
  const isElsewhere = artifacts !== undefined && artifacts !== storage;
  const keys: unknown = Reflect.get(config, "keys");
  const secrets: unknown = Reflect.get(Object(keys), "secrets");
  const isSet = secrets !== undefined;
  const accounts = accountSettings.safeParse(Reflect.get(config, "accounts") ?? {});
  return {
    ...(isSecretList(secrets) && { keys: secrets }),
    ...(accounts.success && { accounts: accounts.data }),
    storage,
    artifacts: isElsewhere ? checkArtifacts(artifacts, name) : undefined,
    secrets: isSet ? `in ${where}` : secretsOf(storage),
  };
}

function isSecretList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string" && isSecret(each));
}

function secretsOf(storage: string): string {
  const database = databaseFile(storage);
  return database === undefined
    ? "in the old configuration"
    : `in ${database}.keys (or in the old configuration)`;
}

/** @throws CommandFailure with a sentence without the address, which may contain a password. */
export async function readAddress(
  options: AddressArguments,
  context: Pick<CommandContext, "readVariable" | "err">,
): Promise<StorageAddress> {
  const { name, address, artifacts, config } = options;
  if (config !== undefined) {
    if (address !== undefined || artifacts !== undefined) {
      throw misused(`${name} is given twice: by a configuration file and by an address`);
    }
    return addressIn(await readJsonObject(config), config, name);
  }
  if (address === undefined) throw misused(`${name} is missing`);
  const { readVariable, err } = context;
  const read = {
    storage: checkStorage(resolveVariable(address, readVariable), name),
    artifacts: artifacts && checkArtifacts(resolveVariable(artifacts, readVariable), name),
  };
  warnAboutPassword(name, address, err);
  warnAboutPassword(`the artifacts of ${name}`, artifacts ?? "", err);
  return { ...read, secrets: secretsOf(read.storage) };
}

/**
 * The address of the one storage that a command works on: the argument, or that of the configuration, which is read
 * as by all other commands.
 * @throws as {@link readAddress}
 */
export async function readOwnAddress(
  options: Omit<AddressArguments, "config">,
  args: Pick<Arguments, "text">,
  context: Pick<CommandContext, "readVariable" | "variables" | "err">,
): Promise<StorageAddress> {
  const config = args.text("config");
  const isGiven = options.address !== undefined || options.artifacts !== undefined;
  if (isGiven || !isConfigured(args, context)) return readAddress({ ...options, config }, context);
  const settings = await readSettings(args, context);
  return addressIn(settings.config, settings.file ?? "the environment", options.name);
}

/** The addresses for messages, without secrets. */
export function describeAddress({ storage, artifacts }: StorageAddress): string {
  const main = describeStore(storage);
  return artifacts === undefined ? main : `${main} + ${describeStore(artifacts)}`;
}

/** Identifies the servers and files of a storage, independent of users and the working folder. */
function identities({ storage, artifacts }: StorageAddress): string[] {
  const database = databaseFile(storage);
  const main = database === undefined ? serversOf(storage) : [resolve(database)];
  return artifacts === undefined ? [...main] : [...main, ...serversOf(artifacts)];
}

/** Whether two storages have a server or file in common. */
export function overlap(one: StorageAddress, other: StorageAddress): boolean {
  const own = identities(one);
  return identities(other).some((each) => own.includes(each));
}

/** Identifies the storage. */
export function identityOf(address: StorageAddress): string {
  return createHash("sha256")
    .update(JSON.stringify(identities(address)))
    .digest("base64url");
}
