/**
 * Runs oidc-provider for one request, in a Koa context of its own: the host application's cookies, keys, path and parsed
 * body stay untouched, and the same request can run twice when it loses a race.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "koa";
import type { KoaContextWithOIDC } from "oidc-provider";
import type { Unit } from "../provider/unit-of-work.ts";
import { sessionCookieName, withoutDoubleCookie } from "../provider/sessions/cookies.ts";
import { clientRecord } from "../provider/clients.ts";
import type { CurrentProvider } from "../provider/current-provider.ts";
import type { ProviderServices } from "../provider/services.ts";
import { type Exchange, withExchange } from "../provider/exchange.ts";
import { describedError, documentedCode } from "../provider/responses.ts";
import { isTooDeepJwt, MAX_JSON_LEVELS } from "../core/untrusted-json.ts";
import { EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange } from "./exchange.ts";
import type { Fields } from "./form-fields.ts";
import { refusedProof } from "./proofs.ts";

/** The parameters for oidc-provider, in place of those that were received. */
export interface ProtocolInput {
  readonly query?: Fields;
  readonly body?: Fields;
  /** The `Authorization` header; `undefined` hides that of the request. */
  readonly authorization?: string | undefined;
}

/** A form with the credentials of its client. */
export interface ClientForm {
  readonly body: Fields;
  readonly authorization: string | undefined;
}

/** The answer of oidc-provider. Its headers are already on the response. */
export interface ProtocolAnswer {
  readonly status: number;
  readonly body: unknown;
  /** The client, account, grant and tokens of the request. */
  readonly oidc: KoaContextWithOIDC["oidc"] | undefined;
}

/** Runs oidc-provider and puts its answer on the response, or throws the error that it reports. Commits nothing. */
export type Protocol = (exchange: EndpointExchange, input: ProtocolInput) => Promise<ProtocolAnswer>;

export function createProtocol(
  services: Pick<
    ProviderServices,
    "configuration" | "currentProvider" | "units" | "limits" | "audit" | "proofs"
  >,
): Protocol {
  const { currentProvider, units } = services;
  const sessionCookie = sessionCookieName(services.configuration);
  return async (exchange, input) => {
    const answer = await run(exchange, input, currentProvider, sessionCookie);
    const unit = units.current();
    await requireAllowedClient(exchange, unit);
    // oidc-provider turns errors of the storage into its own errors; the unit of work has the original.
    if (unit?.failure !== undefined) throw unit.failure;
    const { status, body } = answer;
    if (status >= 500) throw new Error(`oidc-provider answered ${status} at ${exchange.endpoint}`);
    const problem = problemOf(answer);
    const { ctx } = exchange;
    if (problem) {
      const { retryAfter } = exchange;
      const refusal = new EndpointError(
        status === 404 ? 400 : status,
        documentedCode(problem.error, problem.description),
        problem.description,
        retryAfter === 0 ? {} : { retryAfter },
      );
      throw await refusedProof(exchange, refusal, services);
    }
    if (body !== undefined && body !== null) ctx.body = body;
    // Koa changes the status when it gets a body.
    ctx.status = status;
    return answer;
  };
}

async function run(
  exchange: EndpointExchange,
  { query, body, authorization }: ProtocolInput,
  currentProvider: CurrentProvider,
  sessionCookie: string,
): Promise<ProtocolAnswer> {
  const { ctx, deployment, path } = exchange;
  for (const jwt of [ctx.get("dpop"), body?.one("client_assertion")])
    if (jwt && isTooDeepJwt(jwt))
      throw invalidRequest(`a JWT is nested deeper than ${MAX_JSON_LEVELS} levels`);
  const search = query?.toString() ?? "";
  const form = ctx.method === "POST" ? (body?.toString() ?? "") : undefined;
  const headers = headersFor(exchange, form, authorization);
  const cookie = withoutDoubleCookie(headers.cookie, sessionCookie);
  if (cookie !== headers.cookie) headers.cookie = cookie;
  const url = search === "" ? path : `${path}?${search}`;
  const req = new RewrittenRequest(ctx.req, url, headers, form) as unknown as IncomingMessage;
  const served = currentProvider();
  const inner = served.provider.createContext(req, ctx.res) as unknown as Context;
  exchange.onSettled.push(() => {
    if (!served.isWatched()) release(inner);
  });
  // oidc-provider builds URLs from these. The browser sees the configured base URL, whatever the last proxy sends.
  Object.defineProperties(inner.request, {
    protocol: { value: deployment.secure ? "https" : "http" },
    host: { value: deployment.host },
  });
  Object.assign(withExchange(inner, exchange), { mountPath: deployment.path });
  const work = (): Promise<unknown> => served.run(inner);
  await (isPublic(exchange) ? work() : withoutCors(ctx.res, work));
  const { oidc } = inner as unknown as KoaContextWithOIDC;
  // A request may name no client: then it is the token's.
  if (exchange.client === undefined && oidc?.client !== undefined)
    exchange.client = clientRecord(oidc.client);
  return { status: inner.status, body: inner.body, oidc };
}

