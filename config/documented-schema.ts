/** Schemas that carry their own documentation: building blocks, and how problems and `docs/` read the texts back. */
import { z } from "zod";

/** What the problems and the documentation say about a key. */
interface KeyTexts {
  /** Completes "must be …"; the type in the documentation. */
  readonly form: string;
  /** The same for a value that comes from a file or a variable, where nobody can pass an object of a program. */
  readonly writtenForm?: string;
  /** What the key means. Those of the configuration are documented in `configuration.ts`. */
  readonly description: string;
  /** What applies when the key is left out and the schema has no default for it. */
  readonly otherwise?: string;
  /**
   * What must be hidden or can't be written: `secret`, an `address` that may contain a password, or `code`, which only a
   * program can set. Default: an ordinary value.
   */
  readonly holds?: "secret" | "address" | "code";
}

/** Ten years: a longer time is a mistake in the unit. */
export const MAX_SECONDS: number = 3650 * 24 * 60 * 60;

/** Adds texts to a schema. */
export function described<S extends z.ZodType>(schema: S, texts: Partial<KeyTexts>): S {
  return schema.meta({ ...texts });
}

/** A whole number in a range. */
export function whole(min: number, max: number): z.ZodType<number> {
  return z
    .int()
    .min(min)
    .max(max)
    .meta({ form: `a whole number from ${min} to ${max}` });
}

/** Whole seconds. */
export function seconds(): z.ZodType<number> {
  return whole(1, MAX_SECONDS);
}

/** Seconds with fractions. */
export function fractionalSeconds(min: number, max: number): z.ZodType<number> {
  return z
    .number()
    .min(min)
    .max(max)
    .meta({ form: `a number of seconds from ${min} to ${max}` });
}

/** True or false. */
export function flag(): z.ZodType<boolean> {
  return z.boolean().meta({ form: "`true` or `false`" });
}

/** A string of 1 to `maxLength` characters that passes a check. */
export function text(maxLength: number, check: (value: string) => boolean, form: string): z.ZodType<string> {
  return z.string().min(1, { abort: true }).max(maxLength, { abort: true }).refine(check).meta({ form });
}

function areDifferent(values: readonly unknown[]): boolean {
  return new Set(values).size === values.length;
}

/** A list of at most a thousand entries, all different. */
export function list<T>(entry: z.ZodType<T>, minLength: 0 | 1): z.ZodType<readonly T[]> {
  const form = `a list of different entries, each ${textsOf(entry).form}`;
  return z.array(entry).min(minLength).max(1000).refine(areDifferent).readonly().meta({ form });
}

/** In place of a default: the key is required. */
export const REQUIRED: unique symbol = Symbol("required");

/** A check for each key, including the optional ones. */
type Shape<T> = { readonly [K in keyof T]-?: z.ZodType<T[K]> };

/** A default for each key that always has a value. */
type Defaults<T> = {
  readonly [K in keyof T as undefined extends T[K] ? never : K]: T[K] | typeof REQUIRED;
};

function withDefault(schema: z.ZodType, byDefault: unknown): z.ZodType {
  if (byDefault === REQUIRED) return schema;
  if (byDefault === undefined) return schema.exactOptional();
  return bare(schema) instanceof z.ZodObject ? schema.prefault({}) : schema.default(byDefault);
}

/** An object whose keys the interface `T` documents. A key without a default may be left out and then has no value. */
export function section<T extends object>(shape: Shape<T>, defaults: Defaults<T>): z.ZodType<T> {
  const byDefault: ReadonlyMap<string, unknown> = new Map(Object.entries(defaults));
  const keys = Object.entries<z.ZodType>(shape).map(([key, schema]) => [
    key,
    withDefault(schema, byDefault.get(key)).meta({ ...schema.meta() }),
  ]);
  const object: z.ZodType = z.strictObject(Object.fromEntries(keys)).meta({ form: "an object" });
  return object as z.ZodType<T>;
}

/** An object of the host, used as it is if it has these methods. */
export function withMethods<T extends object>(...names: readonly (keyof T & string)[]): z.ZodType<T> {
  return z.custom<T>((value) => {
    try {
      return (
        typeof value === "object" &&
        value !== null &&
        names.every((name) => typeof Reflect.get(value, name) === "function")
      );
    } catch {
      return false;
    }
  });
}

/** A function of the host. @param form how messages describe it. */
export function callable<T>(form: string): z.ZodType<T> {
  return described(
    z.custom<T>((value) => typeof value === "function"),
    { form, holds: "code" },
  );
}

/** The schema of a key without its wrappers for defaults and options. */
export function bare(schema: unknown): unknown {
  let inner = schema;
  while (
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault ||
    inner instanceof z.ZodExactOptional ||
    inner instanceof z.ZodOptional ||
    inner instanceof z.ZodNullable ||
    inner instanceof z.ZodReadonly
  ) {
    inner = inner.unwrap();
  }
  return inner;
}

