/** The published description of the JSON interface, and whether answers are as it says. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

type Schema = Readonly<Record<string, unknown>>;

interface Operation {
  readonly responses: Readonly<
    Record<string, { readonly content?: { readonly "application/json": { readonly schema: Schema } } }>
  >;
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly schema: Schema } } };
}

interface PublishedDocument {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, { readonly get: Operation; readonly post: Operation }>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

export const DOCUMENT: PublishedDocument = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../docs/interactions.openapi.json"), "utf8"),
);

/** The address of the steps. */
export const PATH = "/interaction/{id}";

/** A check of values against a schema of the document. */
export function checkOf(schema: Schema): z.ZodType {
  const text = JSON.stringify({ ...schema, $defs: DOCUMENT.components.schemas });
  return z.fromJSONSchema(JSON.parse(text.replaceAll("#/components/schemas/", "#/$defs/")));
}

const checks = new Map<string, z.ZodType>();

/** What is wrong with an answer of an address; `undefined` if it is as published. */
export function deviation(
  pathname: string,
  method: "get" | "post",
  status: number,
  body: unknown,
): string | undefined {
  const path = Object.keys(DOCUMENT.paths).find((each) => pathname.endsWith(each)) ?? PATH;
  const response = DOCUMENT.paths[path]?.[method].responses[status];
  if (response === undefined) return `${method} ${path} must not answer ${status}`;
  if (response.content === undefined) return undefined;
  const key = `${method} ${path} ${status}`;
  const check = checks.get(key) ?? checkOf(response.content["application/json"].schema);
  checks.set(key, check);
  const { error } = check.safeParse(body);
  return error && `${method} ${status}: ${error.message} in ${JSON.stringify(body)}`;
}
