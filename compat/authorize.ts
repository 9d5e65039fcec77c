/** The documented authorization endpoint, in front of the library's. */
import type { ClientRecord } from "../lib/directory/directory.ts";
import { artifactKey } from "../adapters/oidc/adapter.ts";
import { ANONYMOUS } from "../lib/audit/audit-event.ts";
import { noteLimited } from "../lib/provider/attempt-limits.ts";
import { knownClaims, MOST_CLAIMS_BYTES } from "../lib/provider/claims.ts";
import { effectiveScope } from "../lib/provider/claims.ts";
import { SENT_STATE } from "../lib/provider/responses.ts";
import { appendToQuery, responseMembers } from "../lib/provider/responses.ts";
import { auditCaller } from "./caller.ts";
import { EndpointError } from "./endpoint-error.ts";
import type { CompatDependencies, Exchange, Step } from "./exchange.ts";
import { parseFields, type Fields } from "./form-fields.ts";
import type { Protocol } from "./protocol-step.ts";
import { formBody } from "./request-body.ts";

const MOST_STATE_BYTES = 4_096;
const PUSHED = "urn:ietf:params:oauth:request_uri:";

/** Parameters that ask for OpenID Connect only: errors without `openid`, so they are dropped there. */
const OPENID_ONLY = ["nonce", "max_age", "id_token_hint", "acr_values", "claims", "claims_locales"] as const;

const bad = (error: string, description: string): EndpointError => new EndpointError(400, error, description);

/** Reads the parameters; what is malformed is a 400, never a redirect. */
export const exactParameters: Step = async (exchange, next) => {
  if (exchange.ctx.method === "POST") {
    await formBody(exchange, () => Promise.resolve());
    exchange.query = exchange.body;
  } else {
    exchange.query = parseFields(exchange.ctx.querystring);
  }
  if (exchange.deployment.kind === "oauth2") {
    exchange.query = exchange.query?.without(["request", "request_uri", "registration", "response_mode"]);
  }
  await next();
};

/** Missing, unknown, disabled, repeated: never a redirect, for nobody says where to. */
export function knownClient({ clients }: CompatDependencies): Step {
  return async (exchange, next) => {
    const ids = exchange.query?.all("client_id") ?? [];
    if (ids.length !== 1 || !ids[0]) throw bad("invalid_request", "client_id must be there exactly once");
    const client = await clients.record(ids[0]);
    if (client === undefined || client.disabled) throw bad("invalid_client", "the client is not known");
    exchange.client = client;
    await next();
  };
}

/** A pushed request can be used only by the client that pushed it (RFC 9126 section 4). */
export function pushedRequest({ units }: CompatDependencies): Step {
  return async (exchange, next) => {
    const { query, client } = exchange;
    if (!query?.has("request_uri")) return next();
    const uri = query.one("request_uri") ?? "";
    const unit = units.current();
    const pushed = uri.startsWith(PUSHED)
      ? await unit?.find("PushedAuthorizationRequest", artifactKey(uri.slice(PUSHED.length)))
      : undefined;
    if (objectClaims(pushed?.payload["request"])["client_id"] !== client?.client_id) {
      throw bad("invalid_request_uri", "the request_uri is not known, was used or has expired");
    }
    // Only the pushed parameters were authenticated, so those beside request_uri are dropped.
    exchange.query = query.without(
      query
        .entries()
        .map(([name]) => name)
        .filter((name) => name !== "client_id" && name !== "request_uri"),
    );
    await next();
  };
}

