/**
 * APIs as oidc-provider sees them: resource servers (RFC 8707). oidc-provider issues the tokens; what it leaves open is decided
 * here: which API and which scopes a client may ask for, for whom, until when, and who may introspect.
 */
import {
  errors,
  type Client,
  type KoaContextWithOIDC,
  Provider,
  type ResourceServer,
  type TokenEndpointGrantContext,
} from "oidc-provider";
import type { AccountRecord, ApiRecord, ClientRecord } from "../records/directory/directory.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import type { Artifact } from "../records/artifacts/artifact.ts";
import { consentOf } from "../accounts/clients/consents.ts";
import { wantsFactor } from "../accounts/factors/factor.ts";
import type { ProviderRules } from "../accounts/providers.ts";
import { findRoles } from "../accounts/roles.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import {
  currentEpochs,
  type GrantGenerations,
  isCurrent,
  isCurrentForApi,
  type OidcAccount,
  type TokenEpochs,
} from "./account.ts";
import { artifactKey } from "./adapter.ts";
import { ACR_MFA, acrOf, satisfies } from "./authentication.ts";
import { clientRecord } from "./clients.ts";
import { exchangeIn } from "./exchange.ts";
import type { ProviderServices } from "./services.ts";
import type { Unit } from "./unit-of-work.ts";

/** How many APIs one authorization can be for. */
const MAX_RESOURCES = 10;

/** A grant type at the token endpoint. */
export type GrantHandler = (
  ctx: TokenEndpointGrantContext<{ code?: string; device_code?: string; refresh_token?: string }>,
) => void | Promise<void>;

/** A request at the token endpoint. */
type TokenContext = Parameters<GrantHandler>[0];

export interface ApiTokens {
  /** The client credentials grant. @param original oidc-provider's handler. */
  clientCredentials(original: GrantHandler): GrantHandler;
  /**
   * Finds the API that a token request with a person's grant is for, before anything is used up, so that an error here
   * never costs a client its code or refresh token. oidc-provider gets it as the parameter `resource`.
   * @param source the code, refresh token or device code.
   * @throws InvalidTarget, InvalidScope or InvalidGrant when there is no token for it.
   */
  choose(ctx: TokenContext, source: Artifact): Promise<void>;
  /**
   * The password grant gives no tokens for an API.
   * @throws InvalidTarget, or InvalidGrant where the API needs a second factor.
   */
  refusePassword(client: ClientRecord, resource: string): Promise<never>;
  /** `getResourceServerInfo` of oidc-provider. */
  resourceServer(ctx: KoaContextWithOIDC, identifier: string, client: Client): Promise<ResourceServer>;
  /** `extraTokenClaims` of oidc-provider: what tokens of people for an API say besides the standard members. */
  tokenClaims(
    ctx: KoaContextWithOIDC,
    token: { readonly kind: string },
  ): Promise<Record<string, unknown> | undefined>;
  /** `introspection.allowedPolicy` of oidc-provider. */
  mayIntrospect(client: Client, token: FoundToken): Promise<boolean>;
}

/** A token as oidc-provider has found it. */
interface FoundToken {
  readonly kind: string;
  readonly clientId?: string | undefined;
  readonly accountId?: string;
  readonly aud?: unknown;
  readonly resource?: unknown;
  readonly generations?: unknown;
  readonly authTime?: unknown;
  readonly acr?: unknown;
  readonly amr?: unknown;
  /** What an introspection says besides the members that oidc-provider knows. */
  extra?: unknown;
}

/** The scopes that the client may ask for and the API has, as they are now. */
export function allowedScopes({ apis = {}, document }: ClientRecord, api: ApiRecord): string[] {
  const wanted = document === undefined ? (ownValue(apis, api.identifier) ?? []) : api.unregistered;
  return wanted.filter((scope) => Object.hasOwn(api.scopes, scope));
}

/** A client that nobody has registered asks for exactly one API. */
export function requireOneApi({ oidc: { client, params } }: KoaContextWithOIDC): void {
  if (client === undefined || clientRecord(client).document === undefined) return;
  const named = [params?.["resource"]].flat();
  if (named.length !== 1 || typeof named[0] !== "string" || named[0] === "")
    throw new errors.InvalidTarget("resource must name one API");
}

