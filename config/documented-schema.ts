/** Schemas that carry their own documentation: building blocks, and how problems and `docs/` read the texts back. */
import { z } from "zod";

/** What the problems and the documentation say about a key. */
interface KeyTexts {
  /** Completes "must be …"; the type in the documentation. */
  readonly form: string;
  /** The same for a value that comes from a file or a variable, where nobody can pass an object of a program. */
  readonly writtenForm?: string;
  /** What the key means, where no comment of its declaration says it. */
  readonly description: string;
  /** What applies when the key is left out and the schema has no default for it. */
  readonly otherwise?: string;
  /**
   * What must be hidden or can't be written: `secret`, an `address` that may contain a password, or `code`, which only a
   * program can set. Default: an ordinary value.
   */
  readonly holds?: "secret" | "address" | "code";
  /** What a number counts, for options: seconds that something lasts, or seconds since the epoch. */
  readonly unit?: "duration" | "time";
  /** How an option of a command is written and read, where the schema does not show it. */
  readonly option?: (typeof OPTION_KINDS)[number];
  /** A running process keeps the value that it started with; a reload says that it has to be restarted. */
  readonly restart?: true;
}

const OPTION_KINDS = ["bytes", "changes", "list", "lists", "number"] as const;

/** Ten years: a longer time is a mistake in the unit. */
export const MAX_SECONDS: number = 3650 * 24 * 60 * 60;

/** Adds texts to a schema. */
export function described<S extends z.ZodType>(schema: S, texts: Partial<KeyTexts>): S {
  return schema.meta({ ...schema.meta(), ...texts });
}

/** A whole number in a range. */
export function whole(min: number, max: number): z.ZodInt {
  return z
    .int()
    .min(min)
    .max(max)
    .meta({ form: `a whole number from ${min} to ${max}` });
}

/** Whole seconds. */
export function seconds(): z.ZodInt {
  return whole(1, MAX_SECONDS);
}

/** Seconds with fractions. */
export function fractionalSeconds(min: number, max: number): z.ZodNumber {
  return z
    .number()
    .min(min)
    .max(max)
    .meta({ form: `a number of seconds from ${min} to ${max}` });
}

/** True or false. */
export function flag(): z.ZodBoolean {
  return z.boolean().meta({ form: "`true` or `false`" });
}

/** A string of 1 to `maxLength` characters that passes a check. */
export function text(maxLength: number, check: (value: string) => boolean, form: string): z.ZodString {
  return z.string().min(1, { abort: true }).max(maxLength, { abort: true }).refine(check).meta({ form });
}

function areDifferent(values: readonly unknown[]): boolean {
  return new Set(values).size === values.length;
}

/** A list of at most a thousand entries, all different. */
export function list<S extends z.ZodType>(entry: S, minLength: 0 | 1): z.ZodReadonly<z.ZodArray<S>> {
  const form = `a list of different entries, each ${textsOf(entry).form}`;
  return z.array(entry).min(minLength).max(1000).refine(areDifferent).readonly().meta({ form });
}

/** The type of {@link section}: members are read only, and keep their comments, in the emitted `.d.ts` as well. */
export type Section<S extends z.ZodRawShape> = z.ZodReadonly<z.ZodObject<S, z.core.$strict>>;

/** An object of which each key is declared once: its comment is its documentation, everywhere. */
export function section<S extends z.ZodRawShape>(shape: S): Section<S> {
  return z.strictObject(shape).readonly().meta({ form: "an object" });
}

