/** Turns validation issues into lines that a person can act on. No line contains a value, because any value may be a secret. */
import type { z } from "zod";
import { keysAt, leavesOf, textsAt } from "./documented-schema.ts";
import { nearestKey } from "./nearest-key.ts";
import { isPlainObject, isRefused } from "./plain-data.ts";

/** A problem with one key. */
export interface Problem {
  readonly path: readonly PropertyKey[];
  /** Printed after the path and a colon. */
  readonly text: string;
}

/** Longer names are not shown: they may be secrets in the wrong place. */
const SHOWN = /^[A-Za-z_$][\w$.-]{0,31}$/u;
/** Attributes have names of up to 40 characters. */
const SHOWN_IN_ACCOUNTS = /^[A-Za-z_$][\w$.-]{0,39}$/u;
const MAX_UNKNOWN_KEYS = 20;

/**
 * A path such as `config.proxy[1]`. Messages name a place inside a value only in this form.
 *
 * @param root the name of the whole value.
 * @param shown names that may be repeated.
 */
export function formatPath(path: readonly PropertyKey[], root = "config", shown: RegExp = SHOWN): string {
  const steps = path.map((step) => {
    if (typeof step === "number") return `[${step}]`;
    if (typeof step === "string" && shown.test(step)) return `.${step}`;
    return typeof step === "symbol" ? "[a symbol]" : `[a name of ${step.length} characters]`;
  });
  return `${root}${steps.join("")}`;
}

/** The line for one problem. */
export function formatProblem({ path, text }: Problem): string {
  return `${formatPath(path, "config", path[0] === "accounts" ? SHOWN_IN_ACCOUNTS : SHOWN)}: ${text}`;
}

/** The type of a value, without its content. */
function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "number") {
    if (Number.isFinite(value)) return Number.isInteger(value) ? "a number" : "a fraction";
    return Number.isNaN(value) ? "NaN" : "infinity";
  }
  if (typeof value === "bigint") return "a bigint";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** Whether a file or a variable can hold this value. Only a program has functions, getters and objects of classes. */
function isWritten(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value !== "function";
  try {
    if (Array.isArray(value)) return true;
    const members = Object.values(Object.getOwnPropertyDescriptors(value));
    return (
      isPlainObject(value) && members.every((each) => "value" in each && typeof each.value !== "function")
    );
  } catch {
    // A proxy of the host.
    return false;
  }
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let inner = value;
  for (const key of path) {
    if (typeof inner !== "object" || inner === null || !Object.hasOwn(inner, key)) return undefined;
    inner = Reflect.get(inner, key);
  }
  return inner;
}

type Issue = z.core.$ZodIssue;

/** The alternative of a union that the caller probably meant: the one whose issues are inside the value. */
export function meantBranch(branches: readonly (readonly Issue[])[]): readonly Issue[] {
  const inside = (issue: Issue): boolean => issue.path.length > 0 || issue.code === "unrecognized_keys";
  return branches.find((branch) => branch.length > 0 && branch.every((issue) => inside(issue))) ?? [];
}

/**
 * Converts issues of zod to problems.
 *
 * @param schema the schema that found them, with the texts for the problems.
 * @param value the checked value.
 * @param elsewhere further keys that an unknown one may be meant for.
 */
export function problemsOf(
  issues: readonly Issue[],
  schema: z.ZodType,
  value: unknown,
  elsewhere: readonly string[] = [],
): readonly Problem[] {
  const known = [...leavesOf(schema).map((leaf) => leaf.path.join(".")), ...elsewhere];

  function unknownKeys(path: readonly PropertyKey[], keys: readonly string[]): readonly Problem[] {
    const beside = path.length === 0 ? elsewhere.filter((key) => !key.includes(".")) : [];
    const siblings = [...keysAt(schema, path).map((key) => [...path, key].join(".")), ...beside];
    const problems = keys.slice(0, MAX_UNKNOWN_KEYS).map((key): Problem => {
      const nearest = nearestKey(key, siblings, known);
      const hint = nearest?.close === true ? "did you mean" : "the nearest known key is";
      const end = nearest?.close === true ? "?" : "";
      return { path: [...path, key], text: `unknown key; ${hint} "config.${nearest?.path}"${end}` };
    });
    const more = keys.length - problems.length;
    return more > 0 ? [...problems, { path, text: `has ${more} more unknown keys` }] : problems;
  }

  function wrongValue(issue: Issue, path: readonly PropertyKey[]): Problem {
    const written = valueAt(value, path);
    const { form: full = "something else", writtenForm = full, holds } = textsAt(schema, path);
    const form = `must be ${isWritten(written) ? writtenForm : full}`;
    if (holds === "code" && isWritten(written)) return { path, text: `${form}; only a program can set it` };
    if (written === undefined) return { path, text: `is required and ${form}` };
    const wrongKind = issue.code === "invalid_type" || issue.code === "invalid_union";
    return { path, text: wrongKind ? `${form}, not ${kindOf(written)}` : form };
  }

  function convert(issue: Issue, above: readonly PropertyKey[]): readonly Problem[] {
    const path = [...above, ...issue.path];
    if (isRefused(valueAt(value, path))) return [];
    if (issue.code === "unrecognized_keys") return unknownKeys(path, issue.keys);
    if (issue.code === "invalid_key") return [{ path, text: "is not a valid name here" }];
    const meant = issue.code === "invalid_union" ? meantBranch(issue.errors) : [];
    if (meant.length > 0) return meant.flatMap((inner) => convert(inner, path));
    return [wrongValue(issue, path)];
  }

  return issues.flatMap((issue) => convert(issue, []));
}
