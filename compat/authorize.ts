/** The documented authorization endpoint, in front of oidc-provider's. */
import { artifactKey, isPresentable } from "../provider/adapter.ts";
import { readCookie } from "../core/cookies.ts";
import type { Unit, UnitsOfWork } from "../provider/unit-of-work.ts";
import { ANONYMOUS, clientNow } from "../records/audit/audit-event.ts";
import type { ClientRecord } from "../records/directory/directory.ts";
import { type ClientInternals, isInternal } from "../accounts/clients/client.ts";
import { isClientId } from "../accounts/text-rules.ts";
import { protocolClientId, storedClientId } from "../records/directory/document-kinds.ts";
import { isAllowedAddress } from "../accounts/clients/client-kinds.ts";
import { isTooDeepText, MAX_JSON_LEVELS } from "../core/untrusted-json.ts";
import { type AttemptLimits, noteLimited } from "../accounts/limits/attempt-limits.ts";
import { appendToQuery, responseMembers } from "../provider/responses.ts";
import { INVITED, OWN_WAYS, SENT_ACR_VALUES, SENT_MAX_AGE } from "../provider/policy.ts";
import { SENT_STATE } from "../provider/responses.ts";
import { clientRecord } from "../provider/clients.ts";
import { callerOf } from "../provider/exchange.ts";
import { isOpen } from "./client-credentials.ts";
import { badRequest, EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange, Handler } from "./exchange.ts";
import type { StartAgainAnswer } from "../provider/pages.ts";
import type { ProviderServices } from "../provider/services.ts";
import { sessionCookieName } from "../provider/sessions/cookies.ts";
import { Fields, queryFields } from "./form-fields.ts";
import type { Protocol } from "./protocol.ts";
import { authorizationForm } from "./request-body.ts";

const PUSHED = "urn:ietf:params:oauth:request_uri:";

/** Reads the parameters. A malformed request gets a 400, never a redirect. */
export async function sentParameters(exchange: EndpointExchange): Promise<Fields> {
  const { ctx, deployment } = exchange;
  const sent = ctx.method === "POST" ? await authorizationForm(exchange) : queryFields(ctx.querystring);
  return deployment.kind === "oauth2"
    ? sent.without(["request", "request_uri", "registration", "response_mode"])
    : sent;
}

/**
 * Starts to read the session while the client is being read: one round trip to the store instead of two. oidc-provider
 * verifies the signature of the cookie before it uses the session.
 */
export function prefetchSession({
  configuration,
  units,
}: Pick<ProviderServices, "configuration" | "units">): (exchange: EndpointExchange) => void {
  const sessionCookie = sessionCookieName(configuration);
  return ({ ctx }) => {
    const id = readCookie(ctx, sessionCookie);
    if (id !== undefined && isPresentable(id)) units.required().prefetch("Session", artifactKey(id));
  };
}

/** Without a known, enabled client there is no address to redirect to: the error is a 400. */
export async function knownClient(
  exchange: EndpointExchange,
  query: Fields,
  clients: Pick<ClientInternals, "record" | "kindOf">,
): Promise<ClientRecord> {
  const [id, ...others] = query.all("client_id");
  if (others.length > 0 || !id) throw invalidRequest("client_id must be sent exactly once");
  const known = exchange.client;
  const isKnown = known !== undefined && protocolClientId(known) === id;
  const client = isKnown ? known : isClientId(id) ? await clients.record(id) : undefined;
  if (client === undefined || client.disabled) throw badRequest("invalid_client", "the client is not known");
  exchange.client = client;
  if (clients.kindOf(client).addresses === null)
    throw badRequest("unauthorized_client", `a ${client.kind} client has no address to redirect to`);
  return client;
}

/** Only the client that pushed a request can use it (RFC 9126 section 4). */
export async function pushedRequest(query: Fields, client: ClientRecord, unit: Unit): Promise<Fields> {
  const uri = query.one("request_uri") ?? "";
  const pushed = uri.startsWith(PUSHED)
    ? await unit.find("PushedAuthorizationRequest", artifactKey(uri.slice(PUSHED.length)))
    : undefined;
  if (objectClaims(pushed?.payload["request"])["client_id"] !== protocolClientId(client))
    throw badRequest("invalid_request_uri", "the request_uri is not known, was used or has expired");
  // Only the pushed parameters were authenticated.
  return query.only(["client_id", "request_uri"]);
}