/** The scopes of a parameter; `undefined` if none is named. */
function requested(scope: unknown): ReadonlySet<string> | undefined {
  return typeof scope === "string" && scope !== "" ? new Set(scope.split(" ")) : undefined;
}

const notAllowed = (): Error =>
  new errors.InvalidTarget("the client may not ask for tokens for this resource");

/** The person has to sign in again, with a second factor: the client learns it by the description. */
const tooWeak = (): Error =>
  Object.assign(new errors.InvalidGrant("the API needs a second factor"), {
    error_description: "second_factor",
  });

/** How the person of a code or a token signed in. */
const amrOf = ({ payload: { amr } }: Artifact): readonly string[] =>
  Array.isArray(amr) ? amr.filter((each) => typeof each === "string") : [];

function noScopeLeft(scope: unknown): Error {
  const named = typeof scope === "string" ? scope : "";
  return new errors.InvalidScope("the client may have none of the requested scopes", named);
}

/** The identifiers in a parameter `resource`, each once. */
export function identifiersOf(resource: unknown): readonly string[] {
  return [...new Set([resource].flat().filter((each) => typeof each === "string"))];
}

/** The APIs of a request by their identifiers. oidc-provider keeps them with the other entities of the request. */
export function apisOf({ entities }: Pick<KoaContextWithOIDC["oidc"], "entities">): Map<string, ApiRecord> {
  const known = entities as { Apis?: Map<string, ApiRecord> };
  return (known.Apis ??= new Map());
}

/** The API that the tokens of a token request are for. */
export function apiOf(oidc: Pick<KoaContextWithOIDC["oidc"], "entities">): ApiRecord | undefined {
  const [api] = apisOf(oidc).values();
  return api;
}

/** An API of a request. */
export interface RequestedApi {
  readonly api: ApiRecord;
  /** The requested scopes that the client may ask for; at least one. */
  readonly scopes: readonly string[];
}

/**
 * The APIs for this client: one that nobody has registered is never let in with less than the registered clients of the API's service.
 */
export async function asDemanding(
  client: ClientRecord,
  apis: readonly ApiRecord[],
  { listClients }: Pick<DirectoryRecords, "listClients">,
): Promise<readonly ApiRecord[]> {
  if (client.document === undefined || apis.every(wantsFactor)) return apis;
  const demanding = new Set((await listClients()).filter(wantsFactor).map(({ service }) => service));
  return apis.map((api) => (demanding.has(api.service) ? { ...api, second_factor: "required" } : api));
}

/** The APIs that a request names, as far as its client may ask for them now. */
export async function requestedApis(
  client: ClientRecord,
  { scope, resource }: { readonly scope?: unknown; readonly resource?: unknown },
  directory: Pick<DirectoryRecords, "findApi" | "listClients">,
): Promise<readonly RequestedApi[]> {
  const wanted = requested(scope);
  const found = await Promise.all(identifiersOf(resource).map((each) => directory.findApi(each)));
  const apis = found.filter((api) => api !== undefined);
  return (await asDemanding(client, apis, directory))
    .map((api) => ({ api, scopes: allowedScopes(client, api).filter((each) => wanted?.has(each)) }))
    .filter(({ scopes }) => scopes.length > 0);
}

/** Whether a token of a client that acts for itself is still valid. */
function isMachineCurrent(carried: unknown, owner: ClientRecord, api: ApiRecord): boolean {
  const epochs = carried as Partial<TokenEpochs> | undefined;
  const now = currentEpochs(owner, api);
  return epochs?.api === now.api && epochs.client === now.client;
}

/** Whether a token of a person is still valid. The policy of oidc-provider has looked at its grant. */
function isPersonCurrent(
  carried: unknown,
  owner: ClientRecord,
  api: ApiRecord,
  account: AccountRecord,
  rules: ProviderRules,
): boolean {
  if (!isCurrent(carried, account, owner, rules)) return false;
  return isCurrentForApi((carried as GrantGenerations).api, account, api);
}

