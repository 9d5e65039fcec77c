/** The device authorization endpoint (RFC 8628 section 3.1): a device asks for the code that a person types. */
import { type AttemptLimits, noteLimited } from "../accounts/limits/attempt-limits.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import { effectiveScope } from "../provider/claims.ts";
import { callerOf } from "../provider/exchange.ts";
import { POLL_INTERVAL_SECONDS } from "../provider/grants/device-codes.ts";
import { badRequest, EndpointError, invalidRequest } from "./errors.ts";
import type { AuditLog, Step } from "./exchange.ts";
import type { Protocol } from "./protocol.ts";

/** Others are ignored (RFC 6749 section 3.1). */
const PARAMETERS = ["client_id", "scope", "resource"] as const;

/** Only clients of the kind `device` ask for codes, and each of them from one address only so often. */
export function deviceRequest(limits: Pick<AttemptLimits, "deviceRequest">, audit: AuditLog): Step {
  return async ({ client, ctx, address }, next) => {
    if (client === undefined || client.disabled) throw badRequest("invalid_client", "the client is unknown");
    const { client_id, kind } = client;
    if (kind !== "device")
      throw badRequest("unauthorized_client", "this client is not registered for the device grant");
    const attempt = await limits.deviceRequest({ client: client_id, address });
    if (!attempt.allowed) {
      const { retryAfter } = attempt;
      noteLimited(
        audit,
        { ...callerOf(ctx, ANONYMOUS), action: "device.requested", subject: client_id },
        attempt,
      );
      throw new EndpointError(429, "temporarily_unavailable", "too many requests", { retryAfter });
    }
    await next();
  };
}

/** Runs oidc-provider, which makes the codes, and adds how often the device may poll. */
export function deviceCodes(protocol: Protocol): Step {
  return async (exchange) => {
    const body = exchange.body!.only(PARAMETERS);
    if (body.all("scope").length > 1) throw invalidRequest("scope is repeated");
    const scope = effectiveScope(body.one("scope"), exchange.deployment.kind);
    await protocol(exchange, { body: body.with("scope", scope) });
    const { ctx } = exchange;
    ctx.body = { ...(ctx.body as object), interval: POLL_INTERVAL_SECONDS };
  };
}
