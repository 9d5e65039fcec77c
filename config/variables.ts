/**
 * The environment variables of the configuration: one for each key, made from the schema. `keys.secrets` is
 * `SIGN_IN_KEYS_SECRETS`, or `SIGN_IN_KEYS_SECRETS_FILE` with the path of a file that contains the value. Nothing here
 * reads the environment itself, and no message contains a value or a path.
 */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { z } from "zod";
import { ConfigurationError } from "../core/errors.ts";
import { isObjectName } from "../core/untrusted-keys.ts";
import { ANY_NAME, bare, type Leaf, type Node, textsOf } from "./documented-schema.ts";
import { findJsonFault } from "./json-text.ts";
import { isPlainObject } from "./plain-data.ts";
import { nearestKey } from "./nearest-key.ts";

/** All names begin with this. */
const PREFIX = "SIGN_IN_";
/** Ends the name of a variable that holds the path of a file. */
const FILE = "_FILE";
/** Names the configuration file itself. */
export const CONFIG_VARIABLE = "SIGN_IN_CONFIG";

/** Longer ones are refused without being read. */
const MAX_BYTES = 1_048_576;
const TOO_LONG = "is larger than 1 MiB";
const MAX_UNKNOWN = 20;

/** A value from the environment. */
interface VariableValue {
  readonly path: readonly string[];
  readonly value: unknown;
  /** The name of the variable. */
  readonly source: string;
}

/** `lifetimes.accessToken` → `SIGN_IN_LIFETIMES_ACCESS_TOKEN`. */
export function variableOf(path: readonly string[]): string {
  return PREFIX + path.map((key) => key.replaceAll(/(?<=[a-z\d])(?=[A-Z])/gu, "_").toUpperCase()).join("_");
}

/** The variable of a key; `undefined` if only code can set it. */
export function documentedVariable({ path, holds }: Leaf): string | undefined {
  return holds === "code" ? undefined : variableOf(path);
}

/** A name of one's own, such as the key of a provider, in the name of a variable: `MY_CORP` is `my-corp`. */
const OWN_NAME = "[A-Z][A-Z0-9_]{0,31}";

/** The node that a variable sets, with the name of one's own in its path. */
function nodeOf(name: string, known: ReadonlyMap<string, Node>): Node | undefined {
  const exact = known.get(name);
  if (exact !== undefined) return exact;
  for (const [pattern, node] of known) {
    const [before, after] = pattern.split(ANY_NAME);
    if (after === undefined) continue;
    const [, own] = new RegExp(`^${before}(${OWN_NAME})${after}$`, "u").exec(name) ?? [];
    const key = own?.toLowerCase().replaceAll("_", "-");
    if (key !== undefined && !isObjectName(key))
      return { ...node, path: node.path.map((step) => (step === ANY_NAME ? key : step)) };
  }
  return undefined;
}

/** The names that an unknown one may be meant for, with the name of one's own where each has it. */
function namesLike(name: string, known: ReadonlyMap<string, Node>): readonly string[] {
  const words = name.slice(PREFIX.length).split("_");
  return [CONFIG_VARIABLE, ...known.keys()].map((each) => {
    const like = each.slice(PREFIX.length);
    return like.replace(ANY_NAME, () => words[like.split("_").indexOf(ANY_NAME)] ?? "NAME");
  });
}

/** The variables by their names, of which some have {@link ANY_NAME}. */
export function variablesOf(nodes: readonly Node[]): ReadonlyMap<string, Node> {
  const written = nodes.filter(({ schema }) => textsOf(schema).holds !== "code");
  return new Map(written.map((node) => [variableOf(node.path), node]));
}

const LINK = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)$/u;