/** What a request object says, unverified; nothing when it can't be read. */
function objectClaims(request: unknown): Record<string, unknown> {
  const payload = typeof request === "string" ? (request.split(".")[1] ?? "") : "";
  try {
    return Object(JSON.parse(Buffer.from(payload, "base64url").toString())) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/**
 * Request objects are refused. A client that asks for `form_post` in the object alone is told so by form post: it
 * would not find the error in the query. Nothing else of the object counts.
 */
export const readableRefusal: Step = async (exchange, next) => {
  const { query } = exchange;
  const asked = query?.has("response_mode")
    ? undefined
    : objectClaims(query?.one("request"))["response_mode"];
  if (query && asked === "form_post") exchange.query = query.with("response_mode", asked);
  await next();
};

/** Compared character by character; left out only where the document allows it. */
export const matchingRedirect: Step = async (exchange, next) => {
  const { query, client, deployment } = exchange;
  if (!query || !client || query.has("request_uri")) return next();
  exchange.query = withRedirect(query, client, deployment.kind === "oauth2");
  await next();
};

function withRedirect(query: Fields, client: ClientRecord, mayBeLeftOut: boolean): Fields {
  const given = query.all("redirect_uri");
  if (given.length > 1) throw bad("invalid_request", "redirect_uri is repeated");
  const [address] = given;
  if (address === undefined) {
    const registered = client.redirect_uris[0];
    if (!mayBeLeftOut || registered === undefined) throw bad("invalid_request", "redirect_uri is missing");
    return query.with("redirect_uri", registered);
  }
  if (address === "") throw bad("invalid_request", "redirect_uri is empty");
  if (!client.redirect_uris.includes(address)) {
    throw bad("invalid_redirect_uri", "redirect_uri is not the registered address");
  }
  return query;
}

/** The state is echoed exactly, but it has a size. */
export const boundedState: Step = async (exchange, next) => {
  const states = exchange.query?.all("state") ?? [];
  if (states.some((state) => Buffer.byteLength(state) > MOST_STATE_BYTES)) {
    throw bad("invalid_request", `state is longer than ${MOST_STATE_BYTES} bytes`);
  }
  await next();
};

/** What the library needs to answer a request without `response_type`: where to, how, and the state. */
const ANSWERED = ["client_id", "redirect_uri", "state"] as const;

/**
 * Anything but exactly `code`: the documented redirect with `invalid_response_type`, always in the query.
 * On `openid` a missing one is an error of OpenID Connect, which may go by form post: the library answers it.
 */
export function codeResponse(authorize: Step): Step {
  return async (exchange, next) => {
    const { query, ctx, deployment } = exchange;
    if (!query || query.has("request_uri") || query.all("response_type").join(" ") === "code") return next();
    if (deployment.kind === "openid" && !query.has("response_type")) {
      const asked = query.only(ANSWERED);
      const isPosted = query.one("response_mode") === "form_post";
      exchange.query = librarySees(isPosted ? asked.with("response_mode", "form_post") : asked, exchange);
      return authorize(exchange, next);
    }
    const { url: iss } = deployment;
    const members = responseMembers({ error: "invalid_response_type", iss }, query.one("state"), deployment);
    ctx.status = 302;
    ctx.set("Location", appendToQuery(query.one("redirect_uri") ?? "", members));
    ctx.set("Cache-Control", "no-store");
    ctx.body = "";
  };
}

/** `profile: strict` takes no code without PKCE (RFC 9700 section 2.1.1). */
export function provenCode({ configuration }: CompatDependencies): Step {
  return async (exchange, next) => {
    const { query } = exchange;
    if (configuration.profile === "strict" && !query?.has("request_uri") && !query?.one("code_challenge")) {
      throw bad("invalid_request", "code_challenge is missing");
    }
    await next();
  };
}

/**
 * What the library may see: scopes and claims that the service knows, no parameter that it refuses without `openid`,
 * the sent state.
 */
export function librarySees(fields: Fields, exchange: Pick<Exchange, "deployment" | "client">): Fields {
  const { kind } = exchange.deployment;
  let seen = fields.without([SENT_STATE]);
  if (seen.all("scope").length <= 1) seen = seen.with("scope", effectiveScope(seen.one("scope"), kind));
  if (!(seen.one("scope") ?? "").split(" ").includes("openid")) seen = seen.without([...OPENID_ONLY]);
  const claims = seen.one("claims");
  if (claims !== undefined) {
    if (Buffer.byteLength(claims) > MOST_CLAIMS_BYTES)
      throw bad("invalid_request", `claims is longer than ${MOST_CLAIMS_BYTES} bytes`);
    seen = seen.with("claims", knownClaims(claims));
  }
  const state = seen.one("state");
  if (state !== undefined) seen = seen.with(SENT_STATE, `.${state}`);
  const prompt = seen.one("prompt");
  if (exchange.client?.first_party && prompt !== undefined) {
    // First-party clients are not asked, also when they would like to be.
    const prompts = prompt.split(" ").filter((value) => value !== "consent");
    seen = prompts.length === 0 ? seen.without(["prompt"]) : seen.with("prompt", prompts.join(" "));
  }
  return seen;
}

export const plainScope: Step = async (exchange, next) => {
  if (exchange.query && !exchange.query.has("request_uri"))
    exchange.query = librarySees(exchange.query, exchange);
  await next();
};

/** Runs the library; a new interaction takes a point of the caller's address, and is not written without one. */
export function authorizeProtocol(
  { limits, events, audit, pages }: CompatDependencies,
  protocol: Protocol,
): Step {
  return async (exchange) => {
    const { ctx, query } = exchange;
    // The library adds the hash of its auto-submitting script to the policy that it finds.
    pages.security(ctx);
    const post = ctx.method === "POST";
    const answer = await protocol(exchange, post ? { body: query! } : { query: query! });
    const { oidc } = answer;
    if (oidc?.entities.Interaction && answer.status === 303) {
      const attempt = await limits.interaction(exchange.address);
      if (!attempt.allowed) {
        noteLimited(audit, { ...auditCaller(exchange, ANONYMOUS), action: "interaction" }, attempt);
        throw new EndpointError(429, "temporarily_unavailable", "too many sign-ins were started", {
          retryAfter: attempt.retryAfter,
        });
      }
    }
    const code = oidc?.entities.AuthorizationCode;
    if (code) {
      const { accountId: sub, clientId: client_id } = code;
      if (sub !== undefined && client_id !== undefined) {
        const caller = auditCaller(exchange, { kind: "account", id: sub });
        exchange.outcome.push(() => {
          events.emit("code.issued", { sub, client_id });
          audit.note({ ...caller, client: client_id, action: "grant.created", subject: sub });
        });
      }
    }
  };
}

/** The browser comes back from the pages; anything that does not fit begins again. */
export function resumeProtocol(dependencies: CompatDependencies, protocol: Protocol): Step {
  const authorize = authorizeProtocol(dependencies, protocol);
  return async (exchange, next) => {
    try {
      exchange.query = parseFields("");
      await authorize(exchange, next);
    } catch (error) {
      if (error instanceof EndpointError && error.status === 400) {
        throw new EndpointError(400, error.error, error.message, { startAgain: true });
      }
      throw error;
    }
  };
}