/** An object of the host, used as it is if it has these methods. */
export function withMethods<T extends object>(...names: readonly (keyof T & string)[]): z.ZodCustom<T, T> {
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
export function callable<T>(form: string): z.ZodCustom<T, T> {
  return described(
    z.custom<T>((value) => typeof value === "function"),
    { form, holds: "code" },
  );
}

/** A schema and what it wraps: defaults and options outside, the check itself last. */
function layersOf(schema: unknown): readonly unknown[] {
  const wraps =
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodExactOptional ||
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodReadonly;
  return wraps ? [schema, ...layersOf(schema.unwrap())] : [schema];
}

/** The schema of a key without its wrappers for defaults and options. */
export function bare(schema: unknown): unknown {
  return layersOf(schema).at(-1);
}

/** The objects that the schema accepts: one, none, or the alternatives of a union. */
function objectsOf(schema: unknown): readonly z.ZodObject[] {
  const inner = bare(schema);
  if (inner instanceof z.ZodObject) return [inner];
  return inner instanceof z.ZodUnion ? inner.options.flatMap(objectsOf) : [];
}

function childOf(schema: unknown, key: PropertyKey): unknown {
  const inner = bare(schema);
  if (inner instanceof z.ZodArray) return typeof key === "number" ? inner.element : undefined;
  if (inner instanceof z.ZodRecord) return inner.valueType;
  if (inner instanceof z.ZodUnion) {
    return inner.options.map((option) => childOf(option, key)).find((child) => child !== undefined);
  }
  const shape: ReadonlyMap<PropertyKey, unknown> = new Map(
    objectsOf(inner).flatMap((object) => Object.entries(object.shape)),
  );
  return shape.get(key);
}

/** The texts of a schema, of which the outermost layer that has one decides. */
export function textsOf(schema: unknown): Partial<KeyTexts> {
  const layers = layersOf(schema).toReversed();
  const { form, writtenForm, description, otherwise, holds, unit, option, restart }: Record<string, unknown> =
    Object.assign({}, ...layers.map((layer) => (layer instanceof z.ZodType ? layer.meta() : undefined)));
  return {
    ...(typeof form === "string" && { form }),
    ...(typeof writtenForm === "string" && { writtenForm }),
    ...(typeof description === "string" && { description }),
    ...(typeof otherwise === "string" && { otherwise }),
    ...((holds === "secret" || holds === "address" || holds === "code") && { holds }),
    ...((unit === "duration" || unit === "time") && { unit }),
    ...(OPTION_KINDS.some((each) => each === option) && { option: option as (typeof OPTION_KINDS)[number] }),
    ...(restart === true && { restart }),
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

/** Whether a key has to be there. */
export function isRequired(schema: unknown): boolean {
  const isOptional = schema instanceof z.ZodExactOptional;
  return schema instanceof z.ZodType && !isOptional && !schema.safeParse(undefined).success;
}

/** All leaves, in the order of the schema. A union with an object in it is a leaf, and so are that object's keys. */
export function leavesOf(schema: unknown, path: readonly string[] = []): readonly Leaf[] {
  const inner = bare(schema);
  const below = objectsOf(schema).flatMap((object) =>
    Object.entries(object.shape).flatMap(([key, child]) => leavesOf(child, [...path, key])),
  );
  if (inner instanceof z.ZodObject) return below;
  const byDefault = schema instanceof z.ZodDefault ? { byDefault: schema.def.defaultValue } : {};
  const required = isRequired(schema) ? { otherwise: "required" } : {};
  return [{ path, ...required, ...textsOf(schema), ...byDefault }, ...below];
}

/** The objects below names of one's own, if this is a record of them. */
function namedObject(schema: unknown): z.ZodObject | undefined {
  const inner = bare(schema);
  const value = inner instanceof z.ZodRecord ? bare(inner.valueType) : undefined;
  return value instanceof z.ZodObject ? value : undefined;
}

/** All leaves, with those below the names that a value has in place of the record of them. */
export function leavesIn(schema: unknown, value: unknown, path: readonly string[] = []): readonly Leaf[] {
  const named = namedObject(schema);
  const names = typeof value === "object" && value !== null ? Object.keys(value) : [];
  if (named !== undefined && names.length > 0)
    return names.flatMap((name) => leavesOf(named, [...path, name]));
  const inner = bare(schema);
  if (!(inner instanceof z.ZodObject)) return leavesOf(schema, path);
  return Object.entries(inner.shape).flatMap(([key, child]) =>
    leavesIn(child, Reflect.get(Object(value), key), [...path, key]),
  );
}

/** In the path of a {@link Node}: a name of one's own. */
export const ANY_NAME = "*";

/** A key at any depth: a leaf, or an object with keys of its own. */
export interface Node {
  /** With {@link ANY_NAME} where there is a record of objects. */
  readonly path: readonly string[];
  readonly schema: unknown;
}

/** All keys, each object before the keys inside it. */
export function nodesOf(schema: unknown, path: readonly string[] = []): readonly Node[] {
  const named = namedObject(schema);
  if (named !== undefined) return nodesOf(named, [...path, ANY_NAME]);
  return objectsOf(schema).flatMap((object) =>
    Object.entries(object.shape).flatMap(([key, child]) => {
      const inner = [...path, key];
      return [{ path: inner, schema: child } as Node].concat(nodesOf(child, inner));
    }),
  );
}
