/**
 * Runs oidc-provider for one request in a context of its own: the host's cookies, keys, path and parsed body
 * are not touched, and a request can be run again when somebody else was first.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import compose from "koa-compose";
import type { Context } from "koa";
import type { KoaContextWithOIDC, Provider } from "oidc-provider";
import { withoutDoubleCookie } from "../lib/protocol/cookies.ts";
import type { ProtocolState } from "../lib/protocol/dependencies.ts";
import type { Exchange } from "./exchange.ts";
import type { Fields } from "./form-fields.ts";

/** How the provider answered: headers are on the response already, status and body are here. */
export interface ProtocolAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly state: ProtocolState & { readonly retryAfter?: number };
  /** What the library found out on the way: client, account, grant, tokens. */
  readonly oidc: KoaContextWithOIDC["oidc"] | undefined;
}

/** What the library is to see instead of what came. */
export interface ProtocolInput {
  readonly query?: Fields;
  readonly body?: Fields;
  /** Leaves the body to the library, as it came. */
  readonly rawBody?: boolean;
}

type Runner = (exchange: Exchange, input: ProtocolInput) => Promise<ProtocolAnswer>;

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

/** A request with another URL, other headers and another body; everything else is the real one. */
function requestLike(
  req: IncomingMessage,
  url: string,
  headers: IncomingMessage["headers"],
  body: string | undefined,
) {
  const like = Object.create(req) as Mutable<IncomingMessage> & { originalUrl: string };
  like.url = url;
  like.originalUrl = url;
  like.headers = headers;
  if (body !== undefined) {
    // An assignment would reach the state of the real stream.
    Object.defineProperty(like, "readable", { value: true });
    // All that the library does with a stream is to iterate over it.
    Object.defineProperty(like, "iterator", { value: () => [Buffer.from(body)] });
  }
  return like;
}

/** What scripts of any site may read. */
function isPublic({ endpoint }: Exchange): boolean {
  return endpoint === "discovery" || endpoint === "jwks";
}

/** The library lets scripts read more answers than that; what the host application has set stays. */
function withoutCors(res: ServerResponse, before: ReadonlySet<string>): void {
  for (const name of res.getHeaderNames()) {
    if (name.startsWith("access-control-") && !before.has(name)) res.removeHeader(name);
  }
}

function headersFor(exchange: Exchange, body: string | undefined): IncomingMessage["headers"] {
  // The library answers any Origin with an error for confidential clients; who may read an answer is CORS' business.
  const { origin: _origin, authorization: _authorization, ...headers } = exchange.ctx.req.headers;
  const kept: IncomingMessage["headers"] = isPublic(exchange) ? { ...exchange.ctx.req.headers } : headers;
  if (exchange.authorization !== undefined) kept.authorization = exchange.authorization;
  if (body === undefined) return kept;
  const { "transfer-encoding": _chunked, "content-encoding": _encoding, ...rest } = kept;
  return {
    ...rest,
    "content-type": "application/x-www-form-urlencoded",
    "content-length": String(Buffer.byteLength(body)),
  };
}

/** @param sessionCookie name of the cookie that holds the session. */
export function createProtocolRunner(provider: Provider, sessionCookie: string): Runner {
  const run = compose(provider.middleware);
  return async (exchange, { query, body, rawBody }) => {
    const { ctx, deployment, path } = exchange;
    const search = query?.toString() ?? "";
    const form = rawBody === true || ctx.method !== "POST" ? undefined : (body?.toString() ?? "");
    const headers = headersFor(exchange, form);
    const cookie = withoutDoubleCookie(headers.cookie, sessionCookie);
    if (cookie === undefined) delete headers.cookie;
    else headers.cookie = cookie;
    const req = requestLike(ctx.req, search === "" ? path : `${path}?${search}`, headers, form);
    const inner = provider.createContext(req, ctx.res) as unknown as Context;
    // What the browser sees is the configured base URL, whatever the last hop was.
    Object.defineProperty(inner, "secure", { value: deployment.secure });
    Object.defineProperty(inner.request, "secure", { value: deployment.secure });
    const state = inner.state as ProtocolState;
    state.deployment = deployment;
    state.address = exchange.address;
    const before = new Set(ctx.res.getHeaderNames());
    await run(inner, () => Promise.resolve());
    if (!isPublic(exchange)) withoutCors(ctx.res, before);
    const { oidc } = inner as unknown as KoaContextWithOIDC;
    return { status: inner.status, body: inner.body, state, oidc };
  };
}
