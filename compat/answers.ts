/** How an error leaves the service: status, headers, and JSON or a page. The one place that decides. */
import type { EndpointName } from "../config/deployments.ts";
import { ConditionFailed, StorageUnavailable, VersionConflict } from "../lib/errors.ts";
import { EndpointError } from "./endpoint-error.ts";
import type { CompatDependencies, Exchange } from "./exchange.ts";

/** Endpoints that people's browsers come to: they may get a page. All others answer in JSON. */
const PAGES: ReadonlySet<EndpointName> = new Set([
  "authorize",
  "resume",
  "logout",
  "logoutConfirm",
  "logoutSuccess",
  "interaction",
  "account",
]);

/** Endpoints whose errors keep the standard's status whatever the client is registered for. */
const STANDARD: ReadonlySet<EndpointName> = new Set(["standardUserinfo"]);

/** Seconds after which a request that met a fault may come again. */
const RETRY_AFTER = 5;

const REALM = 'realm="sign-in-service"';

/** RFC 6750 section 3 and RFC 6749 section 5.2, for clients that are registered with `error_status: standard`. */
const standardStatus: Readonly<Record<string, { status: number; challenge: string }>> = {
  invalid_token: { status: 401, challenge: `Bearer ${REALM}, error="invalid_token"` },
  invalid_client: { status: 401, challenge: `Basic ${REALM}, error="invalid_client"` },
  insufficient_scope: { status: 403, challenge: `Bearer ${REALM}, error="insufficient_scope"` },
};

/** Headers as they were before the service touched the response: what is half-done is taken back. */
export function takeBack(
  exchange: Pick<Exchange, "ctx">,
  before: NodeJS.Dict<number | string | string[]>,
): void {
  const { res } = exchange.ctx;
  if (res.headersSent) return;
  for (const name of res.getHeaderNames()) if (before[name] === undefined) res.removeHeader(name);
  for (const [name, value] of Object.entries(before)) if (value !== undefined) res.setHeader(name, value);
}

/** What an error is to the client: its own fault, a lost race, or a fault of ours. */
export function endpointError(error: unknown): EndpointError | undefined {
  if (error instanceof EndpointError) return error;
  if (error instanceof ConditionFailed) {
    return new EndpointError(400, "invalid_request", "somebody else was first; start again", {
      startAgain: true,
    });
  }
  return undefined;
}

function isFault(error: unknown): boolean {
  return error instanceof StorageUnavailable || error instanceof VersionConflict;
}

async function answerFault(
  exchange: Exchange,
  error: unknown,
  dependencies: CompatDependencies,
): Promise<void> {
  const { ctx, endpoint } = exchange;
  if (!isFault(error)) dependencies.onDefect(error);
  const { code = "defect" } = error as { code?: unknown };
  dependencies.events.emit("fault", { where: endpoint, code: String(code) });
  if (wantsPage(exchange)) await dependencies.pages.unavailable(ctx, RETRY_AFTER);
  else ctx.body = { error: "temporarily_unavailable", error_description: "try again in a moment" };
  ctx.status = 503;
  ctx.set("Retry-After", String(RETRY_AFTER));
  ctx.set("Cache-Control", "no-store");
}

function wantsPage({ ctx, endpoint }: Exchange): boolean {
  return PAGES.has(endpoint) && ctx.accepts("json", "html") === "html";
}

/** The status that this client is told, and the challenge that goes with a 401 or 403. */
function statusFor(exchange: Exchange, error: EndpointError): { status: number; challenge?: string } {
  if (STANDARD.has(exchange.endpoint)) return standardStatus[error.error] ?? { status: error.status };
  const asksStandard = exchange.client?.error_status === "standard" && !PAGES.has(exchange.endpoint);
  const missingHeader =
    asksStandard && error.error === "invalid_request" && exchange.ctx.req.headers.authorization === undefined;
  if (missingHeader && /userinfo|profile|revoke/i.test(exchange.endpoint) && exchange.ctx.method === "GET") {
    return { status: 401, challenge: `Bearer ${REALM}` };
  }
  const standard = asksStandard ? standardStatus[error.error] : undefined;
  if (standard) return standard;
  return { status: error.status === 401 || error.status === 403 ? 400 : error.status };
}

/** Puts the error on the response, whatever was there before is taken back already. */
export async function answerError(
  exchange: Exchange,
  thrown: unknown,
  dependencies: CompatDependencies,
): Promise<void> {
  const error = endpointError(thrown);
  if (error === undefined) return answerFault(exchange, thrown, dependencies);
  const { ctx } = exchange;
  const { status, challenge } = statusFor(exchange, error);
  if (wantsPage(exchange)) {
    if (error.startAgain) await dependencies.pages.startAgain(ctx);
    else await dependencies.pages.error(ctx, pageProblem(error, status));
  } else {
    ctx.body = { error: error.error, ...(error.message === "" ? {} : { error_description: error.message }) };
  }
  ctx.status = status;
  if (challenge !== undefined) ctx.set("WWW-Authenticate", challenge);
  if (error.retryAfter !== undefined) ctx.set("Retry-After", String(error.retryAfter));
  if (error.closes && ctx.req.httpVersionMajor === 1) ctx.set("Connection", "close");
  if (error.allow !== undefined) ctx.set("Allow", error.allow.join(", "));
  ctx.set("Cache-Control", "no-store");
  tell(exchange, error, dependencies);
}

function pageProblem(
  { error, message, retryAfter }: EndpointError,
  status: number,
): Parameters<CompatDependencies["pages"]["error"]>[1] {
  const code = status === 429 ? "rate_limited" : error;
  return { status, error: code, description: message, ...(retryAfter === undefined ? {} : { retryAfter }) };
}

function tell(exchange: Exchange, { error }: EndpointError, { events }: CompatDependencies): void {
  const client_id = exchange.client?.client_id;
  if (exchange.endpoint === "token") {
    events.emit("tokens.refused", { error, ...(client_id === undefined ? {} : { client_id }) });
  } else if (exchange.endpoint === "authorize") {
    events.emit("authorization.refused", { error });
  }
}
