/** Finds one's way in the schema: which keys there are, and what is said about each. */
import { z } from "zod";
import type { KeyTexts } from "./parts.ts";

/** What a key is inside its defaults and options. */
function bare(schema: unknown): unknown {
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
  const { form, description, otherwise } = (schema instanceof z.ZodType ? schema.meta() : undefined) ?? {};
  return {
    ...(typeof form === "string" && { form }),
    ...(typeof description === "string" && { description }),
    ...(typeof otherwise === "string" && { otherwise }),
  };
}

/** What a value at this path must be, as far as the schema says so. */
export function formAt(schema: z.ZodType, path: readonly PropertyKey[]): string | undefined {
  let inner: unknown = schema;
  for (const key of path) inner = childOf(inner, key);
  return textsOf(inner).form;
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
