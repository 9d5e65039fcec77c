/**
 * How the protocol library asks other servers, such as to tell clients that a session ended: under the address
 * rules that hold for notifications too.
 */
import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Configuration } from "../../config/configuration.ts";
import { AddressRefused, createGuardedAgents, type GuardedAgents } from "../guarded-agents.ts";
import { type AddressRules, createAddressRules } from "../receiver-addresses.ts";

/** Bytes of an answer that are read. */
const MOST_READ = 64 * 1024;
/** Statuses whose answers have no body; `Response` refuses one. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

/** The library's guard against special-use addresses sits in the `dispatcher` that it passes along. */
type GuardedInit = RequestInit & { dispatcher?: unknown };

/** The answer with the beginning of its body; rejects when the connection breaks. */
async function toResponse(message: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MOST_READ) break;
  }
  const { statusCode: status = 0 } = message;
  const body = BODILESS.has(status) ? null : Buffer.concat(chunks);
  const type = message.headers["content-type"];
  return new Response(body, { status, ...(type === undefined ? {} : { headers: { "content-type": type } }) });
}

function closedEarly(): Error {
  return Object.assign(new Error("the connection was closed without an answer"), { code: "ECONNRESET" });
}

/** Redirects are not followed, nothing is unpacked, no connection is kept. */
async function guardedFetch(agents: GuardedAgents, given: Request): Promise<Response> {
  try {
    return await sendGuarded(agents, given);
  } catch (error) {
    // As `fetch` does: how the sockets took the end of its time is nobody's business.
    throw given.signal.aborted ? given.signal.reason : error;
  }
}

async function sendGuarded(agents: GuardedAgents, given: Request): Promise<Response> {
  const url = new URL(given.url);
  const body = Buffer.from(await given.arrayBuffer());
  const message = await new Promise<IncomingMessage>((resolve, reject) => {
    const send = url.protocol === "https:" ? httpsRequest : httpRequest;
    const request = send(url, {
      method: given.method,
      headers: Object.fromEntries(given.headers),
      agent: agents.agentFor(url.protocol),
      signal: given.signal,
    });
    request.on("response", resolve);
    request.on("error", reject);
    request.on("close", () => reject(closedEarly()));
    request.end(body);
  });
  return toResponse(message);
}

/** What the library's guard destroys a connection with. */
const GUARD = "hostname resolves to a special-use IP address";

/** Whether the guard was it: `fetch` has what happened to its connection as the cause of its own error. */
function isGuards(error: unknown): boolean {
  return Error.isError(error) && (error.message === GUARD || isGuards(error.cause));
}

/** A `fetch` that the host has brought connects by itself: it gets the library's guard, or leave to go without. */
function hostFetch(send: typeof globalThis.fetch, rules: AddressRules): typeof globalThis.fetch {
  return async (target, init) => {
    const url = new URL(target instanceof Request ? target.url : target);
    const { dispatcher: _guard, ...rest } = (init ?? {}) as GuardedInit;
    if (rules.names(url.hostname.replace(/^\[|\]$/g, ""))) return send(target, rest);
    try {
      return await send(target, init);
    } catch (error) {
      throw isGuards(error) ? new AddressRefused(GUARD) : error;
    }
  };
}

/** `fetch` of oidc-provider. */
export function backchannelFetch({ fetch: given, notifications }: Configuration): typeof globalThis.fetch {
  const rules = createAddressRules(notifications.allowedReceivers);
  if (given !== undefined) return hostFetch(given, rules);
  const agents = createGuardedAgents({ rules, keep: 0 });
  return (target, init) => {
    const { dispatcher: _guard, ...rest } = (init ?? {}) as GuardedInit;
    return guardedFetch(agents, new Request(target, rest));
  };
}
