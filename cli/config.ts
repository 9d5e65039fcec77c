/** `config`: checks and prints a configuration. */
import type { Command, Run } from "./program/command.ts";
import type { Given } from "./program/given.ts";
import { readServiceConfig, SERVICE_OPTIONS } from "./program/on-service.ts";
import { Printer } from "./program/printer.ts";

/** Keys with secrets: they are never printed. */
const SECRET: ReadonlySet<string> = new Set([
  "keys.cookies",
  "keys.signing",
  "keys.secrets",
  "metrics.token",
]);
/** Keys with addresses, whose parameters can contain a password. */
const ADDRESSES: ReadonlySet<string> = new Set(["storage", "artifacts", "queue", "mail", "mail.url"]);
/** Keys that only code can set. */
const CODE: ReadonlySet<string> = new Set(["logger", "clock", "mailer", "fetch"]);

const REDACTED = "[redacted]";

/** A key of the configuration as `config print` shows it. */
interface Setting {
  readonly key: string;
  /** `null`: it is not set, and has no fixed default. */
  readonly value: unknown;
  readonly source: "file" | "default";
  /** What applies without a value. */
  readonly otherwise: string | null;
}

/** The configuration of the file. @throws ConfigurationError with all problems. */
async function validConfig(given: Given): Promise<unknown> {
  const { readConfiguration } = await import("../config/read.ts");
  const config = await readServiceConfig(given);
  readConfiguration(config);
  return config;
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

function redacted(key: string, value: unknown): unknown {
  if (SECRET.has(key)) return REDACTED;
  if (typeof value === "string") return withoutPassword(value, ADDRESSES.has(key));
  if (Array.isArray(value)) return value.map((each) => redacted(key, each));
  return value;
}

const check: Run = async (given, { out }) => {
  await validConfig(given);
  new Printer(out, given.flag("json")).done("The configuration is valid.", { valid: true });
  return 0;
};

const print: Run = async (given, { out }) => {
  const [config, { leavesOf }, { configurationSchema }] = await Promise.all([
    validConfig(given),
    import("../config/documented-schema.ts"),
    import("../config/schema.ts"),
  ]);
  const leaves = leavesOf(configurationSchema).filter(({ path: [first = ""] }) => !CODE.has(first));
  const settings = leaves.flatMap(({ path, byDefault, otherwise }): readonly Setting[] => {
    const [key, written] = [path.join("."), valueAt(config, path)];
    // The keys of an object have lines of their own.
    if (key === "mail" && typeof written === "object") return [];
    if (written !== undefined)
      return [{ key, value: redacted(key, written), source: "file", otherwise: null }];
    const isFixed = byDefault !== undefined;
    return [
      { key, value: byDefault ?? null, source: "default", otherwise: isFixed ? null : (otherwise ?? "none") },
    ];
  });
  new Printer(out, given.flag("json")).rows(settings, ["key", "source", "value", "otherwise"]);
  return 0;
};

export const configCommands: readonly Command[] = [
  {
    words: ["config", "check"],
    summary: "checks a configuration, and lists all problems",
    about:
      "Opens no storage. Problems go to standard error, one a line; none contains a value. The server checks port and seed.",
    options: SERVICE_OPTIONS,
    examples: ["config check --config config.json"],
    load: async () => check,
  },
  {
    words: ["config", "print"],
    summary: "prints every key with its value, and whether it comes from the file or is the default",
    about: "Secrets are redacted, and so are the users, passwords and parameters of addresses.",
    options: SERVICE_OPTIONS,
    examples: ["config print --config config.json"],
    load: async () => print,
  },
];