/** The claims of a request object, unverified; empty if it cannot be read. */
function objectClaims(request: unknown): Record<string, unknown> {
  const payload = typeof request === "string" ? request.split(".")[1] : undefined;
  // Almost no request has one, and an error with its stack takes 25 µs.
  if (!payload) return {};
  try {
    return Object(JSON.parse(Buffer.from(payload, "base64url").toString())) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Refuses a redirect address that is not one of the client's, character by character. */
export type RedirectCheck = (
  exchange: EndpointExchange,
  client: ClientRecord,
  address: string | undefined,
) => void;

const HOUR_MS = 3_600_000;
/** A longer wrong address is cut off in an answer. */
const MAX_SHOWN_LENGTH = 300;

/**
 * A wrong address is a mistake in the client's settings, or an attack. The log names the client once an hour, and the audit
 * has one record an hour with a count. Outside production, the answer shows what was sent and what is registered.
 */
export function createRedirectCheck({
  configuration: { production, clock },
  clients,
  audit,
  onWarning,
}: Pick<ProviderServices, "configuration" | "clients" | "audit" | "onWarning">): RedirectCheck {
  const warnedAt = new Map<string, number>();

  function report(exchange: EndpointExchange, { client_id }: ClientRecord): void {
    audit.noteRefusal(
      {
        ...callerOf(exchange.ctx, ANONYMOUS),
        action: "client.redirect_refused",
        subject: client_id,
        outcome: "failure",
        reason: "redirect_uri",
      },
      { limit: "redirect_uri", bucket: client_id, seconds: HOUR_MS / 1000 },
    );
    const now = clock.now();
    if (now - (warnedAt.get(client_id) ?? -Infinity) < HOUR_MS) return;
    warnedAt.set(client_id, now);
    onWarning(`the client ${client_id} sends people to an address that is not among its redirect_uris`);
  }

  return (exchange, client, address) => {
    if (address === undefined) throw invalidRequest("redirect_uri is missing");
    if (address === "") throw invalidRequest("redirect_uri is empty");
    const { redirect_uris } = client;
    if (isAllowedAddress(clients.kindOf(client), client, redirect_uris, address, production)) return;
    report(exchange, client);
    const details = production
      ? ""
      : `: ${printable(address.slice(0, MAX_SHOWN_LENGTH))} was sent, and registered is ${redirect_uris.join(" or ")}`;
    throw badRequest("invalid_redirect_uri", `redirect_uri is not the registered address${details}`);
  };
}

/** The address, with markup and every character that RFC 6749 section 5.2 keeps out of a description encoded. */
function printable(address: string): string {
  return address.toWellFormed().replaceAll(/[^\u0021-\u007e]|["<>\\]/gu, encodeURIComponent);
}

/** Compares the address; only the `oauth2` deployment lets a client omit it, and only a `web` client. */
export function withRedirect(
  exchange: EndpointExchange,
  query: Fields,
  client: ClientRecord,
  { kindOf }: Pick<ClientInternals, "kindOf">,
  requireRegistered: RedirectCheck,
): Fields {
  const [address, ...others] = query.all("redirect_uri");
  if (others.length > 0) throw invalidRequest("redirect_uri is repeated");
  const [first] = kindOf(client).behaves === "documented" ? client.redirect_uris : [];
  if (address === undefined && exchange.deployment.kind === "oauth2" && first !== undefined)
    return query.with("redirect_uri", first);
  requireRegistered(exchange, client, address);
  return query;
}

/** The parameters that oidc-provider needs to report a missing `response_type`. */
const REPORTING = ["client_id", "redirect_uri", "state"] as const;

/** Whether `response_type` is exactly `code`. */
export const asksForCode = (query: Fields): boolean => query.all("response_type").join(" ") === "code";

/**
 * The parameters with which oidc-provider reports a missing `response_type`: on the `openid` deployment that is an error of OpenID
 * Connect, which may need form post. `undefined` for another response type, and on the other deployment.
 */
export function withoutResponseType({ deployment }: EndpointExchange, query: Fields): Fields | undefined {
  if (deployment.kind !== "openid" || query.has("response_type")) return undefined;
  const reporting = query.only(REPORTING);
  return query.one("response_mode") === "form_post"
    ? reporting.with("response_mode", "form_post")
    : reporting;
}

/** Redirects with `invalid_response_type` in the query. */
export function refuseResponseType({ ctx, deployment }: EndpointExchange, query: Fields): void {
  const { url: iss } = deployment;
  const members = responseMembers({ error: "invalid_response_type", iss }, query.one("state"), deployment);
  ctx.status = 302;
  ctx.set("Location", appendToQuery(query.one("redirect_uri") ?? "", members));
  ctx.set("Cache-Control", "no-store");
  ctx.body = "";
}

/** `profile: strict` requires PKCE (RFC 9700 section 2.1.1). */
export function requireChallenge(parameters: Fields, profile: "documented" | "strict"): void {
  if (profile === "strict" && !parameters.one("code_challenge"))
    throw invalidRequest("code_challenge is missing");
}

/**
 * The checks of the authorization endpoint that oidc-provider does not make on a pushed request, or reports as another error
 * (RFC 9126 section 2.1).
 */
export function checkPushed(
  { configuration: { profile }, clients }: Pick<ProviderServices, "configuration" | "clients">,
  requireRegistered: RedirectCheck,
): (exchange: EndpointExchange, body: Fields, client: ClientRecord | undefined) => void {
  return (exchange, body, client) => {
    if (body.has("request_uri")) throw badRequest("invalid_request_uri", "request_uri can't be pushed");
    if (client && !client.disabled) {
      if (clients.kindOf(client).addresses === null)
        throw badRequest("unauthorized_client", `a ${client.kind} client can't send people to sign in`);
      const address = body.one("redirect_uri");
      if (address) requireRegistered(exchange, client, address);
      if (body.has("response_type") && body.one("response_type") !== "code")
        throw badRequest("invalid_response_type", "response_type must be code");
      requireChallenge(body, profile);
    }
  };
}

/** The SHA-256 of a key, in base64url (RFC 7638). No proof has another thumbprint, so a code that is bound to it is lost. */
const THUMBPRINT = /^[\w-]{43}$/;

/** Parameters of OpenID Connect that are errors without the scope `openid`; they are ignored there. */
const OPENID_ONLY = ["nonce", "max_age", "id_token_hint", "acr_values", "claims", "claims_locales"] as const;

/** The parameters for oidc-provider: supported scopes and claims only, and the state in a parameter of our own. */
export function providerParameters(
  fields: Fields,
  { deployment }: EndpointExchange,
  client: ClientRecord | undefined,
  { claims, proofs }: Pick<ProviderServices, "claims" | "proofs">,
): Fields {
  const supported = client === undefined ? claims : claims.readBy(client);
  const isOwn = client !== undefined && isInternal(client);
  let result = fields.without([
    SENT_STATE,
    SENT_MAX_AGE,
    SENT_ACR_VALUES,
    ...(isOwn ? [] : [OWN_WAYS, INVITED]),
    ...(proofs.isOn(client) ? [] : ["dpop_jkt"]),
  ]);
  if (!result.all("dpop_jkt").every((value) => THUMBPRINT.test(value)))
    throw invalidRequest("dpop_jkt must be the SHA-256 thumbprint of a key, in base64url");
  if (result.all("scope").length <= 1) {
    const scope = result.one("scope");
    result = result.with(
      "scope",
      result.has("resource")
        ? supported.scopeForApis(scope, deployment.kind)
        : supported.effectiveScope(scope, deployment.kind),
    );
  }
  if (!(result.one("scope") ?? "").split(" ").includes("openid")) {
    const [maxAge, acrValues] = ["max_age", "acr_values"].map((name) => {
      const [value, ...more] = result.all(name);
      if (more.length > 0) throw invalidRequest(`${name} is repeated`);
      return value;
    });
    result = result.without([...OPENID_ONLY]);
    if (maxAge) result = result.with(SENT_MAX_AGE, maxAge);
    if (acrValues) result = result.with(SENT_ACR_VALUES, acrValues);
  }
  const named = result.one("claims");
  if (named !== undefined) {
    if (isTooDeepText(named)) throw invalidRequest(`claims is nested deeper than ${MAX_JSON_LEVELS} levels`);
    result = result.with("claims", supported.known(named));
  }
  const state = result.one("state");
  if (state !== undefined) result = result.with(SENT_STATE, `.${state}`);
  const prompt = result.one("prompt");
  if (client?.first_party && prompt !== undefined) {
    // First-party clients need no consent, even if they ask for it.
    const prompts = prompt.split(" ").filter((value) => value !== "consent");
    result = prompts.length === 0 ? result.without(["prompt"]) : result.with("prompt", prompts.join(" "));
  }
  return result;
}

/**
 * oidc-provider refuses request objects. If `response_mode=form_post` is only in the object, the client expects the
 * refusal as a form post, so the mode is taken from there. Nothing else in the object counts.
 */
export function withRefusalMode(query: Fields): Fields {
  const mode = query.has("response_mode") ? undefined : objectClaims(query.one("request"))["response_mode"];
  return mode === "form_post" ? query.with("response_mode", mode) : query;
}

/**
 * Consumes a point for what anybody can start: a sign-in.
 * @param pushed the request that it uses, if that consumed a point when it was pushed.
 * @throws EndpointError 429 without a point: then nothing is written.
 */
export async function consumeSignInPoint(
  { ctx, address }: EndpointExchange,
  { limits, audit }: Pick<ProviderServices, "limits" | "audit">,
  options?: Parameters<AttemptLimits["interaction"]>[1],
): Promise<void> {
  const attempt = await limits.interaction(address, options);
  if (attempt.allowed) return;
  noteLimited(audit, { ...callerOf(ctx, ANONYMOUS), action: "interaction" }, attempt);
  const { retryAfter } = attempt;
  throw new EndpointError(429, "temporarily_unavailable", "too many sign-ins were started", { retryAfter });
}

/** Runs oidc-provider with these parameters. */
export type Authorize = (exchange: EndpointExchange, query: Fields) => Promise<void>;

/**
 * Runs oidc-provider. An interaction is stored with the rate-limit point that it consumes, and so is a code without a page; without
 * a point, nothing is written.
 */
export function runAuthorization(
  protocol: Protocol,
  services: Pick<ProviderServices, "clients" | "limits" | "events" | "audit" | "pages" | "units">,
): Authorize {
  const { clients, events, audit, pages, units } = services;
  return async (exchange, query) => {
    const { ctx } = exchange;
    // oidc-provider adds the hash of its auto-submitting script to this policy.
    pages.security(ctx);
    const input = ctx.method === "POST" ? { body: query } : { query };
    const { oidc, status } = await protocol(exchange, input);
    if (oidc?.entities.Interaction && status === 303) {
      const pushed = isOpen(clients, exchange.client) ? query.one("request_uri") : undefined;
      const unit = units.required();
      unit.consumePoints((rider) => consumeSignInPoint(exchange, services, { pushed, rider }));
      unit.whenCommitted(() => exchange.browser.remember(ctx));
    }
    const { accountId: sub, clientId } = oidc?.entities.AuthorizationCode ?? {};
    if (sub === undefined || clientId === undefined) return;
    const client_id = storedClientId(clientId);
    try {
      if (!exchange.isHead) await units.required().commit();
    } catch (error) {
      if (exchange.retryAfter === 0) throw error;
      // Too many codes of this account. oidc-provider tells the client in the way that it asked for.
      await protocol(exchange, input);
      return;
    }
    const caller = callerOf(exchange.ctx, { kind: "account", id: sub });
    const client = oidc?.client && clientNow(clientRecord(oidc.client));
    exchange.onSuccess.push(() => {
      events.emit("code.issued", { sub, client_id });
      audit.note({ ...caller, ...(client && { client }), action: "grant.created", subject: sub });
    });
  };
}

/** The browser returns from the pages. If the sign-in cannot continue, the person starts again. */
export function resumeAuthorization(authorize: Authorize, units: UnitsOfWork): Handler {
  /** A sign-in is removed when it is complete. */
  async function answerTo({ ctx, uid = "", browser }: EndpointExchange): Promise<StartAgainAnswer> {
    if (!ctx.req.headers.cookie) return { reason: "no-cookies" };
    const signIn = await units.required().find("Interaction", artifactKey(uid));
    if (signIn === undefined) return { reason: "complete" };
    return signIn.browser === browser.digest ? {} : { reason: "elsewhere" };
  }

  return async (exchange) => {
    try {
      await authorize(exchange, new Fields());
    } catch (error) {
      if (error instanceof EndpointError && error.status === 400) {
        const startAgain = await answerTo(exchange);
        throw new EndpointError(400, error.error, error.message, { startAgain });
      }
      throw error;
    }
  };
}
