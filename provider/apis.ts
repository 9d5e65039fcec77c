/**
 * APIs as oidc-provider sees them: resource servers (RFC 8707). oidc-provider issues the tokens; what it leaves open is decided
 * here: which API and which scopes a client may ask for, and who may introspect.
 */
import { errors, type Client, type ResourceServer } from "oidc-provider";
import type { ApiRecord, ClientRecord } from "../records/directory/directory.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import type { AccountInternals } from "../accounts/account.ts";
import type { ClientInternals } from "../accounts/clients/client.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import { currentEpochs, isCurrent, type TokenEpochs } from "./account.ts";
import { clientRecord } from "./clients.ts";
import { exchangeOf } from "./exchange.ts";
import type { GrantHandler } from "./grants/code-grant.ts";

type FindApi = Pick<DirectoryRecords, "findApi">;

/** The scopes that the client may ask for and the API has, as they are now. */
function allowedScopes({ apis = {} }: ClientRecord, { identifier, scopes }: ApiRecord): string[] {
  return (ownValue(apis, identifier) ?? []).filter((scope) => Object.hasOwn(scopes, scope));
}

/** The identifier of the one API that a token request names. */
function namedApi(resource: unknown): string {
  if (typeof resource === "string" && resource !== "") return resource;
  throw new errors.InvalidTarget("resource must name one API");
}

/**
 * The client credentials grant, for `machine` clients. oidc-provider would issue a token for no API and one without a scope; here
 * each token is for one API, a scope that the client may not have is left out, and without a `scope` it gets all that it
 * may have.
 * @param original oidc-provider's handler.
 */
export function clientCredentialsGrant(original: GrantHandler, { findApi }: FindApi): GrantHandler {
  return async (ctx) => {
    const params = ctx.oidc.params as Record<string, unknown>;
    const client = clientRecord(ctx.oidc.client);
    const api = await findApi(namedApi(params["resource"]));
    if (api === undefined || ownValue(client.apis ?? {}, api.identifier) === undefined)
      throw new errors.InvalidTarget("the client may not ask for tokens for this resource");
    const { scope } = params;
    const wanted = typeof scope === "string" && scope !== "" ? new Set(scope.split(" ")) : undefined;
    const granted = allowedScopes(client, api).filter((each) => wanted?.has(each) ?? true);
    if (granted.length === 0)
      throw new errors.InvalidScope(
        "the client may have none of the requested scopes",
        typeof scope === "string" ? scope : "",
      );
    params["scope"] = granted.join(" ");
    exchangeOf(ctx).api = api;
    await original(ctx);
  };
}

/**
 * `getResourceServerInfo` of oidc-provider: the API that the grant has found. The requests of people don't name APIs yet.
 * @param signingAlgorithm of JWTs (RFC 9068 section 2.1 wants RS256).
 */
export function resourceServer(
  ctx: object,
  identifier: string,
  client: Client,
  signingAlgorithm: string,
): ResourceServer {
  const { api } = exchangeOf(ctx);
  if (api?.identifier !== identifier)
    throw new errors.InvalidTarget("the client may not ask for tokens for this resource");
  return {
    audience: api.identifier,
    scope: allowedScopes(clientRecord(client), api).join(" "),
    accessTokenTTL: api.lifetime,
    accessTokenFormat: api.tokens,
    ...(api.tokens === "jwt" && { jwt: { sign: { alg: signingAlgorithm as "RS256" } } }),
  };
}

/** A token as oidc-provider has found it. */
interface FoundToken {
  readonly kind: string;
  readonly clientId?: string | undefined;
  readonly accountId?: string;
  readonly aud?: unknown;
  readonly generations?: unknown;
}

/**
 * `introspection.allowedPolicy` of oidc-provider, which lets every client look at every token. A client sees its own tokens
 * for no API, and access tokens for the APIs that name it; each only while it would work.
 */
export function introspectionPolicy(
  accounts: Pick<AccountInternals, "record">,
  clients: Pick<ClientInternals, "record">,
  { findApi }: FindApi,
): (ctx: unknown, client: Client, token: FoundToken) => Promise<boolean> {
  async function isValidForApi(
    viewer: string,
    { kind, clientId, aud, generations }: FoundToken,
  ): Promise<boolean> {
    if (kind !== "ClientCredentials" || typeof aud !== "string" || clientId === undefined) return false;
    const [api, owner] = await Promise.all([findApi(aud), clients.record(clientId)]);
    if (api === undefined || owner === undefined || owner.disabled) return false;
    if (!api.introspection.includes(viewer)) return false;
    const carried = generations as Partial<TokenEpochs> | undefined;
    const now = currentEpochs(owner, api);
    return carried?.api === now.api && carried.client === now.client;
  }

  return async (_ctx, client, token) => {
    if (token.kind === "ClientCredentials" || token.aud !== undefined)
      return isValidForApi(client.clientId, token);
    if (token.clientId !== client.clientId) return false;
    const record = token.accountId === undefined ? undefined : await accounts.record(token.accountId);
    return record !== undefined && isCurrent(token.generations, record, clientRecord(client));
  };
}
