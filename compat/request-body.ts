/** Form bodies: read once, at most 64 KiB, strictly; also when the host application has read them already. */
import { koaBody } from "koa-body";
import type { Context } from "koa";
import { EndpointError } from "./endpoint-error.ts";
import { Fields, parseFields } from "./form-fields.ts";
import type { Exchange, Step } from "./exchange.ts";
import type { WithinTime } from "./within-time.ts";

const FORM = "application/x-www-form-urlencoded";
const LIMIT = "64kb";
const MOST_BYTES = 65_536;

/** Where koa-body before version 8 keeps the text that it has parsed; later ones and other parsers use `rawBody`. */
const UNPARSED = Symbol.for("unparsedBody");

const readText = koaBody({
  json: false,
  multipart: false,
  urlencoded: false,
  // As text: its own parser would guess where ours refuses.
  text: true,
  textTypes: [FORM],
  textLimit: LIMIT,
  includeUnparsed: true,
});

const refused = (description: string): EndpointError =>
  new EndpointError(400, "invalid_request", description);

interface ParsedByHost {
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/** What a parser in front of the service has left: its text where it kept it, else the members. */
function fromHost({ body, rawBody }: ParsedByHost): Fields {
  const unparsed = (body as Record<symbol, unknown> | null | undefined)?.[UNPARSED];
  const text = typeof rawBody === "string" ? rawBody : unparsed;
  if (typeof text === "string") return parseText(text);
  if (typeof body === "string") return parseText(body);
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw refused("the body is malformed");
  const entries: (readonly [string, string])[] = [];
  for (const [name, value] of Object.entries(body)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (typeof one !== "string" || `${name}${one}`.includes("\0")) throw refused("the body is malformed");
      entries.push([name, one]);
    }
  }
  // The text is gone; decoded it was shorter at most.
  if (Buffer.byteLength(entries.flat().join("")) > MOST_BYTES) throw refused("the body is too large");
  return new Fields(entries);
}

function parseText(text: string): Fields {
  if (Buffer.byteLength(text) > MOST_BYTES) throw refused("the body is too large");
  return parseFields(text);
}

/** A parser in front has read the stream: reading it again would wait for ever. */
function wasRead(ctx: Context): boolean {
  return ctx.req.readableEnded || ctx.req.readableDidRead;
}

/** The fields of a form. An absent body has none. */
export async function readForm(ctx: Context): Promise<Fields> {
  const { request } = ctx as unknown as { request: ParsedByHost };
  const hasType = ctx.get("content-type") !== "";
  if (hasType && ctx.request.type.toLowerCase() !== FORM) throw refused(`the body must be ${FORM}`);
  if (wasRead(ctx)) {
    const body = request.body ?? (ctx.req as unknown as ParsedByHost).body;
    return body === undefined && request.rawBody === undefined
      ? new Fields()
      : fromHost({ ...request, body, rawBody: request.rawBody });
  }
  if (!hasType) {
    if (Number(ctx.get("content-length") || 0) > 0 || ctx.get("transfer-encoding") !== "") {
      throw refused(`the body must be ${FORM}`);
    }
    return new Fields();
  }
  try {
    await readText(ctx, () => Promise.resolve());
  } catch (cause) {
    const { status } = cause as { status?: number };
    throw refused(status === 413 ? "the body is too large" : "the body is malformed");
  }
  return typeof request.rawBody === "string" ? parseText(request.rawBody) : new Fields();
}

/**
 * Waits for the body of a request, but does not judge it: whoever needs it is told what is wrong with it.
 * @throws EndpointError 400 when it does not arrive in time.
 */
export async function receiveForm(ctx: Context, inTime: WithinTime): Promise<Exchange["form"]> {
  const form = readForm(ctx);
  await inTime(
    form.then(
      () => undefined,
      () => undefined,
    ),
  );
  return () => form;
}

/** The error of a body that does not come: who sends it is at fault, not the service. */
export function lateBody(): EndpointError {
  return new EndpointError(400, "invalid_request", "the body did not arrive in time", { closes: true });
}

/** Takes the body; a parameter that is there twice is refused. */
export const formBody: Step = async (exchange, next) => {
  const body = await exchange.form();
  const [repeated] = body.repeated();
  if (repeated !== undefined) throw refused("a parameter is repeated");
  exchange.body = body;
  await next();
};
