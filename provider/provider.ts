/** The oidc-provider instance behind both deployments, and all of its settings. */
import {
  type Configuration as ProviderConfiguration,
  type JWK,
  type KoaContextWithOIDC,
  Provider,
  type Session,
  type TokenEndpointGrantContext,
} from "oidc-provider";
import { createOidcAdapter } from "./adapter.ts";
import type { Configuration } from "../config/configuration.ts";
import { seconds } from "../core/clock.ts";
import { protocolClientId } from "../records/directory/document-kinds.ts";
import { type ClientRecord, ID_TOKEN_ALGORITHMS } from "../records/directory/directory.ts";
import { isClientId } from "../accounts/text-rules.ts";
import { originOf } from "../records/audit/origin.ts";
import { DEVICE_GRANT } from "../accounts/clients/client-kinds.ts";
import { ASSERTION_ALGORITHMS, PROOF_ALGORITHMS } from "../core/client-keys.ts";
import { findAccount, storeSessionGeneration } from "./account.ts";
import { type ApiTokens, createApiTokens, type GrantHandler, requireOneApi } from "./apis.ts";
import { reportEndedAccess } from "./audit.ts";
import { backchannelFetch } from "./sessions/backchannel-logout.ts";
import { KNOWN_ACRS } from "./authentication.ts";
import { ALL_FIELDS, OPENID_CLAIMS, ROLES, SIGN_IN_CLAIMS } from "./claims.ts";
import { createClientMetadata, clientRecord, createSecretCheck } from "./clients.ts";
import { codeGrant } from "./grants/code-grant.ts";
import { cookieSettings } from "./sessions/cookies.ts";
import { DEVICE_CODE_LIFETIME_SECONDS, polledGrant, userCodeDigest } from "./grants/device-codes.ts";
import { loadGrant, writeGrant } from "./grants/grant.ts";
import { PasswordGrant } from "./grants/password-grant.ts";
import { patchProvider } from "./patches.ts";
import {
  checkSentMaxAge,
  createPrompt,
  INVITED,
  OWN_WAYS,
  PROVIDER_HINTS,
  SENT_ACR_VALUES,
  SENT_MAX_AGE,
  signInPolicy,
} from "./policy.ts";
import { RefreshTokens } from "./grants/refresh-tokens.ts";
import { ASSERTION_TOLERANCE_SECONDS, checkAssertion } from "./assertions.ts";
import { exchangeIn, exchangeOf, serviceContext } from "./exchange.ts";
import { type ResponseMode, responseMode, SENT_STATE } from "./responses.ts";
import type { ProviderServices } from "./services.ts";
import { latestEnd } from "../accounts/sign-in-sessions.ts";
import { countSessions, storeSessionUse } from "./sessions/sessions.ts";

/** Paths below each base URL. The table of endpoints says which deployment has which. */
const routes = {
  authorization: "/oauth2/authorize",
  token: "/oauth2/token",
  revocation: "/oauth2/revoke",
  introspection: "/oauth2/introspect",
  userinfo: "/oauth2/userinfo",
  jwks: "/oauth2/jwks",
  pushed_authorization_request: "/oauth2/par",
  end_session: "/oauth2/logout",
  device_authorization: "/oauth2/device",
  code_verification: "/device",
} as const;

/** What an instance is built from. */
export type ProviderParts = Omit<ProviderServices, "currentProvider" | "findBrowser" | "newBrowsers">;

/**
 * Creates an instance with the documented grants.
 * @param signing private keys: the first signs, all are published.
 */
