/** The documented token endpoint, in front of oidc-provider's. */
import { DEFAULT_KIND } from "../accounts/clients/client-kinds.ts";
import { artifactKey, isPresentable } from "../provider/adapter.ts";
import { clientRecord } from "../provider/clients.ts";
import type { Unit } from "../provider/unit-of-work.ts";
import { ConditionFailed } from "../core/errors.ts";
import { apiOf } from "../provider/apis.ts";
import { publicScope } from "../provider/claims.ts";
import type { ProviderServices } from "../provider/services.ts";
import type { PresentedClient } from "./client-credentials.ts";
import { badRequest, type EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange } from "./exchange.ts";
import type { Fields } from "./form-fields.ts";
import type { ClientForm, Protocol } from "./protocol.ts";
import type { TokenOwners } from "./userinfo.ts";

/** What a request presents: the model of oidc-provider that it may be, and the text that was sent. */
type Presented = readonly [model: string, identifier: string | undefined];

/** The code or refresh token of a token request. */
export function presentedGrant(body: Fields): readonly Presented[] {
  const grantType = body.one("grant_type");
  if (grantType === "authorization_code") return [["AuthorizationCode", body.one("code")]];
  return grantType === "refresh_token" ? [["RefreshToken", body.one("refresh_token")]] : [];
}

/** The token of an introspection. oidc-provider looks for all three, too. */
export function presentedToken(body: Fields): readonly Presented[] {
  const token = body.one("token");
  return [
    ["AccessToken", token],
    ["RefreshToken", token],
    ["ClientCredentials", token],
  ];
}

/**
 * Begins to read what is presented while the client is being read: one round trip to the store instead of two. A caller
 * that presents no secret causes no read.
 */
export function prefetch(
  unit: Unit,
  { ctx }: EndpointExchange,
  body: Fields,
  presented: readonly Presented[],
): void {
  if (ctx.req.headers.authorization === undefined && !body.has("client_secret")) return;
  for (const [model, identifier] of presented)
    if (identifier !== undefined && isPresentable(identifier)) unit.prefetch(model, artifactKey(identifier));
}

/** What oidc-provider does not require: a redirect address, which clients with one registered address may omit there. */
export function requireTokenParameters(body: Fields): void {
  if (body.one("grant_type") === "authorization_code" && !body.one("redirect_uri"))
    throw invalidRequest("redirect_uri is missing");
}

/**
 * The parameters of the supported grants. RFC 6749 section 3.2 says to ignore others, and oidc-provider accepts smaller
 * forms than the 64 KiB that we accept.
 */
const PARAMETERS = [
  "grant_type",
  "client_id",
  "client_secret",
  "client_assertion",
  "client_assertion_type",
  "code",
  "redirect_uri",
  "code_verifier",
  "refresh_token",
  "device_code",
  "username",
  "password",
  "scope",
  "resource",
] as const;

/** The documented members of the response, in the documented order. */
const MEMBERS = ["access_token", "token_type", "expires_in", "refresh_token"] as const;

/**
 * A refresh request that loses the race for its token runs once more, and then finds the response that the winner left for
 * the reuse window.
 */
export async function repeatingLostRefresh(
  exchange: EndpointExchange,
  body: Fields,
  attempt: () => Promise<void>,
): Promise<void> {
  try {
    await attempt();
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error;
    exchange.onSuccess.length = 0;
    if (body.one("grant_type") !== "refresh_token") throw invalidGrant();
    await attempt().catch((again: unknown) => {
      throw again instanceof ConditionFailed ? invalidGrant() : again;
    });
  }
}

/** Issues tokens, and leaves only the documented members in the response. */
export function issueTokens(
  protocol: Protocol,
  owners: TokenOwners,
  { clients, events }: Pick<ProviderServices, "clients" | "events">,
): (exchange: EndpointExchange, form: ClientForm & PresentedClient) => Promise<void> {
  return async (exchange, { body, authorization, client }) => {
    const { oidc } = await protocol(exchange, { body: body.only(PARAMETERS), authorization });
    const { ctx, deployment } = exchange;
    const all = ctx.body as Record<string, unknown>;
    const documented: Record<string, unknown> = Object.fromEntries(
      MEMBERS.map((member) => [member, all[member]]),
    );
    if (deployment.kind === "openid" && all["id_token"] !== undefined)
      documented["id_token"] = all["id_token"];
    const isForApi = oidc !== undefined && apiOf(oidc) !== undefined;
    if (isForApi || (client !== undefined && clients.kindOf(client).behaves === "standard"))
      documented["scope"] = publicScope(all["scope"]);
    ctx.body = documented;
    const sub = oidc?.entities.Account?.accountId;
    const client_id = oidc?.client === undefined ? "" : clientRecord(oidc.client).client_id;
    const grant_type = body.one("grant_type") ?? "";
    const kind = client?.kind ?? DEFAULT_KIND;
    exchange.onSuccess.push(() => {
      if (sub !== undefined) owners.add(artifactKey(String(all["access_token"])), sub);
      events.emit("tokens.issued", { client_id, kind, grant_type, ...(sub !== undefined && { sub }) });
    });
  };
}

function invalidGrant(): EndpointError {
  return badRequest("invalid_grant", "the grant was used, has ended or is not known");
}
