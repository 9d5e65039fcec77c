/** How an error leaves the service: its status, its headers, and JSON or a page. Nothing else decides this. */
import type { EndpointName } from "../config/deployments.ts";
import { ConditionFailed, StorageUnavailable } from "../core/errors.ts";
import { GRANT_TYPES } from "../core/metric-catalog.ts";
import { EndpointError } from "./errors.ts";
import type { EndpointExchange } from "./exchange.ts";
import { hasProof, proofChallenge } from "./proofs.ts";
import type { ErrorAnswer } from "../provider/pages.ts";
import type { ProviderServices } from "../provider/services.ts";

/** Endpoints that browsers visit. They answer with a page if the browser accepts HTML; all others answer with JSON. */
const PAGES: ReadonlySet<EndpointName> = new Set([
  "authorize",
  "resume",
  "logout",
  "logoutConfirm",
  "logoutSuccess",
  "interaction",
  "confirm",
  "account",
]);

/** When a client may retry a request that met a fault. */
const RETRY_AFTER_SECONDS = 5;

const REALM = 'realm="sign-in-service"';

/** The statuses of RFC 6750 section 3 and RFC 6749 section 5.2, for clients registered with `error_status: standard`. */
const standardStatus: Readonly<Record<string, { status: number; challenge: string }>> = {
  invalid_token: { status: 401, challenge: `Bearer ${REALM}, error="invalid_token"` },
  invalid_client: { status: 401, challenge: `Basic ${REALM}, error="invalid_client"` },
  insufficient_scope: { status: 403, challenge: `Bearer ${REALM}, error="insufficient_scope"` },
};

/** The endpoints to which requests bring an access token. */
const TAKES_TOKENS = /userinfo|profile|revoke/i;

/** The statuses of refusals of a token that is bound to a key (RFC 9449 section 7.1). */
const PROOF_STATUS: Readonly<Record<string, number>> = {
  invalid_token: 401,
  invalid_dpop_proof: 401,
  use_dpop_nonce: 401,
  insufficient_scope: 403,
};

/** Restores the headers that the response had before the service handled the request. */
export function restoreHeaders(
  { ctx: { res } }: Pick<EndpointExchange, "ctx">,
  before: NodeJS.Dict<number | string | string[]>,
): void {
  if (res.headersSent) return;
  for (const name of res.getHeaderNames()) if (before[name] === undefined) res.removeHeader(name);
  for (const [name, value] of Object.entries(before)) if (value !== undefined) res.setHeader(name, value);
}

/** Puts an error on the response. @returns the error if it is no fault of the caller. */
export async function respondWithError(
  exchange: EndpointExchange,
  thrown: unknown,
  services: Pick<ProviderServices, "pages" | "events" | "onDefect" | "proofs">,
): Promise<unknown> {
  const error = clientError(thrown, exchange);
  if (error === undefined) {
    respondWithFault(exchange, thrown, services);
    return thrown;
  }
  const { ctx } = exchange;
  const { status, challenge } = statusFor(exchange, error, services);
  if (wantsPage(exchange)) {
    if (error.startAgain) services.pages.startAgain(ctx, error.startAgain);
    else services.pages.error(ctx, pageProblem(error, status));
  } else {
    ctx.body = { error: error.error, ...(error.message === "" ? {} : { error_description: error.message }) };
  }
  ctx.status = status;
  if (challenge !== undefined) ctx.set("WWW-Authenticate", challenge);
  if (error.nonce !== undefined) ctx.set("DPoP-Nonce", error.nonce);
  if (error.retryAfter !== undefined) ctx.set("Retry-After", String(error.retryAfter));
  if (error.closes && ctx.req.httpVersionMajor === 1) ctx.set("Connection", "close");
  if (error.allow !== undefined) ctx.set("Allow", error.allow.join(", "));
  ctx.set("Cache-Control", "no-store");
  await emitRefusal(exchange, error, services);
  return undefined;
}

/** The client's own error, or a lost race; `undefined` for a fault of the service. */
function clientError(
  thrown: unknown,
  { ctx, endpoint, deployment, path }: EndpointExchange,
): EndpointError | undefined {
  if (thrown instanceof EndpointError) return thrown;
  if (!(thrown instanceof ConditionFailed)) return undefined;
  return new EndpointError(400, "invalid_request", "another request was faster; start again", {
    // Nobody can open the address that a form signs out at.
    startAgain: endpoint === "logoutConfirm" ? {} : { action: deployment.path + path + ctx.search },
  });
}

function respondWithFault(
  exchange: EndpointExchange,
  fault: unknown,
  { pages, events, onDefect }: Pick<ProviderServices, "pages" | "events" | "onDefect">,
): void {
  const { ctx, endpoint } = exchange;
  const isExpected = fault instanceof StorageUnavailable;
  if (!isExpected) onDefect(fault);
  const { code = "defect" } = fault as { code?: unknown };
  events.emit("fault", { where: endpoint, code: String(code) });
  if (wantsPage(exchange)) pages.unavailable(ctx, RETRY_AFTER_SECONDS);
  else ctx.body = { error: "temporarily_unavailable", error_description: "try again in a moment" };
  ctx.status = 503;
  ctx.set("Retry-After", String(RETRY_AFTER_SECONDS));
  ctx.set("Cache-Control", "no-store");
}

function wantsPage({ ctx, endpoint }: EndpointExchange): boolean {
  return PAGES.has(endpoint) && ctx.accepts("json", "html") === "html";
}

/** The documented interface uses 400 where the standards use 401 or 403. Clients with `error_status: standard` get the latter. */
function statusFor(
  exchange: EndpointExchange,
  error: EndpointError,
  { proofs }: Pick<ProviderServices, "proofs">,
): { status: number; challenge?: string } {
  const { ctx, client, endpoint } = exchange;
  const proves = hasProof(exchange) && proofs.isOn(client);
  const refused = proves && TAKES_TOKENS.test(endpoint) ? PROOF_STATUS[error.error] : undefined;
  if (refused !== undefined) return { status: refused, challenge: proofChallenge(REALM, error.error) };
  if (endpoint === "standardUserinfo") return standardStatus[error.error] ?? { status: error.status };
  const isStandard = (proves || client?.error_status === "standard") && !PAGES.has(endpoint);
  const lacksHeader =
    isStandard && error.error === "invalid_request" && ctx.req.headers.authorization === undefined;
  if (lacksHeader && TAKES_TOKENS.test(endpoint) && ctx.method === "GET") {
    return { status: 401, challenge: `Bearer ${REALM}` };
  }
  const standard = isStandard ? standardStatus[error.error] : undefined;
  if (standard) return standard;
  return { status: error.status === 401 || error.status === 403 ? 400 : error.status };
}

function pageProblem({ error, message, retryAfter }: EndpointError, status: number): ErrorAnswer {
  const code = status === 429 ? "rate_limited" : error;
  return { status, error: code, description: message, ...(retryAfter === undefined ? {} : { retryAfter }) };
}

async function emitRefusal(
  exchange: EndpointExchange,
  { error }: EndpointError,
  { events }: Pick<ProviderServices, "events">,
): Promise<void> {
  const { endpoint, client } = exchange;
  if (endpoint === "token") {
    const sent = await exchange.fields().catch(() => undefined);
    const grant_type = GRANT_TYPES.find((known) => known === sent?.one("grant_type"));
    events.emit("tokens.refused", {
      error,
      ...(grant_type === undefined ? {} : { grant_type }),
      ...(client === undefined ? {} : { client_id: client.client_id }),
    });
  } else if (endpoint === "authorize") {
    events.emit("authorization.refused", { error });
  }
}
