/** `fetch` over guarded agents: only to addresses that the rules allow, and never further than the address that it is given. */
import type { IncomingMessage } from "node:http";
import { type GuardedAgents, http, https } from "./outbound-agents.ts";

/** How much of a body is read. */
export interface BodyLimit {
  readonly bytes: number;
  /** What becomes of a larger one: its beginning counts, or the response is an error. */
  readonly beyond: "cut" | "refuse";
}

/** Statuses without a body: `Response` refuses one. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

const KEPT_HEADERS = [
  "age",
  "cache-control",
  "content-encoding",
  "content-type",
  "location",
  "www-authenticate",
] as const;

/** A body has more bytes than are read. */
export function bodyTooLarge(): Error {
  return Object.assign(new Error("the body is too large"), { code: "BODY_TOO_LARGE" });
}

function closedEarly(): Error {
  return Object.assign(new Error("the connection was closed without an answer"), { code: "ECONNRESET" });
}

/** Rejects when the connection breaks. */
async function toResponse(message: IncomingMessage, { bytes, beyond }: BodyLimit): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Leaving the loop closes the connection.
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size <= bytes) continue;
    if (beyond === "refuse") throw bodyTooLarge();
    break;
  }
  const { statusCode: status = 0, headers } = message;
  const body = BODILESS.has(status) ? null : Buffer.concat(chunks);
  const kept = KEPT_HEADERS.flatMap((name): [string, string][] => {
    const value = headers[name];
    return typeof value === "string" ? [[name, value]] : [];
  });
  return new Response(body, { status, headers: kept });
}

/** What the `fetch` of the host application returned, with at most this many bytes. A larger body is an error. */
export async function limitedResponse(response: Response, maxBytes: number): Promise<Response> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (;;) {
    const { value } = (await reader?.read()) ?? {};
    if (value === undefined) break;
    size += value.length;
    if (size > maxBytes) {
      // The stream may be broken already.
      await reader?.cancel().catch(() => undefined);
      throw bodyTooLarge();
    }
    chunks.push(value);
  }
  const { status, headers } = response;
  return new Response(reader === undefined ? null : Buffer.concat(chunks), { status, headers });
}

async function send(agents: GuardedAgents, request: Request, limit: BodyLimit): Promise<Response> {
  const url = new URL(request.url);
  const body = Buffer.from(await request.arrayBuffer());
  const message = await new Promise<IncomingMessage>((resolve, reject) => {
    const { request: open } = url.protocol === "https:" ? https : http;
    const sent = open(url, {
      method: request.method,
      headers: Object.fromEntries(request.headers),
      agent: agents.agentFor(url.protocol),
      signal: request.signal,
    });
    sent.on("response", resolve);
    sent.on("error", reject);
    sent.on("close", () => reject(closedEarly()));
    sent.end(body);
  });
  return toResponse(message, limit);
}

/** Follows no redirects and decompresses nothing. Like `fetch`, it rejects with the reason of an aborted signal. */
export async function guardedFetch(
  agents: GuardedAgents,
  request: Request,
  limit: BodyLimit,
): Promise<Response> {
  try {
    return await send(agents, request, limit);
  } catch (error) {
    throw request.signal.aborted ? request.signal.reason : error;
  }
}