export function createProvider(services: ProviderParts, signing: readonly JWK[]): Provider {
  const { configuration, storage, units } = services;
  const { openid, oauth2 } = configuration.deployments;
  const issuer = openid?.url ?? oauth2?.url;
  if (issuer === undefined) throw new TypeError("deployments: at least one of oauth2 and openid");
  const signingAlgorithm = defaultAlgorithm(signing);
  const apis = createApiTokens(services, (client) => jwtAlgorithm(client, signing) ?? signingAlgorithm);
  const refreshTokens = new RefreshTokens(services, apis);

  /** The constructor of oidc-provider calls both methods to register its response modes and grants. */
  class DocumentedProvider extends Provider {
    override registerResponseMode(name: string, handler: ResponseMode): void {
      const documented = responseMode(name, handler);
      if (documented) super.registerResponseMode(name, documented);
    }

    override registerGrantType<Params extends object>(
      name: string,
      handler: (ctx: TokenEndpointGrantContext<Params>) => void | Promise<void>,
      ...rest: (string | readonly string[] | ReadonlySet<string>)[]
    ): void {
      const original: GrantHandler = (ctx) => handler(ctx as unknown as TokenEndpointGrantContext<Params>);
      super.registerGrantType(name, grantHandler(name, original), ...rest);
    }
  }

  /** A proof is checked before anything is looked up. */
  function grantHandler(name: string, original: GrantHandler): GrantHandler {
    const handler = ownHandler(name, original);
    return async (ctx) => {
      await services.proofs.checkTokenRequest(ctx);
      await handler(ctx);
    };
  }

  function ownHandler(name: string, original: GrantHandler): GrantHandler {
    if (name === "client_credentials") return apis.clientCredentials(original);
    if (name === "authorization_code")
      return codeGrant(original, storage.artifacts, units, apis, refreshTokens);
    if (name === DEVICE_GRANT)
      return polledGrant(original, storage.artifacts, units, apis, refreshTokens, configuration.clock);
    return name === "refresh_token" ? refreshTokens.grant(original) : original;
  }

  const provider = new DocumentedProvider(issuer, settings(services, refreshTokens, apis, signing));
  patchProvider(provider, {
    checkSecret: createSecretCheck(services),
    onLogout: (logout) => units.required().whenCommitted(() => services.backchannel.add(logout)),
    production: configuration.production,
    clients: services.clients,
    nextNonce: () => services.proofs.nextNonce(),
  });
  services.onProvider?.(provider);
  storeSessionGeneration(provider);
  storeSessionUse(provider, configuration.clock);
  countSessions(provider, services);
  reportEndedAccess(provider, services);
  // oidc-provider handles unexpected errors itself. The HTTP layer needs to know them, for example if the storage is down.
  provider.on("server_error", (_ctx, error) => {
    const unit = units.current();
    if (unit !== undefined) unit.failure ??= error;
  });
  if (configuration.profile === "documented")
    new PasswordGrant(services, refreshTokens, apis).register(provider);
  return provider;
}

/** For clients without a choice of their own: `RS256`, or the algorithm of the first key if no key has that. */
function defaultAlgorithm(signing: readonly JWK[]): string {
  return signing.find(({ alg }) => alg === "RS256")?.alg ?? signing[0]?.alg ?? "RS256";
}

/** A client with a security profile never gets JWTs that are signed with `RS256`. */
function jwtAlgorithm({ profile }: ClientRecord, signing: readonly JWK[]): string | undefined {
  if (profile === undefined) return undefined;
  return ID_TOKEN_ALGORITHMS.find((each) => each !== "RS256" && signing.some(({ alg }) => alg === each));
}

/** With a security profile, a code lives no longer than this (FAPI 2.0 Security Profile section 5.3.2.1). */
const MAX_CODE_SECONDS = 60;

