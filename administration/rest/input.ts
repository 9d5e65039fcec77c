/** What a request brings: the query as values, or the JSON of the body. */
import type { Context } from "koa";
import { z } from "zod";
import { type AnyRow, inputOf } from "../../accounts/operations/operation.ts";
import { EndpointError } from "../../compat/errors.ts";
import { parseFields } from "../../compat/form-fields.ts";
import { textsOf } from "../../config/documented-schema.ts";
import { InvalidArgument } from "../../core/errors.ts";
import { isObject, isTooDeep, MAX_JSON_LEVELS } from "../../core/untrusted-json.ts";
import { withTimeout } from "../../core/with-timeout.ts";
import { RequestProblem } from "./problems.ts";

/** Ample for a logo and a hundred addresses. */
const MAX_BODY_BYTES = 262_144;
const BODY_TIMEOUT_MS = 10_000;
const JSON_TYPE = "application/json";

type Input = Readonly<Record<string, unknown>>;
type Form = "list" | "integer" | "boolean" | "text";

const malformed = (detail: string, closes = false): RequestProblem =>
  new RequestProblem("malformed_request", { detail, closes });

function shapeOf(row: AnyRow): Readonly<Record<string, z.ZodType>> {
  return (inputOf(row) as unknown as z.ZodObject<Record<string, z.ZodType>>).shape;
}

/** How a member is written in a query. */
function formOf(schema: z.ZodType | undefined): Form {
  if (schema === undefined) return "text";
  const { type, anyOf = [] } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  const types = new Set([type, ...anyOf.map((each) => (each as { readonly type?: unknown }).type)]);
  if (types.has("array")) return "list";
  if (types.has("integer") || types.has("number")) return "integer";
  return types.has("boolean") ? "boolean" : "text";
}

/** A text that does not fit stays a text, which the schema refuses. */
function valueOf(form: Form, text: string): unknown {
  if (form === "integer" && /^-?\d{1,15}$/u.test(text)) return Number(text);
  return form === "boolean" && (text === "true" || text === "false") ? text === "true" : text;
}

/** The fields of a query. @throws RequestProblem for what can't be decoded. */
function fieldsOf(querystring: string): ReturnType<typeof parseFields> {
  try {
    return parseFields(querystring);
  } catch (error) {
    if (error instanceof EndpointError) throw malformed("the query is malformed");
    throw error;
  }
}

/**
 * The input in the query.
 * @throws InvalidArgument for a repeated parameter that is no list.
 */
export function readQuery(row: AnyRow, querystring: string): Input {
  const fields = fieldsOf(querystring);
  const shape = shapeOf(row);
  const repeated = fields.repeated();
  const names = [...new Set(fields.entries().map(([name]) => name))];
  return Object.fromEntries(
    names.map((name) => {
      const form = formOf(Object.hasOwn(shape, name) ? shape[name] : undefined);
      if (form === "list") return [name, fields.all(name)];
      if (repeated.includes(name))
        throw new InvalidArgument({ path: `filter.${name}`, message: "must not be repeated" });
      return [name, valueOf(form, fields.one(name) ?? "")];
    }),
  );
}

/** @throws InvalidArgument for a query at an address that takes none. */
export function refuseQuery(querystring: string): void {
  if (fieldsOf(querystring).entries().length > 0)
    throw new InvalidArgument({ path: "query", message: "must be empty: the input is the body" });
}

/** @throws RequestProblem for a body that means nothing. */
export function refuseBody({ req }: Context): void {
  const { "content-length": length = "0", "transfer-encoding": encoding } = req.headers;
  if (Number(length) > 0 || encoding !== undefined)
    throw malformed("a GET and a DELETE have no body: the input is the query", true);
}

interface ParsedByHost {
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/**
 * The input in the body.
 * @throws RequestProblem when it is no JSON, or too much of it; InvalidArgument when it is no object.
 */
export async function readBody(ctx: Context, row: AnyRow): Promise<Input> {
  const value = await valueIn(ctx);
  if (isTooDeep(value)) throw malformed(`the body is nested deeper than ${MAX_JSON_LEVELS} levels`);
  if (hasNul(value)) throw malformed("the body has a NUL character");
  if (!isObject(value)) throw new InvalidArgument({ path: "body", message: "must be an object" });
  return withBytes(row, value);
}

async function valueIn(ctx: Context): Promise<unknown> {
  const { req } = ctx;
  const { rawBody, body } = (ctx as unknown as { readonly request: ParsedByHost }).request;
  const wasRead = req.readableEnded || req.readableDidRead;
  if (wasRead && typeof rawBody !== "string") return body ?? {};
  const text = wasRead ? String(rawBody) : decoded(await bytesOf(ctx));
  if (text === "") return {};
  if (!isJson(ctx)) throw new RequestProblem("unsupported_media_type");
  try {
    return JSON.parse(text);
  } catch {
    throw malformed("the body is no JSON");
  }
}

/** `application/json`, in UTF-8 if it says so. */
function isJson({ request }: Context): boolean {
  return request.type.toLowerCase() === JSON_TYPE && /^(?:utf-?8)?$/iu.test(request.charset);
}

function decoded(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw malformed("the body is not UTF-8");
  }
}

const tooLarge = (): RequestProblem => new RequestProblem("body_too_large", { closes: true });

async function bytesOf(ctx: Context): Promise<Buffer> {
  if (Number(ctx.get("Content-Length") || 0) > MAX_BODY_BYTES) throw tooLarge();
  // What nobody will read is not received.
  if (ctx.get("Content-Encoding") !== "")
    throw new RequestProblem("unsupported_media_type", { closes: true });
  async function receive(): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of ctx.req as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) throw tooLarge();
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }
  try {
    return await withTimeout(BODY_TIMEOUT_MS, receive(), () =>
      malformed("the body did not arrive in time", true),
    );
  } catch (error) {
    // The caller has gone.
    throw error instanceof RequestProblem ? error : malformed("the body did not arrive", true);
  }
}

/** Its depth is bounded. */
function hasNul(value: unknown): boolean {
  if (typeof value === "string") return value.includes("\0");
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([name, each]) => name.includes("\0") || hasNul(each));
}

/** Members that are bytes are written in Base64. What is none stays a text, which the schema refuses. */
function withBytes(row: AnyRow, input: Input): Input {
  const shape = shapeOf(row);
  const entries = Object.entries(input).map(([name, value]) => {
    const isBytes = Object.hasOwn(shape, name) && textsOf(shape[name]).option === "bytes";
    return [name, isBytes && typeof value === "string" ? (bytesIn(value) ?? value) : value] as const;
  });
  return Object.fromEntries(entries);
}

function bytesIn(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes : undefined;
}
