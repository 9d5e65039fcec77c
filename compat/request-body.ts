/** Form bodies, and JSON at the steps of a sign-in: at most 64 KiB, parsed strictly, even if the host application has read them already. */
import type { Context } from "koa";
import type * as KoaBody from "koa-body";
import { isTooDeep, MAX_JSON_LEVELS } from "../core/untrusted-json.ts";
import { badRequest, invalidRequest } from "./errors.ts";
import { boundedFields, Fields, parseFields } from "./form-fields.ts";
import type { EndpointExchange } from "./exchange.ts";

const FORM = "application/x-www-form-urlencoded";
export const JSON_TYPE = "application/json";
const LIMIT = "64kb";
const MAX_BYTES = 65_536;

/** Where koa-body keeps the unparsed text before version 8; later versions and other parsers use `rawBody`. */
const UNPARSED = Symbol.for("unparsedBody");

type Middleware = ReturnType<typeof KoaBody.koaBody>;

/** Loaded with the first body: a start, and processes that serve no requests, do without it. */
async function loadTextReader(): Promise<Middleware> {
  const { koaBody } = await import("koa-body");
  return koaBody({
    json: false,
    multipart: false,
    urlencoded: false,
    text: true,
    textTypes: [FORM, JSON_TYPE],
    textLimit: LIMIT,
    includeUnparsed: true,
  });
}

/** Reads the body of a request as text into `rawBody`. */
export type BodyReader = (ctx: Context) => Promise<void>;

/** Reads bodies as text, because koa-body's own form parser guesses where ours refuses. */
export function createBodyReader(): BodyReader {
  // Kept, because import() looks the module up again for each request.
  let loaded: Promise<Middleware> | undefined;
  return async (ctx) => {
    loaded ??= loadTextReader();
    const read = await loaded;
    await read(ctx, () => Promise.resolve());
  };
}

interface ParsedByHost {
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/** Reads what the host application's parser left: the text if it kept it, otherwise the parsed members. */
function fromHost({ body, rawBody }: ParsedByHost): Fields {
  const unparsed = (body as Record<symbol, unknown> | null | undefined)?.[UNPARSED];
  const text = typeof rawBody === "string" ? rawBody : unparsed;
  if (typeof text === "string") return parseText(text);
  if (typeof body === "string") return parseText(body);
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw invalidRequest("the body is malformed");
  const entries: (readonly [string, string])[] = [];
  for (const [name, value] of Object.entries(body)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (typeof one !== "string" || `${name}${one}`.includes("\0"))
        throw invalidRequest("the body is malformed");
      entries.push([name, one]);
    }
  }
  // The text is gone; encoded it was at least this long.
  if (Buffer.byteLength(entries.flat().join("")) > MAX_BYTES) throw invalidRequest("the body is too large");
  return new Fields(entries);
}

function parseText(text: string): Fields {
  if (Buffer.byteLength(text) > MAX_BYTES) throw invalidRequest("the body is too large");
  return parseFields(text);
}

/** Whether the host application has read the stream; reading it again would never end. */
function wasRead(ctx: Context): boolean {
  return ctx.req.readableEnded || ctx.req.readableDidRead;
}

/** The form of a body that was read. A repeated field is refused. */
export async function readForm(received: Promise<Fields>): Promise<ReadonlyMap<string, string>> {
  return new Map(requireSingle(await received).entries());
}

/** RFC 8707 section 2: the service gives a token for one resource. */
function requireSingle(fields: Fields): Fields {
  const repeated = fields.repeated();
  if (repeated.join() === "resource") throw badRequest("invalid_target", "resource must name one API");
  if (repeated.length > 0) throw invalidRequest("a parameter is repeated");
  return fields;
}

/** Reads the form in the body; empty if there is no body. */
export async function readFields(ctx: Context, read: BodyReader): Promise<Fields> {
  const { request } = ctx as unknown as { request: ParsedByHost };
  const hasType = ctx.get("content-type") !== "";
  if (hasType && ctx.request.type.toLowerCase() !== FORM) throw invalidRequest(`the body must be ${FORM}`);
  if (wasRead(ctx)) {
    const body = request.body ?? (ctx.req as unknown as ParsedByHost).body;
    return body === undefined && request.rawBody === undefined
      ? new Fields()
      : fromHost({ ...request, body, rawBody: request.rawBody });
  }
  if (!hasType) {
    if (Number(ctx.get("content-length") || 0) > 0 || ctx.get("transfer-encoding") !== "") {
      throw invalidRequest(`the body must be ${FORM}`);
    }
    return new Fields();
  }
  const text = await receivedText(ctx, read);
  return text === undefined ? new Fields() : parseText(text);
}

async function receivedText(ctx: Context, read: BodyReader): Promise<string | undefined> {
  try {
    await read(ctx);
  } catch (cause) {
    const { status } = cause as { status?: number };
    throw invalidRequest(status === 413 ? "the body is too large" : "the body is malformed");
  }
  const { rawBody } = (ctx as unknown as { request: ParsedByHost }).request;
  return typeof rawBody === "string" ? rawBody : undefined;
}

/** Reads the JSON in the body, or what the host application's parser made of it. */
export async function readJson(ctx: Context, read: BodyReader): Promise<unknown> {
  const { request } = ctx as unknown as { request: ParsedByHost };
  if (wasRead(ctx)) {
    const body = shallow(request.body ?? (ctx.req as unknown as ParsedByHost).body);
    const length = Buffer.byteLength(JSON.stringify(body ?? null));
    if (length > MAX_BYTES) throw invalidRequest("the body is too large");
    return body;
  }
  const text = (await receivedText(ctx, read)) ?? "";
  // U+FFFD stands for bytes that are not UTF-8.
  if (Buffer.byteLength(text) > MAX_BYTES || text.includes("\uFFFD"))
    throw invalidRequest("the body is malformed or too large");
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw invalidRequest("the body is malformed");
  }
  return shallow(body);
}

/** @returns the body. @throws EndpointError 400 if it is nested too deep. */
function shallow(body: unknown): unknown {
  if (isTooDeep(body)) throw invalidRequest(`the body is nested deeper than ${MAX_JSON_LEVELS} levels`);
  return body;
}

/** The form of a protocol endpoint. */
export async function protocolForm(exchange: EndpointExchange): Promise<Fields> {
  return boundedFields(requireSingle(await exchange.fields()));
}

/** The form of an authorization, which may name several APIs. */
export async function authorizationForm(exchange: EndpointExchange): Promise<Fields> {
  const fields = await exchange.fields();
  requireSingle(fields.without(["resource"]));
  return boundedFields(fields);
}
