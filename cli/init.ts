/** `init`: writes a configuration. */
import { configurationSchema } from "../config/schema.ts";
import { nodesOf } from "../config/documented-schema.ts";
import { makeSecret } from "../config/keys.ts";
import { isPlainObject } from "../config/plain-data.ts";
import { writePrivateFile } from "../config/private-file.ts";
import { readConfiguration } from "../config/read.ts";
import { databaseFile, DEFAULT_STORAGE, usualAddress } from "../config/storage-address.ts";
import { isLoopback } from "../config/value-forms.ts";
import { CONFIG_VARIABLE, readVariables, variableOf, withVariables } from "../config/variables.ts";
import { ConfigurationError, neededUser } from "../core/errors.ts";
import { resolveVariable, warnAboutPassword } from "./program/addresses.ts";
import type { Run, CommandContext } from "./program/command.ts";
import { CommandFailure, misused } from "./program/command-failure.ts";
import type { Arguments } from "./program/arguments.ts";
import { readJsonObject } from "./program/json-file.ts";
import { Printer } from "./program/printer.ts";
import { USUAL_FILE } from "./program/settings.ts";

type Config = Record<string, unknown>;

/** One setting to ask for. */
interface Question {
  readonly option: string;
  /** The key that it sets, and the top-level keys whose problems are about it. */
  readonly path: readonly string[];
  readonly asked: string;
  /** Whether to ask, given the earlier answers. */
  readonly matters: (config: Config) => boolean;
  /** The value without an answer; `undefined` leaves the key out. */
  readonly byDefault: (config: Config) => string | undefined;
}

const always = (): boolean => true;

const QUESTIONS: readonly Question[] = [
  {
    option: "url",
    path: ["deployments", "oauth2", "url"],
    asked: "Address of the service as browsers see it",
    matters: always,
    byDefault: () => "http://localhost:3000",
  },
  {
    option: "name",
    path: ["interactions", "theme", "name"],
    asked: "Name of the service, on its pages and in its mail",
    matters: (config) => isPublic(config),
    byDefault: (config) => urlOf(config)?.hostname,
  },
  {
    option: "proxy",
    path: ["proxy"],
    asked: "Proxies in front of it: how many in a row, or their addresses",
    matters: (config) => isPublic(config),
    byDefault: () => "1",
  },
  {
    option: "storage",
    path: ["storage"],
    asked: `Storage: ${usualAddress("storage")}`,
    matters: always,
    byDefault: () => DEFAULT_STORAGE,
  },
  {
    option: "mail",
    path: ["mail", "url"],
    asked: "Mail server, such as smtps://USER@HOST; without one, nobody can reset a password",
    matters: always,
    byDefault: () => undefined,
  },
  {
    option: "mail-from",
    path: ["mail", "from"],
    asked: "Sender of the mail",
    matters: ({ mail }) => mail !== undefined,
    byDefault: () => undefined,
  },
];

function urlOf(config: Config): URL | null {
  const deployments = isPlainObject(config["deployments"]) ? config["deployments"] : {};
  const oauth2 = isPlainObject(deployments["oauth2"]) ? deployments["oauth2"] : {};
  return typeof oauth2["url"] === "string" ? URL.parse(oauth2["url"]) : null;
}

/** Whether a proxy is needed: browsers use https, which the bundled server leaves to a proxy. */
function isPublic(config: Config): boolean {
  return urlOf(config)?.protocol === "https:";
}

/**
 * Adds both deployments, the port of a loopback address, and the secrets of a storage that has no key file beside it.
 */
function completed(config: Config): Config {
  const url = urlOf(config);
  const { storage } = config;
  return {
    ...(url !== null && isLoopback(url.hostname) && url.port !== "" && { port: Number(url.port) }),
    ...config,
    ...(url !== null && {
      deployments: {
        oauth2: { url: url.href.replace(/\/+$/u, "") },
        openid: { url: `${url.href.replace(/\/+$/u, "")}/openid` },
      },
    }),
    ...(typeof storage === "string" &&
      databaseFile(storage) === undefined &&
      config["keys"] === undefined && { keys: { secrets: [makeSecret()] } }),
  };
}