/** Whether Kubernetes made this variable for a service whose name begins with `sign-in`. It describes an address of that service. */
function isServiceLink(name: string, text: string): boolean {
  return LINK.test(name) || (name.endsWith("_PORT") && /^(?:tcp|udp|sctp):\/\//u.test(text));
}

/** Longer or unusual names are not shown: they may be secrets in the wrong place. */
function shown(name: string): string {
  return /^\w{1,100}$/u.test(name)
    ? `environment.${name}`
    : `environment[a name of ${name.length} characters]`;
}

function unknownProblem(name: string, known: readonly string[]): string {
  const isFile = name.endsWith(FILE);
  const bareName = isFile ? name.slice(0, -FILE.length) : name;
  const nearest = nearestKey(bareName.slice(PREFIX.length), known, []);
  if (nearest === undefined) return `${shown(name)}: unknown variable`;
  const suggestion = `${PREFIX}${nearest.path}${isFile && PREFIX + nearest.path !== CONFIG_VARIABLE ? FILE : ""}`;
  return nearest.close
    ? `${shown(name)}: unknown variable; did you mean "${suggestion}"?`
    : `${shown(name)}: unknown variable; the nearest known one is "${suggestion}"`;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  ENOTDIR: "does not exist",
  EACCES: "can't be read: permission denied",
};

class Refusal extends Error {}

/** The content of a file, without the line break at its end. @throws Refusal */
async function contentOf(path: string): Promise<string> {
  try {
    // Without O_NONBLOCK, opening a pipe would wait forever for its other end.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stats = await file.stat();
      if (stats.isDirectory()) throw new Refusal("the file is a folder");
      if (!stats.isFile()) throw new Refusal("the file is not a regular file");
      if (stats.size > MAX_BYTES) throw new Refusal(`the file ${TOO_LONG}`);
      const text = (await file.readFile("utf8")).replace(/\r?\n$/u, "");
      if (text === "") throw new Refusal("the file is empty");
      return text;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof Refusal) throw error;
    const code = String(Reflect.get(Object(error), "code"));
    throw new Refusal(`the file ${REASONS[code] ?? `can't be read: ${code}`}`, { cause: error });
  }
}

function fromJson(text: string): unknown {
  const fault = findJsonFault(text);
  if (fault === undefined) return JSON.parse(text);
  throw new Refusal(`is not valid JSON: line ${fault.line}, column ${fault.column}: ${fault.what}`);
}

/** The value of the text for this key. Text without a meaning stays text: the check of the key then reports what it must be. */
function meaning(schema: unknown, text: string): unknown {
  const inner = bare(schema);
  const forms = inner instanceof z.ZodUnion ? inner.options.map(bare) : [inner];
  const trimmed = text.trim();
  const takes = (...types: readonly (abstract new (...parameters: never[]) => unknown)[]): boolean =>
    forms.some((form) => types.some((type) => form instanceof type));
  if (forms.some((form) => form instanceof z.ZodLiteral && form.value === trimmed)) return trimmed;
  if (takes(z.ZodBoolean, z.ZodLiteral) && /^(?:true|false)$/u.test(trimmed)) return trimmed === "true";
  if (takes(z.ZodNumber) && /^-?\d{1,20}(?:\.\d{1,20})?$/u.test(trimmed)) return Number(trimmed);
  if (takes(z.ZodArray) && trimmed.startsWith("[")) return fromJson(trimmed);
  if (takes(z.ZodObject, z.ZodRecord, z.ZodUnknown) && trimmed.startsWith("{")) return fromJson(trimmed);
  if (takes(z.ZodString, z.ZodEnum, z.ZodCustom)) return text;
  const list = forms.find((form) => form instanceof z.ZodArray);
  return list === undefined ? text : trimmed.split(",").map((entry) => meaning(list.element, entry.trim()));
}

async function valueOf(node: Node, text: string, isFile: boolean): Promise<unknown> {
  const content = isFile ? await contentOf(text) : text;
  if (content.length > MAX_BYTES) throw new Refusal(TOO_LONG);
  return meaning(node.schema, content);
}

function isWithin(path: readonly string[], outer: readonly string[]): boolean {
  return outer.every((key, index) => path[index] === key);
}

/** The value of one variable, or the problem with it. */
type Reading = VariableValue | string;

async function readOne(name: string, text: string, known: ReadonlyMap<string, Node>): Promise<Reading> {
  const node = nodeOf(name, known);
  const isFile = node === undefined && name.endsWith(FILE);
  const found = isFile ? nodeOf(name.slice(0, -FILE.length), known) : node;
  if (found === undefined) return unknownProblem(name, namesLike(name, known));
  try {
    return { path: found.path, source: name, value: await valueOf(found, text, isFile) };
  } catch (error) {
    if (error instanceof Refusal) return `${shown(name)}: ${error.message}`;
    throw error;
  }
}

/** Two variables for one key, or for an object and a key inside it. */
function conflicts(values: readonly VariableValue[]): readonly string[] {
  return values.flatMap(({ path, source }, index) =>
    values
      .filter((other, at) => at !== index && isWithin(path, other.path))
      .filter((other) => other.path.length < path.length || other.source > source)
      .map((other) => `${shown(source)}: can't be set together with ${other.source}`),
  );
}

/**
 * Reads the variables of the configuration. An empty variable counts as not set.
 *
 * @param nodes all keys.
 * @param environment all variables whose names begin with `SIGN_IN_`.
 * @throws ConfigurationError with one line per problem: `environment.<NAME>: <problem>`.
 */
export async function readVariables(
  nodes: readonly Node[],
  environment: ReadonlyMap<string, string>,
): Promise<readonly VariableValue[]> {
  const known = variablesOf(nodes);
  const isKnown = (name: string): boolean =>
    [name, name.replace(/_FILE$/u, "")].some((each) => nodeOf(each, known) !== undefined);
  const names = [...environment].filter(
    ([name, text]) =>
      name !== CONFIG_VARIABLE && !isServiceLink(name, text) && !(text === "" && isKnown(name)),
  );
  const unknown = names.filter(([name]) => !isKnown(name));
  const skipped = new Set(unknown.slice(MAX_UNKNOWN).map(([name]) => name));
  const readings = await Promise.all(
    names.filter(([name]) => !skipped.has(name)).map(([name, text]) => readOne(name, text, known)),
  );
  const values = readings.filter((reading) => typeof reading !== "string");
  const problems = [...readings.filter((reading) => typeof reading === "string"), ...conflicts(values)];
  if (skipped.size > 0) problems.push(`environment: ${skipped.size} more unknown variables`);
  if (problems.length > 0) throw new ConfigurationError(problems);
  return values;
}

/**
 * Puts the values of variables over those of a file.
 *
 * @param file is not changed.
 * @throws ConfigurationError if a value belongs into an object, and the file has something else there.
 */
export function withVariables(
  file: Readonly<Record<string, unknown>>,
  values: readonly VariableValue[],
): Record<string, unknown> {
  const result = { ...file };
  const problems: string[] = [];
  for (const { path, value, source } of values) {
    const outer = path.slice(0, -1);
    let holder: Record<string, unknown> | undefined = result;
    for (const key of outer) {
      const inner: unknown = holder[key];
      if (inner !== undefined && !isPlainObject(inner)) {
        problems.push(`${shown(source)}: config.${outer.join(".")} of the file is not an object`);
        holder = undefined;
        break;
      }
      holder = holder[key] = { ...inner };
    }
    if (holder !== undefined) holder[path.at(-1) ?? ""] = value;
  }
  if (problems.length > 0) throw new ConfigurationError(problems);
  return result;
}

/** The variable that sets a key, or `undefined`. */
export function variableBehind(
  path: readonly string[],
  values: readonly VariableValue[],
): string | undefined {
  return values.find((each) => isWithin(path, each.path))?.source;
}

/** The problems of a configuration, each with the variable that caused it. */
export function nameVariables(
  problems: readonly string[],
  values: readonly VariableValue[],
): readonly string[] {
  return problems.map((problem) => {
    const [, written = ""] = /^config\.([\w.-]+)/u.exec(problem) ?? [];
    const source = variableBehind(written.split("."), values);
    // Every variable is a string at first.
    return source === undefined ? problem : `${problem.replace(/, not a string$/u, "")} (${source})`;
  });
}
