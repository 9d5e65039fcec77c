/** The documented password grant (RFC 6749 section 4.3), for clients that are registered for it. */
import { errors, type Provider, type TokenEndpointGrantContext } from "oidc-provider";
import { currentGenerations, oidcAccount } from "./account.ts";
import { protocolCaller } from "./caller.ts";
import { clientRecord } from "./clients.ts";
import type { ProtocolDependencies, ProtocolState } from "./dependencies.ts";
import { newGrant } from "./grant.ts";
import { noteLimited } from "./limits.ts";
import { effectiveScope } from "./scopes.ts";
import { ACR_PASSWORD, AMR_PASSWORD } from "./sign-in-method.ts";

type Context = TokenEndpointGrantContext<{ username?: string; password?: string; scope?: string }>;

/** One answer for a wrong password, an unknown user and an account without a password. */
const REFUSED = "the username or the password is wrong";

async function authenticate(ctx: Context, { accounts, limits, audit, units }: ProtocolDependencies) {
  const { username, password } = ctx.oidc.params;
  if (username === undefined) throw new errors.InvalidRequest("username is missing");
  if (password === undefined) throw new errors.InvalidRequest("password is missing");
  const { clientId } = ctx.oidc.client;
  const event = {
    ...protocolCaller(ctx, { kind: "client", id: clientId }),
    action: "password_grant",
  } as const;
  const attempt = await limits.passwordGrant({ name: username, client: clientId });
  if (!attempt.allowed) {
    // Whose name it is is not looked up: that would take another time for names that nobody has.
    noteLimited(audit, event, attempt);
    (ctx.state as ProtocolState & { retryAfter?: number }).retryAfter = attempt.retryAfter;
    throw new errors.InvalidGrant("too many failed attempts");
  }
  const { refusal, record } = await accounts
    .authenticate(username, password)
    .catch(async (fault: unknown) => {
      await attempt.withdraw();
      throw fault;
    });
  const subject = record && { subject: record.sub };
  if (refusal !== undefined || record === undefined) {
    audit.note({ ...event, ...subject, outcome: "failure", reason: refusal ?? "credentials" });
    throw new errors.InvalidGrant(REFUSED);
  }
  await attempt.succeed();
  units.current()?.whenCommitted(() => audit.note({ ...event, ...subject }));
  return record;
}

async function issue(ctx: Context, provider: Provider, dependencies: ProtocolDependencies): Promise<void> {
  const record = await authenticate(ctx, dependencies);
  const { client } = ctx.oidc;
  const clientEntry = clientRecord(client);
  const generations = currentGenerations(record, clientEntry);
  if (clientEntry.service !== null) {
    const seen = { serviceGeneration: generations.service, tokensGeneration: generations.tokens };
    const caller = protocolCaller(ctx, { kind: "client", id: client.clientId });
    await dependencies.accounts.assignAtSignIn(record.sub, clientEntry.service, seen, caller);
  }
  const account = oidcAccount(record);
  ctx.oidc.entity("Account", account);
  const { deployment } = ctx.state as ProtocolState;
  const scope = effectiveScope(ctx.oidc.params.scope, { openid: deployment.kind === "openid" });
  const grant = newGrant(provider, account, clientEntry);
  grant.addOIDCScope(scope);
  const grantId = await grant.save();
  ctx.oidc.entity("Grant", grant);

  const shared = { accountId: record.sub, client, grantId, gty: "password", scope };
  const accessToken = new provider.AccessToken(shared);
  ctx.oidc.entity("AccessToken", accessToken);
  const refreshToken = new provider.RefreshToken({
    ...shared,
    rotations: 0,
    authTime: Math.floor(dependencies.configuration.clock.now() / 1000),
    acr: ACR_PASSWORD,
    amr: [...AMR_PASSWORD],
  });
  ctx.oidc.entity("RefreshToken", refreshToken);
  ctx.body = {
    access_token: await accessToken.save(),
    expires_in: accessToken.expiration,
    token_type: accessToken.tokenType,
    refresh_token: await refreshToken.save(),
    ...(scope.split(" ").includes("openid") ? { id_token: await idToken(ctx, provider) } : {}),
  };
}

/** OpenID Connect Core 1.0 section 2; the library's own helper for this is not open to custom grants. */
async function idToken(ctx: Context, provider: Provider): Promise<string> {
  const { account } = ctx.oidc;
  const claims = await account?.claims("id_token", "openid", {}, []);
  const token = new provider.IdToken(
    { ...claims, sub: account?.accountId ?? "", acr: ACR_PASSWORD, amr: [...AMR_PASSWORD] },
    { ctx },
  );
  // Members of the library's model that its types leave out: which claims the token may show.
  Object.assign(token, { scope: "openid", mask: {}, rejected: [] });
  return token.issue({ use: "idtoken" });
}

/** Registers the grant; it needs `password` in the client's grant types. */
export function registerPasswordGrant(provider: Provider, dependencies: ProtocolDependencies): void {
  provider.registerGrantType<{ username?: string; password?: string; scope?: string }>(
    "password",
    (ctx) => issue(ctx, provider, dependencies),
    ["username", "password", "scope"],
  );
}
