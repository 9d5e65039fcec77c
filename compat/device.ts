/** The device authorization endpoint (RFC 8628 section 3.1): a device asks for the code that a person types. */
import { isDevice } from "../accounts/clients/client-kinds.ts";
import { noteLimited } from "../accounts/limits/attempt-limits.ts";
import type { AccountServices } from "../accounts/services.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import type { Claims } from "../provider/claims.ts";
import { callerOf } from "../provider/exchange.ts";
import type { ClientRecord } from "../records/directory/directory.ts";
import { POLL_INTERVAL_SECONDS } from "../provider/grants/device-codes.ts";
import { badRequest, EndpointError } from "./errors.ts";
import type { EndpointExchange } from "./exchange.ts";
import type { ClientForm, Protocol } from "./protocol.ts";

/** Others are ignored (RFC 6749 section 3.1). */
const PARAMETERS = [
  "client_id",
  "client_secret",
  "client_assertion",
  "client_assertion_type",
  "scope",
  "resource",
] as const;

/** Only clients with the device grant may ask for codes, and each only so often from one address. */
export function deviceRequest({
  clients,
  limits,
  audit,
}: Pick<AccountServices, "clients" | "limits" | "audit">): (
  exchange: EndpointExchange,
  client: ClientRecord | undefined,
) => Promise<ClientRecord> {
  return async ({ ctx, address }, client) => {
    if (client === undefined || client.disabled) throw badRequest("invalid_client", "the client is unknown");
    const { client_id } = client;
    if (!isDevice(clients.kindOf(client)))
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
    return client;
  };
}

/** The scopes that a client can have, of this service and of APIs: the person sees and the storage keeps no others. */
function among(scope: string, apis: ClientRecord["apis"], claims: Claims): string {
  const known = new Set<string>([...claims.ofScope.keys(), ...Object.values(apis ?? {}).flat()]);
  return scope
    .split(" ")
    .filter((each) => known.has(each))
    .join(" ");
}

/** Runs oidc-provider, which makes the codes, and adds how often the device may poll. */
export function deviceCodes(
  protocol: Protocol,
  claims: Claims,
): (exchange: EndpointExchange, form: ClientForm, client: ClientRecord) => Promise<void> {
  return async (exchange, form, client) => {
    const { ctx, deployment } = exchange;
    const supported = claims.readBy(client);
    const body = form.body.only(PARAMETERS);
    const requested = body.one("scope");
    const namesApi = body.all("resource").some((each) => each !== "");
    const scope = namesApi
      ? among(supported.scopeForApis(requested, deployment.kind), client.apis, supported)
      : supported.effectiveScope(requested, deployment.kind);
    await protocol(exchange, { ...form, body: body.with("scope", scope) });
    ctx.body = { ...(ctx.body as object), interval: POLL_INTERVAL_SECONDS };
  };
}
