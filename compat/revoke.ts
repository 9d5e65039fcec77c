/** Revocation has two forms: the documented call with a Bearer header, and RFC 7009 with client authentication. */
import { ConditionFailed } from "../core/errors.ts";
import { artifactRef } from "../records/artifacts/artifact-kinds.ts";
import { Changes } from "../records/records.ts";
import type { StorageServices } from "../records/services.ts";
import { EndpointError, invalidRequest } from "./errors.ts";
import type { Atomic, EndpointExchange } from "./exchange.ts";
import type { Fields } from "./form-fields.ts";
import type { ClientForm, Protocol } from "./protocol.ts";
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
export function refuseGet(profile: "documented" | "strict"): void {
  if (profile === "strict") throw invalidRequest("revoke with POST: GET is turned off (profile: strict)");
}

/** A link that the browser prefetches revokes nothing. */
export function refusePrefetch({ ctx }: EndpointExchange): void {
  const purpose = `${ctx.get("sec-purpose")} ${ctx.get("purpose")}`.toLowerCase();
  if (purpose.includes("prefetch") || purpose.includes("prerender")) {
    throw invalidRequest("this address must not be prefetched");
  }
}

/**
 * @param isBound whether the token in the header is bound to a key.
 * @returns whether the request revokes the token in its header, as documented, and not one in the body.
 */
export function isBearerRevocation({ ctx }: EndpointExchange, body: Fields, isBound: boolean): boolean {
  const isBearer = isBound || /^bearer(?: |$)/i.test(ctx.get("authorization"));
  const hasToken = body.has("token");
  if (isBearer && hasToken) throw invalidRequest("send the token in the header or in the body, not in both");
  if (isBearer && body.has("client_id")) throw invalidRequest("send client_id in the query");
  if (!isBearer && !hasToken) throw invalidRequest("the token is missing");
  return isBearer;
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
export function standardRevocation(
  protocol: Protocol,
  atomic: Atomic,
): (exchange: EndpointExchange, input: ClientForm) => Promise<void> {
  return async (exchange, { body, authorization }) => {
    const revoke = (): Promise<void> =>
      atomic(exchange, async () => {
        await protocol(exchange, { body: body.only(TOKEN_PARAMETERS), authorization });
      });
    try {
      await revoke().catch((error: unknown) => {
        // Another request may have used the same assertion: then this one is refused, and has ended nothing.
        if (!(error instanceof ConditionFailed) || !body.has("client_assertion")) throw error;
        return revoke();
      });
    } catch (error) {
      const isOther = isUnsupportedType(error) && !isAccessJwt(body.one("token"));
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
