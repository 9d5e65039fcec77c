/** `config`: checks and prints a configuration. */
import type { Command, CommandContext, Run } from "./program/command.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Leaf } from "../config/documented-schema.ts";
import { StorageMissing } from "../core/errors.ts";
import { SERVICE_OPTIONS } from "./program/on-service.ts";
import { Printer } from "./program/printer.ts";
import type { Settings } from "./program/settings.ts";
import type { ConfigFile } from "./server/config-file.ts";

const REDACTED = "[redacted]";

/** A key of the configuration as `config print` shows it. */
interface Setting {
  readonly key: string;
  /** `null`: it is not set, and has no fixed default. */
  readonly value: unknown;
  /** `file`, the name of a variable, or `default`. */
  readonly source: string;
  /** What applies without a value. */
  readonly otherwise: string | null;
}

/** The settings, and what they are after the check that the server makes. @throws ConfigurationError with all problems. */
async function validSettings(
  ...[args, context]: Parameters<Run>
): Promise<Settings & Pick<ConfigFile, "configuration">> {
  const [{ readSettings }, { checkSettings }] = await Promise.all([
    import("./program/settings.ts"),
    import("./server/config-file.ts"),
  ]);
  const settings = await readSettings(args, context);
  const { configuration } = await checkSettings(settings);
  return { ...settings, configuration };
}

function valueAt(config: unknown, path: readonly string[]): unknown {
  let value = config;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

/** An address without user and password. @param cutsQuery also without its parameters. */
function withoutPassword(text: string, cutsQuery: boolean): string {
  const [, scheme = "", rest = ""] = /^([a-z][a-z0-9+.-]*:\/\/)(.*)$/isu.exec(text) ?? [];
  if (scheme === "") return text;
  const [at, query] = [rest.lastIndexOf("@"), rest.indexOf("?")];
  // Either the password has a question mark, or a parameter has an at sign.
  if (query !== -1 && at > query) return scheme + REDACTED;
  const place = at === -1 ? rest : `${REDACTED}@${rest.slice(at + 1)}`;
  return scheme + (cutsQuery ? place.replace(/\?.*$/su, `?${REDACTED}`) : place);
}

function isInside(leaf: Leaf, { path }: Leaf): boolean {
  return leaf.path.length > path.length && path.every((key, index) => leaf.path[index] === key);
}

function redacted({ holds }: Leaf, value: unknown): unknown {
  if (holds === "secret") return REDACTED;
  if (typeof value === "string") return withoutPassword(value, holds === "address");
  return value;
}

const check: Run = async (args, context) => {
  const { configuration, explain } = await validSettings(args, context);
  const printer = new Printer(context.out, args.flag("json"));
  if (!args.flag("storage")) {
    printer.done("The configuration is valid.", { valid: true });
    return 0;
  }
  const { refuseMemory } = await import("./program/settings.ts");
  refuseMemory(configuration.storage);
  const said = await explain(() => checkStorage(configuration, context));
  printer.done(said, { valid: true });
  return 0;
};

/** Opens the storage as a start does, and writes nothing. @returns a sentence. */
async function checkStorage(
  configuration: Configuration,
  { err }: Pick<CommandContext, "err">,
): Promise<string> {
  const [{ openStorage }, { openSealer }] = await Promise.all([
    import("../records/storage.ts"),
    import("../accounts/keys/service-keys.ts"),
  ]);
  try {
    const tell = (text: string): void => void err.write(`${text}\n`);
    const storage = await openStorage({ ...configuration, mustExist: true }, tell);
    try {
      const { ids } = await openSealer(configuration, storage, { mustExist: true, asConfigured: true });
      const known = await storage.secrets.read();
      return known.some(({ id }) => id === ids[0])
        ? "The configuration is valid, and keys.secrets fits the storage."
        : `The configuration is valid, and keys.secrets fits the storage. A start makes its first secret, ${ids[0]}, the newest.`;
    } finally {
      await storage.close();
    }
  } catch (error) {
    if (!(error instanceof StorageMissing)) throw error;
    return "The configuration is valid. No server has used this storage yet.";
  }
}

const print: Run = async (args, context) => {
  const [{ config, port, host, seed, sourceOf }, { leavesIn }, { configurationSchema }, { fileSchema }] =
    await Promise.all([
      validSettings(args, context),
      import("../config/documented-schema.ts"),
      import("../config/schema.ts"),
      import("../config/file-schema.ts"),
    ]);
  const leaves = [configurationSchema, fileSchema]
    .flatMap((schema) => leavesIn(schema, config))
    .filter(({ holds }) => holds !== "code");
  const settings = leaves.flatMap((leaf): readonly Setting[] => {
    const { path, byDefault, otherwise } = leaf;
    const [key, written] = [path.join("."), valueAt({ ...config, port, host, seed }, path)];
    // The keys of an object have lines of their own.
    if (typeof written === "object" && leaves.some((other) => isInside(other, leaf))) return [];
    if (written !== undefined)
      return [{ key, value: redacted(leaf, written), source: sourceOf(path), otherwise: null }];
    const isFixed = byDefault !== undefined;
    return [
      { key, value: byDefault ?? null, source: "default", otherwise: isFixed ? null : (otherwise ?? "none") },
    ];
  });
  const printer = new Printer(context.out, args.flag("json"));
  printer.rows(settings, ["key", "source", "value", "otherwise"]);
  return 0;
};

export const configCommands: readonly Command[] = [
  {
    words: ["config", "check"],
    summary: "checks a configuration, and lists all problems",
    about: `Runs the same checks as the server, including those of port and seed, but opens no storage. Problems go to standard error, one per
line, and contain no values. With --storage it opens the storage as well, writes nothing, and checks what a start does: whether it can be
used, and whether keys.secrets has all secrets that it needs, the newest first.`,
    options: [
      ...SERVICE_OPTIONS,
      { form: "--storage", about: "also opens the storage, and checks that keys.secrets fits it" },
    ],
    examples: ["config check", "config check --storage"],
    load: async () => check,
  },
  {
    words: ["config", "print"],
    summary: "prints every key with its value and where it comes from: the file, a variable, or the default",
    about: "Secrets are redacted, and so are the users, passwords and parameters of addresses.",
    options: SERVICE_OPTIONS,
    examples: ["config print"],
    load: async () => print,
  },
];
