/** Form bodies, and JSON at the steps of a sign-in: at most 64 KiB, parsed strictly, even if the host application has read them already. */
import type { Context } from "koa";
import type * as KoaBody from "koa-body";
import { badRequest, invalidRequest } from "./errors.ts";
import { Fields, parseFields } from "./form-fields.ts";
import type { Step } from "./exchange.ts";

const FORM = "application/x-www-form-urlencoded";
export const JSON_TYPE = "application/json";
const LIMIT = "64kb";
const MAX_BYTES = 65_536;

/** Where koa-body keeps the unparsed text before version 8; later versions and other parsers use `rawBody`. */
const UNPARSED = Symbol.for("unparsedBody");

/** Loads the package that reads bodies. Processes that serve no requests do without it. */
export async function loadBodyReader(): Promise<typeof KoaBody.koaBody> {
  const { koaBody } = await import("koa-body");
  return koaBody;
}

/** Reads the body as text, because koa-body's own form parser guesses where ours refuses. */
async function readText(ctx: Context): Promise<void> {
  const koaBody = await loadBodyReader();
  const read = koaBody({
    json: false,
    multipart: false,
    urlencoded: false,
    text: true,
    textTypes: [FORM, JSON_TYPE],
    textLimit: LIMIT,
    includeUnparsed: true,
  });
  await read(ctx, () => Promise.resolve());
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

/** Reads the form in the body; empty if there is no body. A repeated field is refused. */
export async function readForm(
  ctx: Context,
  received: Promise<Fields> = readFields(ctx),
): Promise<ReadonlyMap<string, string>> {
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
export async function readFields(ctx: Context): Promise<Fields> {
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
  const text = await receivedText(ctx);
  return text === undefined ? new Fields() : parseText(text);
}

async function receivedText(ctx: Context): Promise<string | undefined> {
  try {
    await readText(ctx);
  } catch (cause) {
    const { status } = cause as { status?: number };
    throw invalidRequest(status === 413 ? "the body is too large" : "the body is malformed");
  }
  const { rawBody } = (ctx as unknown as { request: ParsedByHost }).request;
  return typeof rawBody === "string" ? rawBody : undefined;
}

/** Reads the JSON in the body, or what the host application's parser made of it. */
export async function readJson(ctx: Context): Promise<unknown> {
  const { request } = ctx as unknown as { request: ParsedByHost };
  if (wasRead(ctx)) {
    const body = request.body ?? (ctx.req as unknown as ParsedByHost).body;
    const length = Buffer.byteLength(JSON.stringify(body ?? null));
    if (length > MAX_BYTES) throw invalidRequest("the body is too large");
    return body;
  }
  const text = (await receivedText(ctx)) ?? "";
  // U+FFFD stands for bytes that are not UTF-8.
  if (Buffer.byteLength(text) > MAX_BYTES || text.includes("\uFFFD"))
    throw invalidRequest("the body is malformed or too large");
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw invalidRequest("the body is malformed");
  }
}

/** Reads the form into `exchange.body`. */
export const formBody: Step = async (exchange, next) => {
  exchange.body = new Fields([...(await exchange.form())]);
  await next();
};

/** Reads the form of an authorization, which may name several APIs, into `exchange.body`. */
export const authorizationBody: Step = async (exchange, next) => {
  const fields = (await exchange.received) ?? new Fields();
  requireSingle(fields.without(["resource"]));
  exchange.body = fields;
  await next();
};
