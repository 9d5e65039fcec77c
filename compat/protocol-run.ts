/**
 * Runs oidc-provider for one request in a context of its own: the host's cookies, keys, path and parsed body
 * are not touched, and a request can be run again when somebody else was first.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "koa";
import type { KoaContextWithOIDC } from "oidc-provider";
import { withoutDoubleCookie } from "../lib/provider/cookies.ts";
import type { CurrentProvider } from "../lib/provider/current-provider.ts";
import type { RequestState } from "../lib/provider/request.ts";
import type { Exchange } from "./exchange.ts";
import type { Fields } from "./form-fields.ts";
import { SeenRequest } from "./seen-request.ts";

/** How the provider answered: headers are on the response already, status and body are here. */
export interface ProtocolAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly state: RequestState & { readonly retryAfter?: number };
  /** What the library found out on the way: client, account, grant, tokens. */
  readonly oidc: KoaContextWithOIDC["oidc"] | undefined;
}

/** What the library is to see instead of what came. */
export interface ProtocolInput {
  readonly query?: Fields;
  readonly body?: Fields;
}

type Runner = (exchange: Exchange, input: ProtocolInput) => Promise<ProtocolAnswer>;

/** What scripts of any site may read. */
function isPublic({ endpoint }: Exchange): boolean {
  return endpoint === "discovery" || endpoint === "jwks";
}

const CORS = "access-control-allow-origin";

/**
 * The library lets scripts read more answers than that. It leaves alone an answer on which somebody else has said who
 * may read it: that is said while it runs. What the host application has set stays.
 */
async function withoutCors(res: ServerResponse, work: () => Promise<unknown>): Promise<void> {
  if (res.getHeaderNames().some((name) => name.startsWith("access-control-"))) {
    await work();
    return;
  }
  res.setHeader(CORS, "null");
  try {
    await work();
  } finally {
    res.removeHeader(CORS);
  }
}

/** The library answers any Origin with an error for confidential clients; who may read an answer is CORS' business. */
const KEPT_FROM_IT: ReadonlySet<string> = new Set(["origin", "authorization"]);
/** Of the body that came, not of the one that the library sees. */
const OF_THE_BODY: ReadonlySet<string> = new Set(["transfer-encoding", "content-encoding"]);

function headersFor(exchange: Exchange, body: string | undefined): IncomingMessage["headers"] {
  const open = isPublic(exchange);
  const headers: IncomingMessage["headers"] = {};
  for (const [name, value] of Object.entries(exchange.ctx.req.headers)) {
    if (!open && KEPT_FROM_IT.has(name)) continue;
    if (body === undefined || !OF_THE_BODY.has(name)) headers[name] = value;
  }
  if (exchange.authorization !== undefined) headers.authorization = exchange.authorization;
  if (body !== undefined) {
    headers["content-type"] = "application/x-www-form-urlencoded";
    headers["content-length"] = String(Buffer.byteLength(body));
  }
  return headers;
}

function empty(holder: object): void {
  for (const name of Reflect.ownKeys(holder)) Reflect.set(holder, name, undefined);
}

/**
 * Lets go of all that hangs on a context that nobody uses any more. The library defines an accessor on each one, and V8
 * has accessors among what is old from the beginning: through it all that a request has made would be kept, and be
 * copied about, until the whole heap is looked at.
 */
function letGo(inner: Context): void {
  const { oidc } = inner as unknown as Partial<KoaContextWithOIDC>;
  if (oidc !== undefined) empty(oidc);
  empty(inner);
}

/** @param sessionCookie name of the cookie that holds the session. */
export function createProtocolRunner(currentProvider: CurrentProvider, sessionCookie: string): Runner {
  return async (exchange, { query, body }) => {
    const { ctx, deployment, path } = exchange;
    const search = query?.toString() ?? "";
    const form = ctx.method === "POST" ? (body?.toString() ?? "") : undefined;
    const headers = headersFor(exchange, form);
    const cookie = withoutDoubleCookie(headers.cookie, sessionCookie);
    if (cookie !== headers.cookie) headers.cookie = cookie;
    const url = search === "" ? path : `${path}?${search}`;
    const req = new SeenRequest(ctx.req, { url, headers, body: form }) as unknown as IncomingMessage;
    const served = currentProvider();
    const inner = served.provider.createContext(req, ctx.res) as unknown as Context;
    exchange.ended.push(() => {
      if (!served.isWatched()) letGo(inner);
    });
    // oidc-provider builds URLs from these: the browser sees the configured base URL, whatever the last hop was.
    Object.defineProperties(inner.request, {
      protocol: { value: deployment.secure ? "https" : "http" },
      host: { value: deployment.host },
    });
    Object.assign(inner, { mountPath: deployment.path });
    const state = inner.state as RequestState;
    state.deployment = deployment;
    state.address = exchange.address;
    const work = (): Promise<unknown> => served.run(inner);
    await (isPublic(exchange) ? work() : withoutCors(ctx.res, work));
    const { oidc } = inner as unknown as KoaContextWithOIDC;
    return { status: inner.status, body: inner.body, state, oidc };
  };
}
