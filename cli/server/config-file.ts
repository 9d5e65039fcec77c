/** Reads the file of `--config`: the configuration of the service, plus `port`, `host` and `seed`. */
import { open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { textsOf } from "../../config/documented-schema.ts";
import { fileSchema } from "../../config/file-schema.ts";
import type { Configuration } from "../../config/configuration.ts";
import { readConfiguration } from "../../config/read.ts";
import { ConfigurationError, type Seed as ServiceSeed, type SignInServiceConfig } from "../../lib/index.ts";
import type { CommandContext } from "../program/command.ts";
import type { Arguments } from "../program/arguments.ts";
import { isObject } from "../../core/untrusted-json.ts";
import type { ClientRows } from "../../accounts/clients/client-settings.ts";
import { fileProblem, readJsonObject } from "../program/json-file.ts";
import { readSettings, type Settings } from "../program/settings.ts";

export type Seed = ServiceSeed | undefined;

/** A file that has been checked as far as possible without a storage. */
export interface ConfigFile {
  /** Port to listen on, if the file has one. */
  readonly port: number | undefined;
  /** Address to listen on, if the file has one. */
  readonly host: string | undefined;
  readonly seed: Seed;
  /** As it is written: what a reload compares. */
  readonly config: SignInServiceConfig;
  /** The same after reading. */
  readonly configuration: Configuration;
}

/** Bytes of a logo that are read. */
const MAX_READ_BYTES = 100_001;

export { DEFAULT_PORT } from "../../config/file-schema.ts";

/** @throws CommandFailure with exit code 2 if the file can't be read or isn't JSON; ConfigurationError with all problems. */
export async function readConfigFile(path: string): Promise<ConfigFile> {
  return checkConfigFile(await readJsonObject(path), dirname(path));
}

/**
 * The seed with the bytes of the logos in place of their paths.
 * @param problems gets the logos that can't be read. Their clients are left without one.
 */
export async function withLogos(seed: unknown, folder: string, problems: string[]): Promise<unknown> {
  if (!isObject(seed) || !Array.isArray(seed["clients"])) return seed;
  const clients = seed["clients"].map(async (client: unknown, index) => {
    const path = isObject(client) ? client["logo"] : undefined;
    if (!isObject(client) || typeof path !== "string") return client;
    try {
      const file = await open(resolve(folder, path));
      try {
        // One byte more than a logo may have, so that a large file is refused without being read.
        const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_READ_BYTES), 0, MAX_READ_BYTES, 0);
        return { ...client, logo: buffer.subarray(0, bytesRead) };
      } finally {
        await file.close();
      }
    } catch (error) {
      const { code = "unknown" } = error as NodeJS.ErrnoException;
      problems.push(`config.seed.clients[${index}].logo: the file ${fileProblem(code)}`);
      return { ...client, logo: undefined };
    }
  });
  return { ...seed, clients: await Promise.all(clients) };
}

/**
 * Reads the configuration of a process: the file and the environment.
 * @throws CommandFailure with exit code 2; ConfigurationError with all problems.
 */
export async function readProcessConfig(
  args: Arguments,
  context: Pick<CommandContext, "variables">,
): Promise<ConfigFile> {
  return checkSettings(await settingsOf(args, context));
}

/** The settings of the file and the environment, and `--metrics-port` over them. */
async function settingsOf(args: Arguments, context: Pick<CommandContext, "variables">): Promise<Settings> {
  const port = args.port("metrics-port");
  const settings = await readSettings(args, context);
  const { metrics } = settings.config;
  if (port === undefined || !(metrics === undefined || isObject(metrics))) return settings;
  return { ...settings, config: { ...settings.config, metrics: { ...metrics, port } } };
}

/** @throws ConfigurationError with all problems. */
export async function checkSettings({
  config,
  port,
  host,
  seed,
  file = "",
  explain,
}: Settings): Promise<ConfigFile> {
  return explain(async () => checkConfigFile({ ...config, port, host, seed }, dirname(file)));
}

/**
 * Reads the configuration alone, for a process that neither listens nor applies the seed.
 * @throws CommandFailure with exit code 2; ConfigurationError with all problems.
 */
export async function readWorkerConfig(
  args: Arguments,
  context: Pick<CommandContext, "variables">,
): Promise<ConfigFile> {
  const { config, explain } = await settingsOf(args, context);
  return {
    config: config as unknown as SignInServiceConfig,
    configuration: await explain(async () => readConfiguration(config)),
    port: undefined,
    host: undefined,
    seed: undefined,
  };
}

/**
 * @param folder the one that paths in the file are relative to. Without it, no logo is read.
 * @param rows the kinds and settings of the clients in its seed. Default: those that every service has.
 * @throws ConfigurationError with all problems.
 */
export async function checkConfigFile(
  value: unknown,
  folder?: string,
  rows?: ClientRows,
): Promise<ConfigFile> {
  // `$schema` is for editors.
  const { $schema: _editor, port, host, seed: written, ...config } = objectOf(value);
  const missing: string[] = [];
  const seed = folder === undefined ? written : await withLogos(written, folder, missing);
  const { checkSeed, seedKeys } = await import("../../lib/seed.ts");
  let configuration: Configuration | undefined;
  const problems = [
    ...ownProblems({ port, host }),
    ...problemsOf(() => {
      configuration = readConfiguration(config, [...Object.keys(fileSchema.shape), ...seedKeys(rows)]);
    }),
    ...problemsOf(() => {
      if (seed !== undefined) checkSeed(seed, rows, configuration);
    }),
    ...missing,
  ];
  if (configuration === undefined || problems.length > 0) throw new ConfigurationError(problems);
  return {
    configuration,
    port: port as number | undefined,
    host: host as string | undefined,
    seed: seed as Seed,
    config: config as unknown as SignInServiceConfig,
  };
}

function objectOf(value: unknown): Record<string, unknown> {
  if (isObject(value)) return { ...value };
  throw new ConfigurationError(["config: must be an object"]);
}

function ownProblems(values: Readonly<Record<"port" | "host", unknown>>): readonly string[] {
  return (["port", "host"] as const).flatMap((key) => {
    const schema = fileSchema.shape[key];
    return schema.safeParse(values[key]).success ? [] : [`config.${key}: must be ${textsOf(schema).form}`];
  });
}

function problemsOf(check: () => unknown): readonly string[] {
  try {
    check();
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
}
