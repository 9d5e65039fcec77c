/** The documented password grant (RFC 6749 section 4.3), for clients that are registered for it. */
import { errors, type Provider, type TokenEndpointGrantContext } from "oidc-provider";
import { seconds } from "../../core/clock.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { currentGenerations, oidcAccount, rolesAtClient } from "../account.ts";
import { noteLimited } from "../../accounts/limits/attempt-limits.ts";
import { ACR_PASSWORD, AMR_PASSWORD } from "../authentication.ts";
import type { ApiTokens } from "../apis.ts";
import { clientRecord } from "../clients.ts";
import { artifactKey } from "../adapter.ts";
import { newGrant } from "./grant.ts";
import type { RefreshTokens } from "./refresh-tokens.ts";
import { callerOf, exchangeOf } from "../exchange.ts";
import { requireProof } from "../proofs/proofs.ts";
import type { ProviderServices } from "../services.ts";

interface Parameters {
  readonly username?: string;
  readonly password?: string;
  readonly scope?: string;
  readonly resource?: string;
}

type Context = TokenEndpointGrantContext<Parameters>;

/** The same error for a wrong password, an unknown user and an account without a password. */
const REFUSED = "the username or the password is wrong";
const LIMITED = "too many failed attempts";

type Services = Pick<
  ProviderServices,
  "accounts" | "limits" | "passwordCheck" | "audit" | "units" | "claims" | "clock" | "storage"
>;

export class PasswordGrant {
  readonly #services: Services;
  readonly #refreshTokens: Pick<RefreshTokens, "keepGrant">;
  readonly #apis: Pick<ApiTokens, "refusePassword">;

  constructor(
    services: Services,
    refreshTokens: Pick<RefreshTokens, "keepGrant">,
    apis: Pick<ApiTokens, "refusePassword">,
  ) {
    this.#services = services;
    this.#refreshTokens = refreshTokens;
    this.#apis = apis;
  }

  /** Clients also need `password` in their `grant_types`. */
  register(provider: Provider): void {
    provider.registerGrantType<Parameters>("password", (ctx) => this.#issue(ctx, provider), [
      "username",
      "password",
      "scope",
      "resource",
    ]);
  }

  async #authenticate(ctx: Context): Promise<AccountRecord> {
    const { passwordCheck, limits, audit, units } = this.#services;
    const { username, password } = ctx.oidc.params;
    if (username === undefined) throw new errors.InvalidRequest("username is missing");
    if (password === undefined) throw new errors.InvalidRequest("password is missing");
    const { clientId } = ctx.oidc.client;
    const event = { ...callerOf(ctx, { kind: "client", id: clientId }), action: "password_grant" } as const;
    const checked = await passwordCheck.check({
      source: "password_grant",
      name: username,
      password,
      party: `client ${clientId}`,
      limit: (limited) => limits.passwordGrant({ ...limited, client: clientId }),
    });
    if (checked.kind === "limited") {
      noteLimited(audit, event, checked.attempt);
      exchangeOf(ctx).retryAfter = checked.attempt.retryAfter;
      throw new errors.InvalidGrant(LIMITED);
    }
    const { record } = checked;
    const subject = record && { subject: record.sub };
    if (checked.kind === "refused") {
      audit.note({ ...event, ...subject, outcome: "failure", reason: checked.reason });
      throw new errors.InvalidGrant(REFUSED);
    }
    const unit = units.required();
    unit.refund(checked.attempt);
    unit.whenCommitted(() => audit.note({ ...event, ...subject }));
    return checked.record;
  }

  async #issue(ctx: Context, provider: Provider): Promise<void> {
    const { accounts, storage, claims, clock } = this.#services;
    const { resource } = ctx.oidc.params;
    if (resource !== undefined) await this.#apis.refusePassword(clientRecord(ctx.oidc.client), resource);
    const thumbprint = await requireProof(ctx, undefined);
    const record = await this.#authenticate(ctx);
    const { client } = ctx.oidc;
    const clientEntry = clientRecord(client);
    if (clientEntry.service !== null) {
      const generations = currentGenerations(record, clientEntry);
      const expected = { serviceGeneration: generations.service, tokensGeneration: generations.tokens };
      const caller = callerOf(ctx, { kind: "client", id: client.clientId });
      await accounts.assignAtSignIn(record.sub, clientEntry.service, expected, caller);
    }
    const account = oidcAccount(record, claims, clientEntry, (each) =>
      rolesAtClient(storage.directory, each, client),
    );
    ctx.oidc.entity("Account", account);
    const scope = claims
      .readBy(clientEntry)
      .effectiveScope(ctx.oidc.params.scope, exchangeOf(ctx).deployment.kind);
    const grant = newGrant(provider, { account: record }, clientEntry);
    grant.addOIDCScope(scope);
    const grantId = await grant.save();
    this.#refreshTokens.keepGrant(ctx, artifactKey(grantId));
    ctx.oidc.entity("Grant", grant);

    const properties = { accountId: record.sub, client, grantId, gty: "password", scope };
    const accessToken = new provider.AccessToken(properties);
    if (thumbprint !== undefined) accessToken.setThumbprint("jkt", thumbprint);
    ctx.oidc.entity("AccessToken", accessToken);
    const refreshToken = new provider.RefreshToken({
      ...properties,
      rotations: 0,
      authTime: seconds(clock),
      acr: ACR_PASSWORD,
      amr: [...AMR_PASSWORD],
    });
    ctx.oidc.entity("RefreshToken", refreshToken);
    ctx.body = {
      access_token: await accessToken.save(),
      expires_in: accessToken.expiration,
      token_type: accessToken.tokenType,
      refresh_token: await refreshToken.save(),
      ...(scope.split(" ").includes("openid") ? { id_token: await idToken(ctx, provider, scope) } : {}),
    };
  }
}

/** OpenID Connect Core 1.0 section 2. oidc-provider does not export its own function for this to custom grants. */
async function idToken(ctx: Context, provider: Provider, scope: string): Promise<string> {
  const { account } = ctx.oidc;
  const claims = await account?.claims("id_token", scope, {}, []);
  const token = new provider.IdToken(
    { ...claims, sub: account?.accountId ?? "", acr: ACR_PASSWORD, amr: [...AMR_PASSWORD] },
    { ctx },
  );
  // These members select the claims of the token; the types of oidc-provider leave them out.
  Object.assign(token, { scope: "openid", mask: {}, rejected: [] });
  return token.issue({ use: "idtoken" });
}
