/** Endpoints that only the OpenID Connect deployment has: the library's own, with the decided differences. */
import { SENT_STATE } from "../lib/provider/responses.ts";
import { ALL_FIELDS } from "../lib/provider/claims.ts";
import { librarySees } from "./authorize.ts";
import { EndpointError } from "./endpoint-error.ts";
import type { CompatDependencies, Step } from "./exchange.ts";
import { parseFields } from "./form-fields.ts";
import { TOKEN_PARAMETERS } from "./revoke.ts";
import type { Protocol } from "./protocol-step.ts";

const bad = (error: string, description: string): EndpointError => new EndpointError(400, error, description);

/** Introspection (RFC 7662). */
export const introspection =
  (protocol: Protocol): Step =>
  async (exchange) => {
    await protocol(exchange, { body: exchange.body!.only(TOKEN_PARAMETERS) });
  };

/** The library with the form that came. */
export const withBody =
  (protocol: Protocol): Step =>
  async (exchange) => {
    await protocol(exchange, { body: exchange.body! });
  };

/** The library with the query that came, read strictly. */
export const withQuery =
  (protocol: Protocol): Step =>
  async (exchange) => {
    await protocol(exchange, { query: parseFields(exchange.ctx.querystring) });
  };

/** The standard userinfo endpoint: Bearer only, no `client_id`, 401 on a bad token (OpenID Connect Core 5.3). */
export const standardUserinfo =
  (protocol: Protocol): Step =>
  async (exchange) => {
    const { authorization } = exchange.ctx.req.headers;
    if (authorization !== undefined) exchange.authorization = authorization;
    await protocol(exchange, exchange.body ? { body: exchange.body } : {});
  };

/**
 * The checks of the authorization endpoint that oidc-provider does not make on a pushed request, or answers with another
 * error (RFC 9126 section 2.1).
 */
export function checkPushed({ configuration }: CompatDependencies): Step {
  return async (exchange, next) => {
    const { body, client } = exchange;
    if (!body) throw bad("invalid_request", "the body is missing");
    if (body.has("request_uri")) throw bad("invalid_request_uri", "request_uri can't be pushed");
    if (client && !client.disabled) {
      const address = body.one("redirect_uri");
      if (address && !client.redirect_uris.includes(address)) {
        throw bad("invalid_redirect_uri", "redirect_uri is not the registered address");
      }
      if (body.has("response_type") && body.one("response_type") !== "code")
        throw bad("invalid_response_type", "response_type must be code");
      if (Buffer.byteLength(body.one("state") ?? "") > 4_096)
        throw bad("invalid_request", "state is too long");
      if (configuration.profile === "strict" && !body.one("code_challenge")) {
        throw bad("invalid_request", "code_challenge is missing");
      }
    }
    exchange.body = librarySees(body, exchange);
    await next();
  };
}

/** What is internal stays out of the discovery document (OpenID Connect Discovery 1.0 section 3). */
export const plainDiscovery: Step = async ({ ctx }, next) => {
  await next();
  const document = ctx.body as Record<string, unknown> | undefined;
  if (typeof document !== "object" || document === null) return;
  for (const member of ["scopes_supported", "claims_supported"]) {
    const values = document[member];
    if (Array.isArray(values))
      document[member] = values.filter((value) => value !== ALL_FIELDS && value !== SENT_STATE);
  }
  document["response_modes_supported"] = ["query", "form_post"];
  ctx.body = document;
};
