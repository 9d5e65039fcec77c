/** The one oidc-provider instance behind both deployments, and everything it is told. */
import {
  type Provider,
  type Configuration as ProviderConfiguration,
  type JWK,
  type KoaContextWithOIDC,
} from "oidc-provider";
import { createOidcAdapter } from "../../adapters/oidc/adapter.ts";
import { isDisabled } from "../domain/account.ts";
import { isCurrent, oidcAccount, type OidcAccount } from "./account.ts";
import { backchannelFetch } from "./backchannel-fetch.ts";
import { scopeClaims, SIGN_IN_CLAIMS } from "./claims.ts";
import { clientMetadata, clientRecord } from "./clients.ts";
import { cookieSettings } from "./cookies.ts";
import type { ProtocolDependencies, ProtocolState } from "./dependencies.ts";
import { loadGrant } from "./grant.ts";
import { registerPasswordGrant } from "./password-grant.ts";
import { patchProvider } from "./patches.ts";
import { signInPolicy } from "./policy.ts";
import { ALL_FIELDS, PUBLIC_SCOPES } from "./scopes.ts";
import { secretCheck } from "./secret-check.ts";
import { createServiceProvider } from "./service-provider.ts";
import { KNOWN_ACRS } from "./sign-in-method.ts";
import { grantLifetime, refreshRules, refreshTokenLifetime } from "./token-grants.ts";

/** Name of the parameter that carries the sent `state` to the answer: the library drops an empty one. */
export const SENT_STATE = "sent_state";

/** Where the endpoints are below each base URL; the compat table says which deployment has which. */
const routes = {
  authorization: "/oauth2/authorize",
  token: "/oauth2/token",
  revocation: "/oauth2/revoke",
  introspection: "/oauth2/introspect",
  userinfo: "/oauth2/userinfo",
  jwks: "/oauth2/jwks",
  pushed_authorization_request: "/oauth2/par",
  end_session: "/oauth2/logout",
} as const;

/**
 * The provider, patched, with the documented grants; nothing is listening yet.
 * @param signing private keys: the first signs, all are published.
 */
export function createProvider(dependencies: ProtocolDependencies, signing: readonly JWK[]): Provider {
  const { configuration } = dependencies;
  const { openid, oauth2 } = configuration.deployments;
  const issuer = openid?.url ?? oauth2?.url;
  if (issuer === undefined) throw new TypeError("deployments: at least one of oauth2 and openid");
  const provider = createServiceProvider(issuer, providerConfiguration(dependencies, signing), dependencies);
  patchProvider(provider, {
    checkSecret: secretCheck(dependencies),
    recordInHand(clientId) {
      const client = dependencies.units.current()?.client;
      if (client === undefined || client.disabled) return undefined;
      return client.client_id === clientId ? client : undefined;
    },
    deliverLogout: (clientId, send) => dependencies.backchannel.deliver(clientId, send),
    clock: configuration.clock,
  });
  if (configuration.profile === "documented") registerPasswordGrant(provider, dependencies);
  return provider;
}

/** For clients that chose none: `RS256`, or what the first key of the configuration signs with where none has that. */
function defaultAlgorithm(signing: readonly JWK[]): string {
  return signing.find(({ alg }) => alg === "RS256")?.alg ?? signing[0]?.alg ?? "RS256";
}

function providerConfiguration(
  dependencies: ProtocolDependencies,
  signing: readonly JWK[],
): ProviderConfiguration {
  const { configuration, keys } = dependencies;
  return {
    adapter: createAdapter(dependencies, defaultAlgorithm(signing)),
    jwks: { keys: signing.map((key) => ({ ...key })) },
    cookies: cookieSettings(configuration, keys.cookies),
    routes,
    scopes: [...PUBLIC_SCOPES, ALL_FIELDS],
    claims: {
      openid: [...scopeClaims.openid],
      email: [...scopeClaims.email],
      profile: [...scopeClaims.profile],
      ...Object.fromEntries(SIGN_IN_CLAIMS.map((claim) => [claim, null])),
    },
    acrValues: [...KNOWN_ACRS],
    responseTypes: ["code"],
    subjectTypes: ["public"],
    clientAuthMethods: ["client_secret_basic", "client_secret_post"],
    clientDefaults: { grant_types: ["authorization_code", "refresh_token"] },
    extraClientMetadata: { properties: ["record"] },
    extraParams: [SENT_STATE],
    clockTolerance: 0,
    enableHttpPostMethods: configuration.deployments.openid?.post ?? false,
    allowOmittingSingleRegisteredRedirectUri: false,
    acceptQueryParamAccessTokens: false,
    expiresWithSession: () => false,
    // The documented token response always has one; whether it may be used the client's grants say.
    issueRefreshToken: () => true,
    rotateRefreshToken: (ctx) => refreshRules(ctx as never, dependencies).rotate,
    clientBasedCORS: () => false,
    features: features(dependencies),
    interactions: {
      policy: signInPolicy(dependencies),
      url: (ctx, interaction) =>
        `${(ctx.state as ProtocolState).deployment.url}/interaction/${interaction.uid}`,
    },
    ttl: lifetimes(dependencies),
    findAccount: (ctx, sub, token) => findAccount(ctx, sub, token, dependencies),
    loadExistingGrant: loadGrant,
    // The HTTP layer decides between page and JSON, and with which status.
    renderError(ctx, { error, error_description }) {
      (ctx.state as ProtocolState).problem = {
        error,
        ...(error_description === undefined ? {} : { error_description }),
      };
    },
    fetch: backchannelFetch(configuration),
  };
}

