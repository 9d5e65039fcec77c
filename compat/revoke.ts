/** Revocation has two meanings: the documented call with a Bearer header, and RFC 7009 with client authentication. */
import { ConditionFailed } from "../lib/errors.ts";
import { EndpointError } from "./endpoint-error.ts";
import type { Step } from "./exchange.ts";
import type { Protocol } from "./protocol-step.ts";

/** Of the form only what RFC 7009 and RFC 7662 know: the library takes less of it than the 64 KiB that are let in. */
export const TOKEN_PARAMETERS = ["token", "token_type_hint", "client_id", "client_secret"] as const;

const invalidRequest = (text: string): EndpointError => new EndpointError(400, "invalid_request", text);

/** Goes on with `documented` for the documented call and with `standard` for the one of RFC 7009. */
export function byMeaning(documented: Step, standard: Step): Step {
  return async (exchange, next) => {
    const { ctx, body } = exchange;
    const isBearer = /^bearer(?: |$)/i.test(ctx.get("authorization"));
    const hasToken = body?.has("token") ?? false;
    if (isBearer && hasToken) throw invalidRequest("a token in the header and another one in the body");
    if (isBearer && body?.has("client_id"))
      throw invalidRequest("client_id belongs in the query of this call");
    if (isBearer) return documented(exchange, next);
    if (hasToken) return standard(exchange, next);
    throw invalidRequest("the token is missing");
  };
}

/** The library has an error of its own for a token that looks like a JWT; here it is unknown like any other. */
function isForeignKind(error: unknown): boolean {
  return error instanceof EndpointError && error.error === "unsupported_token_type";
}

/** RFC 7009: the library ends what is the client's; to end it twice at once is no error. */
export function standardRevocation(protocol: Protocol, atomic: Step): Step {
  return async (exchange) => {
    try {
      await atomic(exchange, async () => {
        await protocol(exchange, { body: exchange.body!.only(TOKEN_PARAMETERS) });
      });
    } catch (error) {
      if (!(error instanceof ConditionFailed) && !isForeignKind(error)) throw error;
      exchange.ctx.status = 200;
    }
    exchange.ctx.body = {};
  };
}
