/** Reads the configuration for all commands: the file, then environment variables. */
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { nodesOf } from "../../config/documented-schema.ts";
import { fileSchema } from "../../config/file-schema.ts";
import { configurationSchema } from "../../config/schema.ts";
import { isInMemory } from "../../config/storage-address.ts";
import {
  CONFIG_VARIABLE,
  nameVariables,
  readVariables,
  variableBehind,
  withVariables,
} from "../../config/variables.ts";
import { ConfigurationError } from "../../core/errors.ts";
import type { CommandContext } from "./command.ts";
import { CommandFailure, misused } from "./command-failure.ts";
import type { Arguments } from "./arguments.ts";
import { readJsonObject } from "./json-file.ts";

/** The configuration file if nothing names another one: that of the current folder. `init` writes it. */
export const USUAL_FILE = "sign-in.json";

/** The settings of a process, unchecked apart from the names of variables and the form of the file. */
export interface Settings {
  /** The configuration of the service. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The port of the bundled server. */
  readonly port: unknown;
  /** The address that the bundled server listens on. */
  readonly host: unknown;
  /** The seed that the bundled server applies at its start. */
  readonly seed: unknown;
  /** The path of the configuration file, if there is one. */
  readonly file: string | undefined;
  /** Where the value of a key comes from: `file`, the name of a variable, or `default`. */
  readonly sourceOf: (path: readonly string[]) => string;
  /** Runs what reads the configuration. @throws ConfigurationError with the variable behind each problem. */
  readonly explain: <T>(read: () => Promise<T>) => Promise<T>;
}

function hasValue(object: unknown, path: readonly string[]): boolean {
  let value = object;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return false;
    value = Reflect.get(value, key);
  }
  return value !== undefined;
}

/** The path of the configuration file, if there is one. */
function fileOf(
  args: Pick<Arguments, "text">,
  { variables }: Pick<CommandContext, "variables">,
): string | undefined {
  const named = args.text("config") ?? (variables.get(CONFIG_VARIABLE) || undefined);
  return named ?? (existsSync(USUAL_FILE) ? USUAL_FILE : undefined);
}

/** Whether there is a file or a variable to read. */
export function isConfigured(
  args: Pick<Arguments, "text">,
  context: Pick<CommandContext, "variables">,
): boolean {
  return context.variables.size > 0 || fileOf(args, context) !== undefined;
}

/** The permissions of users who are neither the owner nor in the group. */
const ALL_OTHERS = 0o007;

/** Whether every user of the machine can use the file. */
export async function isOpenToAll(path: string): Promise<boolean> {
  // Windows has no such bits. There, the access list of the folder protects the file.
  return process.platform !== "win32" && ((await stat(path)).mode & ALL_OTHERS) !== 0;
}

/** Like a key file: anyone with `keys.secrets` can decrypt what the storage keeps encrypted. */
async function refuseOpenFile(path: string): Promise<void> {
  if (!(await isOpenToAll(path))) return;
  throw new CommandFailure(
    `${path} contains keys.secrets and can be used by other users of this machine: chmod 600 it.`,
    { code: "invalid_configuration" },
  );
}

/**
 * Reads the configuration file, which `--config` or `SIGN_IN_CONFIG` names, or else `sign-in.json` of the current
 * folder, and puts the variables of the environment over it. The file may be missing if there are variables.
 *
 * @param acceptsOpenFile does not refuse a file with `keys.secrets` that other users can read: for `doctor`, which
 * reports it.
 * @throws CommandFailure with exit code 2; ConfigurationError with all problems of the environment.
 */
export async function readSettings(
  args: Pick<Arguments, "text">,
  context: Pick<CommandContext, "variables">,
  { acceptsOpenFile = false }: { readonly acceptsOpenFile?: boolean } = {},
): Promise<Settings> {
  if (!isConfigured(args, context))
    throw misused(
      `There is no configuration: name its file with --config or ${CONFIG_VARIABLE}, or create ${USUAL_FILE}`,
    );
  const path = fileOf(args, context);
  const { variables } = context;
  const file = path === undefined ? {} : await readJsonObject(path);
  if (path !== undefined && !acceptsOpenFile && hasValue(file, ["keys", "secrets"]))
    await refuseOpenFile(path);
  const nodes = [...nodesOf(configurationSchema), ...nodesOf(fileSchema)];
  const values = await readVariables(nodes, variables);
  // `$schema` is for editors.
  const { $schema: _editor, port, host, seed, ...config } = withVariables(file, values);
  return {
    config,
    port,
    host,
    seed,
    file: path,
    sourceOf: (key) => variableBehind(key, values) ?? (hasValue(file, key) ? "file" : "default"),
    async explain(read) {
      try {
        return await read();
      } catch (error) {
        if (!(error instanceof ConfigurationError)) throw error;
        throw new ConfigurationError(nameVariables(error.problems, values));
      }
    },
  };
}

/** @throws CommandFailure for a storage that no other process can open. */
export function refuseMemory(storage: string): void {
  if (isInMemory(storage))
    throw new CommandFailure("The storage is in memory, where only its own process can read it.", {
      code: "invalid_configuration",
    });
}
