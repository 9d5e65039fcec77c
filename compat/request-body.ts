/** Form bodies, and JSON at the steps of a sign-in: at most 64 KiB, parsed strictly, even if the host application has read them already. */
import type { Context } from "koa";
import { isTooDeep, MAX_JSON_LEVELS } from "../core/untrusted-json.ts";
import { badRequest, invalidRequest } from "./errors.ts";
import { boundedFields, Fields, parseFields } from "./form-fields.ts";
import type { Step } from "./exchange.ts";

const FORM = "application/x-www-form-urlencoded";
export const JSON_TYPE = "application/json";
const MAX_BYTES = 65_536;

/** Where koa-body keeps the unparsed text before version 8; later versions and other parsers use `rawBody`. */
const UNPARSED = Symbol.for("unparsedBody");

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

/** The text of the body; `undefined` if requests of this method have none. */
async function receivedText({ method, req, request }: Context): Promise<string | undefined> {
  if (method !== "POST") return undefined;
  const encoding = request.get("content-encoding").toLowerCase();
  if (encoding !== "" && encoding !== "identity") throw invalidRequest("the body must not be compressed");
  if ((request.length ?? 0) > MAX_BYTES) throw invalidRequest("the body is too large");
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // Leaving the loop must not end the connection, which the response needs.
    for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_BYTES) break;
      chunks.push(chunk);
    }
  } catch {
    throw invalidRequest("the body is malformed");
  }
  if (bytes > MAX_BYTES) throw invalidRequest("the body is too large");
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** Reads the JSON in the body, or what the host application's parser made of it. */
export async function readJson(ctx: Context): Promise<unknown> {
  const { request } = ctx as unknown as { request: ParsedByHost };
  if (wasRead(ctx)) {
    const body = shallow(request.body ?? (ctx.req as unknown as ParsedByHost).body);
    const length = Buffer.byteLength(JSON.stringify(body ?? null));
    if (length > MAX_BYTES) throw invalidRequest("the body is too large");
    return body;
  }
  const text = (await receivedText(ctx)) ?? "";
  // U+FFFD stands for bytes that are not UTF-8.
  if (text.includes("\uFFFD")) throw invalidRequest("the body is malformed");
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

/** Reads the form of a protocol endpoint into `exchange.body`. */
export const formBody: Step = async (exchange, next) => {
  exchange.body = boundedFields(new Fields([...(await exchange.form())]));
  await next();
};

/** Reads the form of an authorization, which may name several APIs, into `exchange.body`. */
export const authorizationBody: Step = async (exchange, next) => {
  const fields = (await exchange.received) ?? new Fields();
  requireSingle(fields.without(["resource"]));
  exchange.body = boundedFields(fields);
  await next();
};