/** The problems of a configuration, as the server would name them. */
function problemsOf(config: Config): readonly string[] {
  const { port: _port, ...rest } = completed(config);
  try {
    readConfiguration(rest);
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
}

/** The configuration with an answer. @throws CommandFailure that names the option. */
async function answered(config: Config, { option, path }: Question, text: string): Promise<Config> {
  // An answer is written like the variable of its key.
  const variable = new Map([[variableOf(path), option === "proxy" && text === "0" ? "false" : text]]);
  const next = withVariables(config, await readVariables(nodesOf(configurationSchema), variable));
  const problems = problemsOf(next).filter((problem) => problem.startsWith(`config.${path[0]}`));
  if (problems.length === 0) return next;
  // Both deployments have the same problems.
  const texts = new Set(problems.map((problem) => problem.replace(/^[^:]+: /u, "")));
  throw new CommandFailure(`--${option} ${[...texts].join("; ")}.`, { code: "invalid_argument" });
}

/** Asks for the password of an address that has a user without one. The password is not shown. */
async function withPassword(text: string, { askSecret }: CommandContext): Promise<string> {
  const [, start = "", rest = ""] = /^([a-z+]+:\/\/[^\s/:@]+)(@.*)$/su.exec(text) ?? [];
  if (start === "" || askSecret === undefined) return text;
  const password = await askSecret("  Its password, if it has one: ");
  return password === "" ? text : `${start}:${encodeURIComponent(password)}${rest}`;
}

/** Asks until the answer is valid. */
async function asked(
  config: Config,
  question: Question,
  ask: NonNullable<CommandContext["ask"]>,
  context: CommandContext,
): Promise<Config> {
  const byDefault = question.byDefault(config);
  for (;;) {
    context.signal.throwIfAborted();
    const line = await ask(`${question.asked} [${byDefault ?? "none"}]: `);
    const typed = line.trim() === "" ? byDefault : line.trim();
    if (typed === undefined) return config;
    try {
      return await answered(config, question, await withPassword(typed, context));
    } catch (error) {
      if (!(error instanceof CommandFailure)) throw error;
      context.err.write(`  ${error.message.replace(/^--\S+ /u, "It ")}\n`);
    }
  }
}

async function decide(args: Arguments, context: CommandContext): Promise<Config> {
  const { ask } = context;
  const isSilent = args.flag("yes");
  if (!isSilent && ask === undefined)
    throw misused(
      "There is no terminal for questions: pass --yes, and options for what differs from the defaults",
    );
  let config: Config = {};
  for (const question of QUESTIONS) {
    const option = args.text(question.option);
    if (option !== undefined) {
      config = await answered(config, question, resolveVariable(option, context.readVariable));
      warnAboutPassword(`--${question.option}`, option, context.err);
    } else if (question.matters(config)) {
      if (!isSilent && ask !== undefined) config = await asked(config, question, ask, context);
      else {
        const byDefault = question.byDefault(config);
        if (byDefault !== undefined) config = await answered(config, question, byDefault);
      }
    }
  }
  return config;
}

/** What an existing file must keep: without its keys, nothing that the storage has encrypted can be read. */
async function keptKeys(path: string): Promise<Config> {
  try {
    const { keys } = await readJsonObject(path);
    return keys === undefined ? {} : { keys };
  } catch (error) {
    const cause = error instanceof CommandFailure ? error.cause : undefined;
    if (Reflect.get(Object(cause), "code") === "ENOENT") return {};
    throw new CommandFailure(`${path} can't be read, and it may contain keys: move it away.`, {
      cause: error,
    });
  }
}

function failed(path: string, error: unknown): unknown {
  const code: unknown = Reflect.get(Object(error), "code");
  if (typeof code !== "string") return error;
  if (code === "EEXIST")
    return new CommandFailure(`${path} exists. With --overwrite, it is replaced, and its keys are kept.`);
  return new CommandFailure(`${path} can't be written: ${code}${neededUser(code, path)}.`, { cause: error });
}

export const runInit: Run = async (args, context) => {
  const path = args.text("config") ?? (context.variables.get(CONFIG_VARIABLE) || USUAL_FILE);
  const isReplaced = args.flag("overwrite");
  if (!isReplaced) await refuseExisting(path);
  const kept = isReplaced ? await keptKeys(path) : {};
  const config = completed({ ...(await decide(args, context)), ...kept });
  const problems = problemsOf(config);
  if (problems.length > 0) throw new ConfigurationError(problems);
  context.signal.throwIfAborted();
  try {
    const place = isReplaced ? "rename" : "link";
    await writePrivateFile(path, `${JSON.stringify(config, null, 2)}\n`, { place });
  } catch (error) {
    throw failed(path, error);
  }
  // Commands find the usual file in its folder.
  const named = path === USUAL_FILE ? "" : ` --config ${/^[\w./-]+$/u.test(path) ? path : `'${path}'`}`;
  const program = context.readVariable("npm_command") === "exec" ? "npx sign-in-service" : "sign-in-service";
  const next = [
    "serve",
    "services put news --name News",
    "clients register --client-id news --name News --service news --redirect-uri https://news.example/callback",
  ].map((words) => `${program} ${words}${named}`);
  const sentence = `${path} is written; only you can read it. Start the server, and register the first client while it runs:\n\n`;
  if (args.flag("json")) new Printer(context.out, true).done("", { file: path, next });
  else context.out.write(`${sentence}${next.map((line) => `  ${line}\n`).join("")}`);
  return 0;
};

/** Called before the questions, so that nobody answers them in vain. */
async function refuseExisting(path: string): Promise<void> {
  const { lstat } = await import("node:fs/promises");
  const found = await lstat(path).catch(() => undefined);
  if (found !== undefined) throw failed(path, { code: "EEXIST" });
}