function createAdapter(
  { units, configuration, clients }: ProtocolDependencies,
  signingAlgorithm: string,
): NonNullable<ProviderConfiguration["adapter"]> {
  return createOidcAdapter({
    units,
    clock: configuration.clock,
    sessionMax: configuration.lifetimes.sessionMax,
    async clientMetadata(clientId) {
      const known = units.current()?.client;
      const record = known?.client_id === clientId ? known : await clients.record(clientId);
      return record === undefined || record.disabled
        ? undefined
        : clientMetadata(record, { signingAlgorithm, profile: configuration.profile });
    },
  });
}

function features({
  configuration,
  pages,
  accounts,
}: ProtocolDependencies): ProviderConfiguration["features"] {
  return {
    devInteractions: { enabled: false },
    dPoP: { enabled: configuration.features.dpop },
    pushedAuthorizationRequests: { enabled: true },
    resourceIndicators: { enabled: false },
    claimsParameter: { enabled: true },
    userinfo: { enabled: true },
    backchannelLogout: { enabled: true },
    introspection: {
      enabled: true,
      // Own tokens only, with the checks that every use of a token makes.
      async allowedPolicy(_ctx, client, token) {
        if (token.clientId !== client.clientId) return false;
        const { accountId, generations } = token as typeof token & {
          accountId?: string;
          generations?: unknown;
        };
        const record = accountId === undefined ? undefined : await accounts.record(accountId);
        return record !== undefined && isCurrent(generations, record, clientRecord(client));
      },
    },
    revocation: {
      enabled: true,
      // The library ends the whole family for an access token too; here it ends alone (RFC 7009 section 2.1 allows both).
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
        await pages.confirmLogout(ctx, { action: ctx.oidc.urlFor("end_session_confirm"), xsrf: secret });
      },
      async postLogoutSuccessSource(ctx) {
        // The library comes here after "stay signed in" as well.
        const session = await ctx.oidc.provider.Session.get(ctx);
        await pages.loggedOut(ctx, { stayed: session.accountId !== undefined });
      },
    },
  };
}

function lifetimes(dependencies: ProtocolDependencies): ProviderConfiguration["ttl"] {
  const { lifetimes: seconds } = dependencies.configuration;
  return {
    AuthorizationCode: seconds.authorizationCode,
    AccessToken: seconds.accessToken,
    IdToken: seconds.idToken,
    Interaction: seconds.interaction,
    Session: (_ctx, session) => sessionLifetime(session.loginTs, dependencies),
    RefreshToken: (ctx) => refreshTokenLifetime(ctx as never, dependencies),
    Grant: (ctx) => grantLifetime(ctx as never, dependencies),
    // Not offered; the library asks for a value of each.
    ClientCredentials: seconds.accessToken,
    DeviceCode: seconds.authorizationCode,
    BackchannelAuthenticationRequest: seconds.authorizationCode,
  };
}

/**
 * `ttl.Session`, asked at each use: `lifetimes.session` from now, but not past `lifetimes.sessionMax` from the sign-in.
 * @param signedInAt seconds since the epoch; missing when nobody is signed in.
 */
function sessionLifetime(signedInAt: number | undefined, { configuration }: ProtocolDependencies): number {
  const { session, sessionMax } = configuration.lifetimes;
  if (signedInAt === undefined) return session;
  const left = signedInAt + sessionMax - Math.floor(configuration.clock.now() / 1000);
  return Math.max(1, Math.min(session, left));
}

/** Called for sessions without a token, for every use of a code or token with it. */
async function findAccount(
  ctx: KoaContextWithOIDC,
  sub: string,
  token: unknown,
  { accounts }: ProtocolDependencies,
): Promise<OidcAccount | undefined> {
  const record = await accounts.record(sub);
  if (record === undefined || isDisabled(record)) return undefined;
  if (token !== undefined) {
    const { client } = ctx.oidc;
    const { generations } = token as { generations?: unknown };
    if (client === undefined || !isCurrent(generations, record, clientRecord(client))) return undefined;
  }
  return oidcAccount(record);
}