function settings(
  services: ProviderParts,
  refreshTokens: RefreshTokens,
  apis: ApiTokens,
  signing: readonly JWK[],
): ProviderConfiguration {
  const { configuration, keys, people } = services;
  const policy = signInPolicy(services);
  policy.add(writeGrant(services));
  if (people.registrations !== undefined) policy.add(createPrompt(), 0);
  return {
    adapter: createAdapter(services, defaultAlgorithm(signing)),
    jwks: { keys: signing.map((key) => ({ ...key })) },
    cookies: cookieSettings(configuration, keys.cookies),
    routes,
    scopes: [...services.claims.ofScope.keys(), ALL_FIELDS],
    claims: {
      ...Object.fromEntries([...services.claims.ofScope].map(([scope, names]) => [scope, [...names]])),
      // The scope of an ID token; only the scope `roles` gives roles a value.
      openid: [...OPENID_CLAIMS, ROLES],
      ...Object.fromEntries(SIGN_IN_CLAIMS.map((claim) => [claim, null])),
    },
    acrValues: [...KNOWN_ACRS],
    responseTypes: ["code"],
    subjectTypes: ["public"],
    clientAuthMethods: ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"],
    enabledJWA: {
      clientAuthSigningAlgValues: [...ASSERTION_ALGORITHMS],
      dPoPSigningAlgValues: [...PROOF_ALGORITHMS],
    },
    clientDefaults: { grant_types: ["authorization_code", "refresh_token"] },
    extraClientMetadata: { properties: ["record"] },
    extraParams: {
      [SENT_STATE]: (ctx) => requireOneApi(ctx),
      [SENT_MAX_AGE]: checkSentMaxAge,
      [SENT_ACR_VALUES]: null,
      [OWN_WAYS]: null,
      [INVITED]: null,
      ...Object.fromEntries(PROVIDER_HINTS.map((name) => [name, null])),
    },
    // For the times in assertions. The lifetimes of codes, tokens and sessions are exact: see the adapter.
    clockTolerance: ASSERTION_TOLERANCE_SECONDS,
    assertJwtClientAuthClaimsAndHeader: (ctx, claims, header) => checkAssertion(ctx, claims, header),
    enableHttpPostMethods: configuration.deployments.openid?.post ?? false,
    allowOmittingSingleRegisteredRedirectUri: false,
    acceptQueryParamAccessTokens: false,
    expiresWithSession: () => false,
    // The documented response always has a refresh token. The client's grants say whether it can be used.
    issueRefreshToken: () => true,
    rotateRefreshToken: (ctx) => refreshTokens.rules(ctx as never).rotate,
    clientBasedCORS: () => false,
    features: features(services, apis),
    extraTokenClaims: (ctx, token) => apis.tokenClaims(ctx, token),
    interactions: {
      policy,
      url: (ctx, interaction) => `${exchangeOf(ctx).deployment.url}/interaction/${interaction.uid}`,
    },
    ttl: timesToLive(configuration, refreshTokens),
    findAccount: (ctx, sub, token) => findAccount(ctx, sub, token, services),
    loadExistingGrant: loadGrant,
    // The HTTP layer chooses between a page and JSON, and sets the status.
    renderError(ctx, { error, error_description }) {
      const { status } = ctx;
      ctx.body = { error, error_description };
      ctx.status = status;
    },
    fetch: backchannelFetch(configuration, services.telemetry),
  };
}

function createAdapter(
  services: ProviderParts,
  signingAlgorithm: string,
): NonNullable<ProviderConfiguration["adapter"]> {
  const { configuration, clients, clientRows, keys } = services;
  const metadataOf = createClientMetadata(clientRows, clients, signingAlgorithm, configuration.profile);
  return createOidcAdapter(services, {
    userCodeDigest: (userCode) => userCodeDigest(keys.userCodes, userCode),
    async clientMetadata(clientId) {
      const known = exchangeIn(Provider.ctx)?.client;
      if (!isClientId(clientId)) return undefined;
      const isKnown = known !== undefined && protocolClientId(known) === clientId;
      const record = isKnown ? known : await clients.record(clientId);
      return record === undefined || record.disabled ? undefined : metadataOf(record);
    },
  });
}

