/** Schemas that carry their own documentation: building blocks, and how problems and `docs/` read the texts back. */
import { z } from "zod";

/** What the problems and the documentation say about a key. */
export interface KeyTexts {
  /** Completes "must be …"; the type in the documentation. */
  readonly form: string;
  /** The same for a value that comes from a file or a variable, where nobody can pass an object of a program. */
  readonly writtenForm?: string;
  /** What the key means. */
  readonly description: string;
  /** What holds when the key is left out and the schema has no default for it. */
  readonly otherwise?: string;
  /**
   * What must be hidden or can't be written: `secret`, an `address` that may contain a password, or `code`, which only a
   * program can set. Default: an ordinary value.
   */
  readonly holds?: "secret" | "address" | "code";
}

/** Ten years: a longer time is a mistake in the unit. */
export const MAX_SECONDS: number = 3650 * 24 * 60 * 60;

/** A key with its texts. */
export function described<S extends z.ZodType>(schema: S, texts: KeyTexts): S {
  return schema.meta({ ...texts });
}

/** A key that may be left out and then has no value, or one that is worked out from others. */
export function optional<S extends z.ZodType>(schema: S, texts: KeyTexts): z.ZodExactOptional<S> {
  return described(schema.exactOptional(), texts);
}

/** An object with keys of its own. */
export function section<S extends z.ZodType>(schema: S, description: string): S {
  return described(schema, { form: "an object", description });
}

/** A whole number in a range. */
export function whole(
  [min, max]: readonly [min: number, max: number],
  byDefault: number,
  description: string,
): z.ZodDefault<z.ZodInt> {
  const form = `a whole number from ${min} to ${max}`;
  return described(z.int().min(min).max(max).default(byDefault), { form, description });
}

/** Whole seconds. */
export function duration(byDefault: number, description: string): z.ZodDefault<z.ZodInt> {
  return whole([1, MAX_SECONDS], byDefault, description);
}

/** True or false. */
export function flag(byDefault: boolean, description: string): z.ZodDefault<z.ZodBoolean> {
  return described(z.boolean().default(byDefault), { form: "`true` or `false`", description });
}

/** A string of 1 to `max` characters that passes a check. As an entry of a list it must be `form`. */
export function text(max: number, check: (value: string) => boolean, form: string): z.ZodString {
  return z.string().min(1, { abort: true }).max(max, { abort: true }).refine(check).meta({ form });
}

function areDifferent(values: readonly unknown[]): boolean {
  return new Set(values).size === values.length;
}

/** A list of at most a thousand entries, all different. */
export function list<S extends z.ZodType>(entry: S, min: 0 | 1): z.ZodReadonly<z.ZodArray<S>> {
  return z.array(entry).min(min).max(1000).refine(areDifferent).readonly();
}

/** An object of the host, taken over as it is when it has these methods. */
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

/** A type without what differs only in `readonly` and in an explicit `undefined`. */
type Plain<T> = T extends (...parameters: never[]) => unknown
  ? T
  : T extends readonly (infer E)[]
    ? readonly Plain<E>[]
    : T extends object
      ? { readonly [K in keyof T]: Plain<Exclude<T[K], undefined>> }
      : T;

/** The same with every key required: so that a key that is missing on one side shows. */
type Complete<T> = T extends (...parameters: never[]) => unknown
  ? T
  : T extends readonly (infer E)[]
    ? readonly Complete<E>[]
    : T extends object
      ? { readonly [K in keyof T]-?: Complete<Exclude<T[K], undefined>> }
      : T;

type Equal<A, B> = [A, B] extends [B, A] ? true : false;

type Agree<A, B> =
  Equal<Plain<A>, Plain<B>> extends true
    ? Equal<Complete<A>, Complete<B>> extends true
      ? []
      : ["a key is on one side only"]
    : ["a type differs"];

/** What the schema takes for an interface of `input.ts`: a key may also be `undefined`. */
export type Written<T> = T extends (...parameters: never[]) => unknown
  ? T
  : T extends readonly unknown[]
    ? T
    : T extends object
      ? { readonly [K in keyof T]: Written<T[K]> | undefined }
      : T;

/**
 * Lets the compiler compare a schema with the interface that documents it: `writtenAs<Interface>()(schema)`
 * asks for a second argument when a key or a type is on one side only.
 */
export function writtenAs<T>(): <S extends z.ZodType>(schema: S, ...differ: Agree<z.input<S>, T>) => S {
  return function unchanged<S extends z.ZodType>(schema: S, ..._differ: Agree<z.input<S>, T>): S {
    return schema;
  };
}

/** What a key is inside its defaults and options. */
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

/** The objects that may stand here: one, none, or the alternatives of a union. */
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

/** Characters that would end a cell, or a code span inside it. */
function cell(markdown: string): string {
  return markdown.replaceAll("|", String.raw`\|`).replaceAll(/\s+/gu, " ");
}

function defaultOf({ byDefault, otherwise }: Leaf): string {
  return byDefault === undefined ? (otherwise ?? "none") : `\`${JSON.stringify(byDefault)}\``;
}

/**
 * One line for each key in its full dotted path, as a Markdown table: key, type, default, meaning.
 *
 * @param variableOf the environment variable of a key, which is shown below it; `undefined` if it has none.
 */
export function keyTable(
  schema: z.ZodType,
  variableOf: (leaf: Leaf) => string | undefined = () => undefined,
): string {
  const rows = leavesOf(schema).map((leaf) => {
    const variable = variableOf(leaf);
    const key = `\`${leaf.path.join(".")}\`${variable === undefined ? "" : `<br>\`${variable}\``}`;
    return [key, leaf.form ?? "", defaultOf(leaf), leaf.description ?? ""].map(cell);
  });
  const lines = [["Key", "Type", "Default", "Meaning"], ["---", "---", "---", "---"], ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
