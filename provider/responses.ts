/** Authorization responses: which members they have, and how they travel to the client. */
import type { KoaContextWithOIDC, Provider } from "oidc-provider";
import type { Deployment } from "../config/configuration.ts";
import { exchangeOf } from "./exchange.ts";

/** The parameter that carries the sent `state` through oidc-provider, which drops an empty one. */
export const SENT_STATE = "sent_state";

/** Members of an authorization response. They replace parameters of the same name in a registered query. */
const RESPONSE_MEMBERS: ReadonlySet<string> = new Set([
  "code",
  "state",
  "iss",
  "error",
  "error_description",
  "scope",
]);

/**
 * Appends the response to the redirect URI. What the client registered stays as it is, character by character. Spaces
 * become `%20`, which every decoder reads.
 */
export function appendToQuery(address: string, members: Readonly<Record<string, string>>): string {
  const question = address.indexOf("?");
  const base = question === -1 ? address : address.slice(0, question);
  const registered = question === -1 ? [] : address.slice(question + 1).split("&");
  const kept = registered.filter((pair) => pair !== "" && !RESPONSE_MEMBERS.has(pair.split("=")[0] ?? ""));
  const added = Object.entries(members).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return `${base}?${[...kept, ...added].join("&")}`;
}

/** Descriptions with which oidc-provider refuses a client that is not registered for what it requests. */
const NOT_REGISTERED: ReadonlySet<string> = new Set([
  "requested grant type is not allowed for this client",
  "requested response_type is not allowed for this client",
]);

/** The error code of RFC 6749 where oidc-provider only says `invalid_request`. */
export function documentedCode(error: string, description: string | undefined): string {
  return NOT_REGISTERED.has(description ?? "") ? "unauthorized_client" : error;
}

/** oidc-provider's description of a request without `response_type`; the documented one is shorter. */
const NO_RESPONSE_TYPE = "missing required parameter 'response_type'";

/** The description of an error. Some errors of oidc-provider have none; their code serves as one. */
export function describedError(error: string, description: unknown): string {
  if (description === NO_RESPONSE_TYPE) return "invalid_response_type";
  return typeof description === "string" && description !== "" ? description : error.replaceAll("_", " ");
}

/**
 * The members that the client gets.
 * @param members those of oidc-provider, which drops an empty `state` and knows only one issuer.
 * @param state the form-decoded value that was sent, even if empty; `undefined` if none was.
 */
export function responseMembers(
  members: Readonly<Record<string, unknown>>,
  state: string | undefined,
  deployment: Deployment,
): Record<string, string> {
  const { state: _state, iss, ...rest } = members;
  const response: Record<string, string> = {};
  for (const [name, value] of Object.entries(rest)) if (typeof value === "string") response[name] = value;
  const { error, error_description } = response;
  if (error !== undefined) response["error"] = documentedCode(error, error_description);
  if (state !== undefined) response["state"] = state;
  // RFC 9207 on the OpenID Connect deployment; the documented OAuth 2.0 redirect has no `iss`.
  if (deployment.kind === "openid" && typeof iss === "string") response["iss"] = iss;
  return response;
}

/** A response mode, as oidc-provider registers it. */
export type ResponseMode = Parameters<Provider["registerResponseMode"]>[1];

/** The members of a response at the deployment of this request. Errors have a description. */
function deployedMembers(ctx: KoaContextWithOIDC, members: object): Record<string, string> {
  const { error, error_description, ...rest } = members as Readonly<Record<string, unknown>>;
  const described =
    typeof error === "string"
      ? { error, error_description: describedError(error, error_description), ...rest }
      : (members as Readonly<Record<string, unknown>>);
  const sent = ctx.oidc.params?.[SENT_STATE];
  // The HTTP layer puts a character in front, so that the value is never empty.
  const state = typeof sent === "string" ? sent.slice(1) : undefined;
  return responseMembers(described, state, exchangeOf(ctx).deployment);
}

/** The documented redirect: 302 with exactly the documented members, in the query on both deployments. */
const query: ResponseMode = (ctx, address, members) => {
  ctx.status = 302;
  ctx.set("Location", appendToQuery(address, deployedMembers(ctx, members)));
  ctx.body = "";
};

/**
 * The response mode to register for one of oidc-provider's.
 * @returns `undefined` for `fragment`: a code never travels there, so such a request is refused in the query.
 */
export function responseMode(name: string, original: ResponseMode): ResponseMode | undefined {
  if (name === "fragment") return undefined;
  if (name === "query") return query;
  return (ctx, address, members) => {
    // The page delivers the response, also an error; the page itself is not an error.
    ctx.status = 200;
    return original(ctx, address, deployedMembers(ctx, members));
  };
}