function features(
  { configuration, pages }: ProviderParts,
  apis: ApiTokens,
): ProviderConfiguration["features"] {
  return {
    devInteractions: { enabled: false },
    // Requests of clients for which it is off have no proof here: see `compat/protocol.ts`.
    dPoP: { enabled: true, requireNonce: () => false },
    pushedAuthorizationRequests: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, identifier, client) => apis.resourceServer(ctx, identifier, client),
    },
    claimsParameter: { enabled: true },
    userinfo: { enabled: true },
    deviceFlow: {
      enabled: true,
      // The person sees where the device is, precisely enough to tell one network from another.
      deviceInfo: (ctx) => originOf(exchangeOf(ctx).address, undefined),
    },
    // Logout tokens have the issuer of the OpenID Connect deployment, and are verified with its keys.
    backchannelLogout: { enabled: configuration.deployments.openid !== undefined },
    introspection: {
      enabled: true,
      allowedPolicy: (_ctx, client, token) => apis.mayIntrospect(client, token),
    },
    revocation: {
      enabled: true,
      // oidc-provider revokes the whole family of an access token. Here only the token ends, which RFC 7009 section 2.1
      // also allows.
      async allowedPolicy(_ctx, client, token) {
        if (token.clientId !== client.clientId) return false;
        if (token.kind !== "AccessToken") return true;
        await token.destroy();
        return false;
      },
    },
    rpInitiatedLogout: {
      enabled: true,
      async logoutSource(ctx) {
        const { secret = "" } = (ctx.oidc.session?.state ?? {}) as { secret?: string };
        const action = ctx.oidc.urlFor("end_session_confirm");
        pages.confirmLogout(serviceContext(ctx), {
          action,
          xsrf: secret,
          atOnce: comesFromSession(ctx),
        });
      },
      async postLogoutSuccessSource(ctx) {
        // Also called when the user has chosen to stay signed in.
        const session = await ctx.oidc.provider.Session.get(ctx);
        pages.loggedOut(serviceContext(ctx), {
          after: session.accountId === undefined ? "signed out" : "stayed",
        });
      },
    },
  };
}

/**
 * Whether a first-party client shows an ID token of this very session: it has asked the person already. No other site has
 * that token (OpenID Connect RP-Initiated Logout 1.0 section 2).
 */
function comesFromSession({ oidc: { client, session, entities } }: KoaContextWithOIDC): boolean {
  const { IdTokenHint: hint } = entities as {
    readonly IdTokenHint?: { readonly payload: { readonly sub?: unknown; readonly sid?: unknown } };
  };
  if (client === undefined || hint === undefined || !clientRecord(client).first_party) return false;
  const { sub, sid } = hint.payload;
  return sid !== undefined && sub === session?.accountId && sid === session?.sidFor(client.clientId);
}

function timesToLive(
  configuration: Configuration,
  refreshTokens: RefreshTokens,
): ProviderConfiguration["ttl"] {
  const { lifetimes: ttl } = configuration;
  return {
    AuthorizationCode: (_ctx, _code, client) =>
      clientRecord(client).profile === undefined
        ? ttl.authorizationCode
        : Math.min(ttl.authorizationCode, MAX_CODE_SECONDS),
    AccessToken: (_ctx, token) => token.resourceServer?.accessTokenTTL ?? ttl.accessToken,
    IdToken: ttl.idToken,
    Interaction: ttl.interaction,
    Session: (_ctx, session) => sessionLifetime(session, configuration),
    RefreshToken: (ctx) => refreshTokens.lifetime(ctx as never),
    Grant: (ctx) => refreshTokens.grantLifetime(ctx as never),
    ClientCredentials: (_ctx, token) => token.resourceServer?.accessTokenTTL ?? ttl.accessToken,
    DeviceCode: DEVICE_CODE_LIFETIME_SECONDS,
    // Not used, but oidc-provider prints a warning if they are missing.
    BackchannelAuthenticationRequest: ttl.authorizationCode,
  };
}

/** `ttl.Session`, called at each use: `lifetimes.session` from now, but at most `lifetimes.sessionMax` from the sign-in. */
function sessionLifetime(session: Session, { lifetimes, clock }: Configuration): number {
  return Math.max(1, Math.min(lifetimes.session, latestEnd(session, lifetimes) - seconds(clock)));
}