/** @param signingAlgorithm of JWTs (RFC 9068 section 2.1 wants RS256). */
export function createApiTokens(
  {
    accounts,
    clients,
    configuration,
    storage,
    units,
  }: Pick<ProviderServices, "accounts" | "clients" | "configuration" | "storage" | "units">,
  signingAlgorithm: (client: ClientRecord) => string,
): ApiTokens {
  const { directory } = storage;

  /** The API, if the client may ask for it. */
  async function requireApi(client: ClientRecord, identifier: string): Promise<ApiRecord> {
    const isListed = client.document !== undefined || ownValue(client.apis ?? {}, identifier) !== undefined;
    const known = exchangeIn(Provider.ctx)?.api;
    const found =
      known?.identifier === identifier ? known : isListed && (await directory.findApi(identifier));
    if (!isListed || !found || (client.document !== undefined && found.unregistered.length === 0))
      throw notAllowed();
    return found;
  }

  async function isValidForApi(viewer: string, token: FoundToken): Promise<boolean> {
    const { kind, clientId, accountId, aud, generations } = token;
    if (typeof aud !== "string" || clientId === undefined) return false;
    const [api, owner, account] = await Promise.all([
      directory.findApi(aud),
      clients.record(clientId),
      accountId === undefined ? undefined : accounts.record(accountId),
    ]);
    if (api === undefined || owner === undefined || owner.disabled) return false;
    if (!api.introspection.includes(viewer)) return false;
    if (kind === "ClientCredentials") return isMachineCurrent(generations, owner, api);
    if (kind !== "AccessToken" || account === undefined) return false;
    if (!isPersonCurrent(generations, owner, api, account, configuration)) return false;
    const roles = await findRoles(directory, account, api.service);
    token.extra = { ...(token.extra as object), roles: roles.length > 0 ? roles : undefined };
    return true;
  }

  /** @throws InvalidGrant when the person's access to the API has ended, or it wants a second factor and none was shown. */
  async function requireAccess(source: Artifact, api: ApiRecord): Promise<Artifact | undefined> {
    const [grant, account] = await Promise.all([
      source.grantKey === undefined ? undefined : units.required().find("Grant", source.grantKey),
      source.accountId === undefined ? undefined : accounts.record(source.accountId),
    ]);
    // oidc-provider refuses a request whose grant or account is gone.
    if (grant === undefined || account === undefined) return undefined;
    const { apis = {} } = (grant.payload["generations"] ?? {}) as Partial<GrantGenerations>;
    if (!isCurrentForApi(ownValue(apis, api.identifier), account, api))
      throw new errors.InvalidGrant("the access to this resource has ended");
    if (wantsFactor(api) && !satisfies(acrOf(amrOf(source)), ACR_MFA)) throw tooWeak();
    return grant;
  }

  return {
    clientCredentials: (original) => async (ctx) => {
      const params = ctx.oidc.params as Record<string, unknown>;
      const client = clientRecord(ctx.oidc.client);
      const { resource, scope } = params;
      if (typeof resource !== "string" || resource === "")
        throw new errors.InvalidTarget("resource must name one API");
      const api = await requireApi(client, resource);
      const wanted = requested(scope);
      const granted = allowedScopes(client, api).filter((each) => wanted?.has(each) ?? true);
      if (granted.length === 0) throw noScopeLeft(scope);
      params["scope"] = granted.join(" ");
      apisOf(ctx.oidc).set(resource, api);
      await original(ctx);
      keepEpochs(ctx, units.required(), client, api);
    },

    async choose(ctx, source) {
      const params = ctx.oidc.params as Record<string, unknown>;
      const authorized = identifiersOf(source.payload["resource"]);
      const [only] = authorized;
      const { resource = authorized.length > 1 ? "" : only } = params;
      if (resource === undefined) return;
      if (typeof resource !== "string" || !authorized.includes(resource))
        throw new errors.InvalidTarget("resource must name one API that was authorized");
      const client = clientRecord(ctx.oidc.client);
      const api = await requireApi(client, resource);
      const grant = await requireAccess(source, api);
      const wanted = requested(params["scope"]) ?? requested(source.payload["scope"]);
      const { resources = {} } = (grant?.payload ?? {}) as { readonly resources?: Record<string, string> };
      const granted = new Set(ownValue(resources, resource)?.split(" "));
      const left = allowedScopes(client, api).filter((each) => granted.has(each) && wanted?.has(each));
      if (grant !== undefined && left.length === 0) throw noScopeLeft(params["scope"]);
      params["resource"] = resource;
      apisOf(ctx.oidc).set(resource, api);
    },

    async refusePassword(client, resource) {
      if (wantsFactor(await requireApi(client, resource))) throw tooWeak();
      throw new errors.InvalidTarget("the password grant gives no tokens for a resource");
    },

    async resourceServer(ctx, identifier, client) {
      const record = clientRecord(client);
      const { route, params = {} } = ctx.oidc;
      const apis = apisOf(ctx.oidc);
      if (route !== "token") {
        const named = [params["resource"]].flat();
        if (named.length > MAX_RESOURCES)
          throw new errors.InvalidTarget(`a request can name at most ${MAX_RESOURCES} resources`);
        const api = await requireApi(record, identifier);
        const wanted = requested(params["scope"]);
        if (!allowedScopes(record, api).some((scope) => wanted?.has(scope)))
          throw noScopeLeft(params["scope"]);
        apis.set(identifier, api);
      }
      const api = apis.get(identifier);
      if (api === undefined) throw notAllowed();
      return {
        audience: api.identifier,
        scope: allowedScopes(record, api).join(" "),
        accessTokenTTL: api.lifetime,
        accessTokenFormat: api.tokens,
        ...(api.tokens === "jwt" && { jwt: { sign: { alg: signingAlgorithm(record) as "RS256" } } }),
      };
    },

    async tokenClaims(ctx, token) {
      const api = apiOf(ctx.oidc);
      if (token.kind !== "AccessToken") return undefined;
      const { client, account } = ctx.oidc;
      if (api?.tokens !== "jwt" || !account || !client) return signInClaims(ctx);
      const { record } = account as OidcAccount;
      const shown = mayShowRoles(clientRecord(client), record, api);
      const roles = shown ? await findRoles(directory, record, api.service) : [];
      return { ...signInClaims(ctx), ...(roles.length > 0 && { roles }) };
    },

    // oidc-provider lets every client introspect every token. Here a client may introspect its own tokens that are for
    // no API, and access tokens for the APIs that name it, as long as they are valid.
    async mayIntrospect(client, token) {
      if (token.kind === "ClientCredentials" || token.aud !== undefined)
        return isValidForApi(client.clientId, token);
      if (token.clientId !== client.clientId || token.resource !== undefined) return false;
      const record = token.accountId === undefined ? undefined : await accounts.record(token.accountId);
      if (record === undefined) return false;
      if (!isCurrent(token.generations, record, clientRecord(client), configuration)) return false;
      // An access token says it itself.
      if (token.kind === "RefreshToken") token.extra = claimsOf(token);
      return true;
    },
  };
}

