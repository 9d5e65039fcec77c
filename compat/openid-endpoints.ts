/** Endpoints that only the OpenID Connect deployment has: oidc-provider's own, with the documented differences. */
import { artifactKey } from "../provider/adapter.ts";
import { ALL_FIELDS } from "../provider/claims.ts";
import { appendToQuery, SENT_STATE } from "../provider/responses.ts";
import type { UnitsOfWork } from "../provider/unit-of-work.ts";
import { EndpointError } from "./errors.ts";
import { restoreHeaders } from "./error-responses.ts";
import type { EndpointExchange, Handler } from "./exchange.ts";
import type { ProviderServices } from "../provider/services.ts";
import { type Fields, queryFields } from "./form-fields.ts";
import type { ProofChecks } from "./proofs.ts";
import type { Protocol } from "./protocol.ts";
import { invalidToken } from "./userinfo.ts";

/** Runs oidc-provider with the received query. */
export function withQuery(protocol: Protocol): Handler {
  return async (exchange) => {
    await protocol(exchange, { query: queryFields(exchange.ctx.querystring) });
  };
}

/** The standard userinfo endpoint: the token in the header or the form, no `client_id`, 401 for an invalid token (OpenID Connect Core 5.3). */
export function standardUserinfo(
  protocol: Protocol,
  units: UnitsOfWork,
  checks: Pick<ProofChecks, "atUserinfo">,
): (exchange: EndpointExchange, body?: Fields) => Promise<void> {
  return async (exchange, body) => {
    const authorization = (await checks.atUserinfo(exchange)) ?? exchange.ctx.req.headers.authorization;
    try {
      await protocol(exchange, { authorization, ...(body && { body }) });
    } catch (error) {
      // oidc-provider checks the scope before the audience. A token for an API is not valid here, whatever its scope.
      const isScope = error instanceof EndpointError && error.error === "insufficient_scope";
      const token = authorization?.split(" ")[1] ?? body?.one("access_token");
      if (!isScope || token === undefined) throw error;
      const found = units.required().known("AccessToken", artifactKey(token));
      throw found?.payload["aud"] === undefined ? error : invalidToken();
    }
  };
}

/** Removes internal values from the discovery document (OpenID Connect Discovery 1.0 section 3). */
export const publicDiscovery =
  (
    protocol: Protocol,
    { people, proofs, configuration }: Pick<ProviderServices, "people" | "proofs" | "configuration">,
  ): Handler =>
  async (exchange) => {
    const { ctx } = exchange;
    await protocol(exchange, { query: queryFields(ctx.querystring) });
    const document = ctx.body as Record<string, unknown> | undefined;
    if (typeof document !== "object" || document === null) return;
    for (const member of ["scopes_supported", "claims_supported"]) {
      const values = document[member];
      if (Array.isArray(values))
        document[member] = values.filter((value) => value !== ALL_FIELDS && value !== SENT_STATE);
    }
    document["response_modes_supported"] = ["query", "form_post"];
    describeEndpoints(document);
    if (configuration.clients.metadataDocuments !== undefined)
      document["client_id_metadata_document_supported"] = true;
    if (!(await proofs.isOffered())) delete document["dpop_signing_alg_values_supported"];
    // OpenID Connect Prompt Create 1.0 section 4.2.
    document["prompt_values_supported"] = [
      "none",
      "login",
      "consent",
      "select_account",
      ...(people.registrations === undefined ? [] : ["create"]),
    ];
    ctx.body = document;
  };

/**
 * How clients authenticate at the endpoints besides the token endpoint (RFC 8414 section 2); without this member,
 * clients assume that only Basic works.
 */
function describeEndpoints(document: Record<string, unknown>): void {
  const { token_endpoint_auth_methods_supported: methods } = document;
  const algorithms = document["token_endpoint_auth_signing_alg_values_supported"];
  if (!Array.isArray(methods)) return;
  document["revocation_endpoint_auth_methods_supported"] = methods;
  document["revocation_endpoint_auth_signing_alg_values_supported"] = algorithms;
  document["introspection_endpoint_auth_methods_supported"] = methods.filter((method) => method !== "none");
  document["introspection_endpoint_auth_signing_alg_values_supported"] = algorithms;
}

/**
 * Runs RP-initiated logout. A browser without a session has nothing to end or to be asked: it goes on at once, and nothing is
 * stored.
 */
export function signOut(protocol: Protocol): Handler {
  return async (exchange) => {
    const { ctx, deployment } = exchange;
    const headers = ctx.res.getHeaders();
    const { oidc } = await protocol(exchange, { query: queryFields(ctx.querystring) });
    if (oidc?.session?.accountId !== undefined) return;
    // oidc-provider would store a session for the form that it has rendered, and sets its cookie.
    restoreHeaders(exchange, headers);
    // The address is that of the client, or `undefined`.
    const { post_logout_redirect_uri: address, state } = (oidc?.params ?? {}) as Record<
      string,
      string | undefined
    >;
    ctx.body = "";
    ctx.status = 303;
    ctx.set("Location", goesOnAt(address ?? `${deployment.url}/oauth2/logout/success`, address && state));
  };
}

/** @param state as the client sent it; `undefined`: it gets none. */
function goesOnAt(address: string, state: string | undefined): string {
  return state === undefined ? address : appendToQuery(address, { state });
}
