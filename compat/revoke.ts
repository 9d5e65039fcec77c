/** Revocation has two forms: the documented call with a Bearer header, and RFC 7009 with client authentication. */
import { ConditionFailed } from "../core/errors.ts";
import { artifactRef } from "../records/artifacts/artifact-kinds.ts";
import { Changes } from "../records/records.ts";
import type { StorageServices } from "../records/services.ts";
import { EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange, Step } from "./exchange.ts";
import type { Protocol } from "./protocol.ts";
import { invalidToken, type TokenStep } from "./userinfo.ts";

/** The parameters of RFC 7009 and RFC 7662. oidc-provider accepts smaller forms than the 64 KiB that we accept. */
export const TOKEN_PARAMETERS = [
  "token",
  "token_type_hint",
  "client_id",
  "client_secret",
  "client_assertion",
  "client_assertion_type",
] as const;

/** `profile: strict` accepts no credentials and changes nothing in a GET. */
export function notWhenStrict(profile: "documented" | "strict"): Step {
  return async (_exchange, next) => {
    if (profile === "strict") throw invalidRequest("revoke with POST: GET is turned off (profile: strict)");
    await next();
  };
}

/** A link that the browser prefetches revokes nothing. */
export const notPrefetched: Step = async ({ ctx }, next) => {
  const purpose = `${ctx.get("sec-purpose")} ${ctx.get("purpose")}`.toLowerCase();
  if (purpose.includes("prefetch") || purpose.includes("prerender")) {
    throw invalidRequest("this address must not be prefetched");
  }
  await next();
};

/** Chooses between the two forms. */
export function eitherRevocation(documented: Step, standard: Step): Step {
  return async (exchange, next) => {
    const { ctx, body } = exchange;
    const isBearer = /^bearer(?: |$)/i.test(ctx.get("authorization"));
    const hasToken = body?.has("token") ?? false;
    if (isBearer && hasToken)
      throw invalidRequest("send the token in the header or in the body, not in both");
    if (isBearer && body?.has("client_id")) throw invalidRequest("send client_id in the query");
    if (isBearer) return documented(exchange, next);
    if (hasToken) return standard(exchange, next);
    throw invalidRequest("the token is missing");
  };
}

/**
 * Revokes exactly the bearer token of the request. It is one delete on one condition, so there is nothing to read in a
 * transaction; of two requests at once, the condition lets one through.
 */
export function revokeBearer({ storage, events }: Pick<StorageServices, "storage" | "events">): TokenStep {
  return async ({ ctx, deadline }, { key, account, client }) => {
    const changes = new Changes();
    changes.delete(artifactRef("AccessToken", key), { version: "present" });
    try {
      await storage.artifacts.commit(changes, deadline);
    } catch (error) {
      throw error instanceof ConditionFailed ? invalidToken() : error;
    }
    ctx.body = {};
    events.emit("token.revoked", { sub: account.sub, client_id: client.client_id });
  };
}

/** Revokes the client's token as RFC 7009 says. A token that a concurrent request has revoked is no error. */
export function standardRevocation(protocol: Protocol, atomic: Step): Step {
  const revoke = (exchange: EndpointExchange): Promise<void> =>
    atomic(exchange, async () => {
      await protocol(exchange, { body: exchange.body!.only(TOKEN_PARAMETERS) });
    });
  return async (exchange) => {
    try {
      await revoke(exchange).catch((error: unknown) => {
        // Another request may have used the same assertion: then this one is refused, and has ended nothing.
        if (!(error instanceof ConditionFailed) || !exchange.body?.has("client_assertion")) throw error;
        return revoke(exchange);
      });
    } catch (error) {
      const isOther = isUnsupportedType(error) && !isAccessJwt(exchange.body?.one("token"));
      if (!(error instanceof ConditionFailed) && !isOther) throw error;
      exchange.ctx.status = 200;
    }
    exchange.ctx.body = {};
  };
}

/** Whether a token says that it is a JWT for an API (RFC 9068 section 2.1), which can't be revoked. */
function isAccessJwt(token: string | undefined): boolean {
  const [header = ""] = token?.split(".", 1) ?? [];
  try {
    const { typ } = Object(JSON.parse(Buffer.from(header, "base64url").toString())) as {
      readonly typ?: unknown;
    };
    return typeof typ === "string" && /^(?:application\/)?at\+jwt$/i.test(typ);
  } catch {
    return false;
  }
}

/** oidc-provider reports a token that looks like a JWT as unsupported; here any other JWT is an unknown token. */
function isUnsupportedType(error: unknown): boolean {
  return error instanceof EndpointError && error.error === "unsupported_token_type";
}
