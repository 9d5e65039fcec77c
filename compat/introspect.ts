/** Introspection (RFC 7662), and which parts of a response clients see. */
import { publicScope } from "../provider/claims.ts";
import { EndpointError } from "./errors.ts";
import type { EndpointExchange } from "./exchange.ts";
import type { ClientForm, Protocol } from "./protocol.ts";
import { TOKEN_PARAMETERS } from "./revoke.ts";

const MEMBERS = [
  "active",
  "iss",
  "sub",
  "aud",
  "client_id",
  "scope",
  "token_type",
  "iat",
  "exp",
  "auth_time",
  "acr",
  "amr",
  "roles",
  "cnf",
] as const;

/**
 * Introspects a token. A JWT is not introspected, and says nothing about itself.
 * @param hasIssuer whether there is an issuer that clients know.
 */
export function introspection(
  protocol: Protocol,
  hasIssuer: boolean,
): (exchange: EndpointExchange, input: ClientForm) => Promise<void> {
  return async (exchange, { body, authorization }) => {
    const { ctx } = exchange;
    try {
      await protocol(exchange, { body: body.only(TOKEN_PARAMETERS), authorization });
    } catch (error) {
      if (!(error instanceof EndpointError) || error.error !== "unsupported_token_type") throw error;
      ctx.status = 200;
      ctx.body = { active: false };
    }
    const found = ctx.body as Readonly<Record<string, unknown>>;
    if (found["active"] !== true) return;
    // The token of a machine is about the client itself.
    const all: Record<string, unknown> = {
      sub: found["client_id"],
      ...found,
      scope: publicScope(found["scope"]) || undefined,
    };
    if (!hasIssuer) all["iss"] = undefined;
    ctx.body = Object.fromEntries(
      MEMBERS.flatMap((member) => (all[member] === undefined ? [] : [[member, all[member]]])),
    );
  };
}