/**
 * A copy of a request with another URL, other headers and another body. It is a plain object: an object with the real
 * request as its prototype costs Node about as much as handling that request.
 */
class RewrittenRequest {
  readonly url: string;
  readonly originalUrl: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: undefined;
  readonly method: string | undefined;
  readonly socket: IncomingMessage["socket"];
  readonly httpVersion: string;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly readable: boolean;
  readonly #form: string;

  /** @param form `undefined` for a request without a body. */
  constructor(req: IncomingMessage, url: string, headers: IncomingHttpHeaders, form: string | undefined) {
    this.url = url;
    this.originalUrl = url;
    this.headers = headers;
    this.method = req.method;
    this.socket = req.socket;
    this.httpVersion = req.httpVersion;
    this.httpVersionMajor = req.httpVersionMajor;
    this.httpVersionMinor = req.httpVersionMinor;
    this.readable = form !== undefined;
    this.#form = form ?? "";
  }

  /** oidc-provider reads a body only by iterating over it. */
  iterator(): Iterable<Buffer> {
    return [Buffer.from(this.#form)];
  }
}

/** oidc-provider answers an `Origin` with an error for confidential clients; CORS decides who reads a response. */
const HIDDEN_HEADERS: ReadonlySet<string> = new Set(["origin", "authorization"]);
/** They describe the received body, which is replaced. */
const BODY_HEADERS: ReadonlySet<string> = new Set(["transfer-encoding", "content-encoding"]);

function headersFor(
  exchange: EndpointExchange,
  form: string | undefined,
  authorization: string | undefined,
): IncomingHttpHeaders {
  const open = isPublic(exchange);
  const { checked, token } = exchange.proof;
  const headers: IncomingHttpHeaders = {};
  for (const [name, value] of Object.entries(exchange.ctx.req.headers)) {
    if (!open && HIDDEN_HEADERS.has(name)) continue;
    if (name === "dpop" && (checked === undefined || token !== undefined)) continue;
    if (form === undefined || !BODY_HEADERS.has(name)) headers[name] = value;
  }
  if (authorization !== undefined) headers.authorization = authorization;
  if (form !== undefined) {
    headers["content-type"] = "application/x-www-form-urlencoded";
    headers["content-length"] = String(Buffer.byteLength(form));
  }
  return headers;
}

/** Scripts of any origin may read these responses. */
function isPublic({ endpoint }: EndpointExchange): boolean {
  return endpoint === "discovery" || endpoint === "jwks";
}

const CORS = "access-control-allow-origin";

/**
 * oidc-provider sets CORS headers on more endpoints than that, but not on a response that has one already. A placeholder
 * keeps it from doing so; CORS headers of the host application stay.
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

/**
 * Drops every reference that a finished context holds. oidc-provider defines an accessor on each context, and V8
 * allocates accessors in the old generation: a young-generation collection would keep the context and everything that
 * it leads to.
 */
function release(inner: Context): void {
  const { oidc } = inner as unknown as Partial<KoaContextWithOIDC>;
  if (oidc !== undefined) clear(oidc);
  clear(inner);
}

function clear(holder: object): void {
  for (const name of Reflect.ownKeys(holder)) Reflect.set(holder, name, undefined);
}

/** The description that oidc-provider gives for a wrong client secret. */
const WRONG_SECRET = "client authentication failed";

/** A client that tried too many secrets is refused, even with the right one, and cannot tell the difference. */
async function requireAllowedClient({ authentication }: Exchange, unit: Unit | undefined): Promise<void> {
  const { allowed, retryAfter } = await authentication.verdict;
  if (allowed) return;
  const refusal = new EndpointError(401, "invalid_client", WRONG_SECRET, { retryAfter });
  // A failed unit commits nothing. Other refusals do commit: they may revoke a family.
  if (unit !== undefined) unit.failure = refusal;
  throw refusal;
}

interface ProviderError {
  readonly error: string;
  readonly description: string;
}

/** The error that oidc-provider reports, whether it rendered JSON or requested an error page. */
function problemOf({ body, status }: ProtocolAnswer): ProviderError | undefined {
  if (status < 400) return undefined;
  const { error, error_description: description } = (body ?? {}) as {
    error?: unknown;
    error_description?: unknown;
  };
  const code = typeof error === "string" ? error : "invalid_request";
  return { error: code, description: describedError(code, description) };
}