/** The objects that the schema accepts: one, none, or the alternatives of a union. */
function objectsOf(schema: unknown): readonly z.ZodObject[] {
  const inner = bare(schema);
  if (inner instanceof z.ZodObject) return [inner];
  return inner instanceof z.ZodUnion ? inner.options.flatMap(objectsOf) : [];
}

function childOf(schema: unknown, key: PropertyKey): unknown {
  const inner = bare(schema);
  if (inner instanceof z.ZodArray) return inner.element;
  if (inner instanceof z.ZodRecord) return inner.valueType;
  if (inner instanceof z.ZodUnion) {
    return inner.options.map((option) => childOf(option, key)).find((child) => child !== undefined);
  }
  const shape: ReadonlyMap<PropertyKey, unknown> = new Map(
    objectsOf(inner).flatMap((object) => Object.entries(object.shape)),
  );
  return shape.get(key);
}

/** The texts of a schema itself. */
export function textsOf(schema: unknown): Partial<KeyTexts> {
  const { form, writtenForm, description, otherwise, holds } =
    (schema instanceof z.ZodType ? schema.meta() : undefined) ?? {};
  return {
    ...(typeof form === "string" && { form }),
    ...(typeof writtenForm === "string" && { writtenForm }),
    ...(typeof description === "string" && { description }),
    ...(typeof otherwise === "string" && { otherwise }),
    ...((holds === "secret" || holds === "address" || holds === "code") && { holds }),
  };
}

/** The texts of the value at this path, as far as the schema has any. */
export function textsAt(schema: z.ZodType, path: readonly PropertyKey[]): Partial<KeyTexts> {
  let inner: unknown = schema;
  for (const key of path) inner = childOf(inner, key);
  return textsOf(inner);
}

/** The keys that the object at this path may have. */
export function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): readonly string[] {
  let inner: unknown = schema;
  for (const key of path) inner = childOf(inner, key);
  return objectsOf(inner).flatMap((object) => Object.keys(object.shape));
}

/** A key that has no further keys of the configuration inside. */
export interface Leaf extends Partial<KeyTexts> {
  /** From the top level, such as `["lifetimes", "accessToken"]`. */
  readonly path: readonly string[];
  /** Its fixed default; missing when it has none. */
  readonly byDefault?: unknown;
}

/** All leaves, in the order of the schema. A union with an object in it is a leaf, and so are that object's keys. */
export function leavesOf(schema: unknown, path: readonly string[] = []): readonly Leaf[] {
  const inner = bare(schema);
  const below = objectsOf(schema).flatMap((object) =>
    Object.entries(object.shape).flatMap(([key, child]) => leavesOf(child, [...path, key])),
  );
  if (inner instanceof z.ZodObject) return below;
  const byDefault = schema instanceof z.ZodDefault ? { byDefault: schema.def.defaultValue } : {};
  return [{ path, ...textsOf(schema), ...byDefault }, ...below];
}

/** A key at any depth: a leaf, or an object with keys of its own. */
export interface Node {
  readonly path: readonly string[];
  readonly schema: unknown;
}

/** All keys, each object before the keys inside it. */
export function nodesOf(schema: unknown, path: readonly string[] = []): readonly Node[] {
  return objectsOf(schema).flatMap((object) =>
    Object.entries(object.shape).flatMap(([key, child]) => {
      const inner = [...path, key];
      return [{ path: inner, schema: child } as Node].concat(nodesOf(child, inner));
    }),
  );
}

/** Escapes characters that would end a cell, or a code span inside it. */
function cell(markdown: string): string {
  return markdown.replaceAll("|", String.raw`\|`).replaceAll(/\s+/gu, " ");
}

/** The default as the documentation writes it. */
export function defaultOf({ byDefault, otherwise }: Leaf): string {
  return byDefault === undefined ? (otherwise ?? "none") : `\`${JSON.stringify(byDefault)}\``;
}

/** What a table shows for a key besides its texts. */
export interface KeyNotes {
  /** The environment variable, shown below the key. */
  readonly variable?: string | undefined;
  readonly description?: string | undefined;
}

/** One line for each key in its full dotted path, as a Markdown table: key, type, default, meaning. */
export function keyTable(schema: z.ZodType, notesOf: (leaf: Leaf) => KeyNotes = () => ({})): string {
  const rows = leavesOf(schema).map((leaf) => {
    const { variable, description = leaf.description ?? "" } = notesOf(leaf);
    const key = `\`${leaf.path.join(".")}\`${variable === undefined ? "" : `<br>\`${variable}\``}`;
    return [key, leaf.form ?? "", defaultOf(leaf), description].map(cell);
  });
  const lines = [["Key", "Type", "Default", "Meaning"], ["---", "---", "---", "---"], ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