/** The token of a client that acts for itself has no grant: it carries the epochs. A JWT is not stored. */
function keepEpochs({ oidc }: TokenContext, unit: Unit, client: ClientRecord, api: ApiRecord): void {
  const { jti } = oidc.entities.ClientCredentials ?? {};
  const token = jti === undefined ? undefined : unit.known("ClientCredentials", artifactKey(jti));
  if (token === undefined) return;
  unit.save({ ...token, payload: { ...token.payload, generations: currentEpochs(client, api) } });
}

/** Clients can read JWTs: whether the client may see the person's roles in the service of the API. */
function mayShowRoles(client: ClientRecord, account: AccountRecord, api: ApiRecord): boolean {
  if (client.service === api.service || client.first_party) return true;
  return ownValue(consentOf(account, client.client_id).apis ?? {}, api.identifier) !== undefined;
}

/** How the person of a code or a token signed in. */
interface ShownSignIn {
  readonly authTime?: unknown;
  readonly acr?: unknown;
  readonly amr?: unknown;
}

function claimsOf({ authTime, acr, amr }: ShownSignIn): Record<string, unknown> {
  return {
    ...(authTime !== undefined && { auth_time: authTime }),
    ...(acr !== undefined && { acr }),
    ...(amr !== undefined && { amr }),
  };
}

/**
 * How the person signed in (RFC 9068 section 2.2.1).
 * @param ctx of the request that issues the token.
 */
function signInClaims(ctx: KoaContextWithOIDC): Record<string, unknown> {
  const { RefreshToken, AuthorizationCode, DeviceCode } = ctx.oidc.entities;
  return claimsOf(RefreshToken ?? AuthorizationCode ?? DeviceCode ?? {});
}

/**
 * Whether a person gets no token for an API: they neither use its service nor are assigned to it by the authorization.
 */
export function isShutOut(account: AccountRecord, client: ClientRecord, api: ApiRecord): boolean {
  return !Object.hasOwn(account.services, api.service) && !api.assign && api.service !== client.service;
}
