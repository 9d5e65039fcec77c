/** The rules of refresh tokens: rotation with a reuse window, sliding expiry, and how long tokens and grants live. */
import type { KeyObject } from "node:crypto";
import { errors, type TokenEndpointGrantContext } from "oidc-provider";
import { artifactKey } from "../adapter.ts";
import type { RefreshTokenRules } from "../../config/configuration.ts";
import { clientNow } from "../../records/audit/audit-event.ts";
import type { Artifact } from "../../records/artifacts/artifact.ts";
import { seconds } from "../../core/clock.ts";
import { decrypt, deriveKey, encrypt } from "../../core/sealing.ts";
import { isCurrent } from "../account.ts";
import { requireProof } from "../proofs/proofs.ts";
import { apiOf, type ApiTokens, type GrantHandler } from "../apis.ts";
import { clientRecord } from "../clients.ts";
import type { ProviderServices } from "../services.ts";

type Context = TokenEndpointGrantContext<{ refresh_token?: string }>;

/** The response for which a refresh token was consumed, encrypted with that token and stored with it. */
interface SealedResponse {
  readonly body: Readonly<Record<string, unknown>>;
  /** The requested scope, see `requestedScope`. */
  readonly scope: string;
  /** The API of the access token. */
  readonly resource?: string | undefined;
  /** The thumbprint of the DPoP key that the access token is bound to. */
  readonly jkt?: string | undefined;
  /** Milliseconds since the epoch: when the access token expires. */
  readonly expiresAt: number;
}

/** How long a request within the reuse window may take until it reads the stored response. */
const MAX_REQUEST_MS = 5_000;

/** A use of a grant within this time of the stored one is not stored. */
const USE_INTERVAL_MS = 3_600_000;

/** How long a grant outlives the last token that can descend from it. */
const GRANT_MARGIN_SECONDS = 86_400;

function replayKey(presented: string): KeyObject {
  return deriveKey(presented, "sign-in-service rotation");
}

function accessTokenKey(body: SealedResponse["body"]): string {
  return artifactKey(String(body["access_token"]));
}

/** Sorted and without repetitions. Without a `scope` the request is for that of the token (RFC 6749 section 6). */
function requestedScope(ctx: Context, token: Artifact | undefined): string {
  const scope = ctx.oidc.params["scope"] || token?.payload["scope"];
  return typeof scope === "string" ? [...new Set(scope.split(" "))].toSorted().join(" ") : "";
}

type Services = Pick<ProviderServices, "configuration" | "accounts" | "clients" | "units" | "cleanup">;

/** The longest life of a refresh token of a client that nobody has registered. */
const MAX_UNREGISTERED_SECONDS = 30 * 24 * 60 * 60;

export class RefreshTokens {
  readonly #services: Services;
  readonly #apis: Pick<ApiTokens, "choose" | "resourceServer">;

  constructor(services: Services, apis: Pick<ApiTokens, "choose" | "resourceServer">) {
    this.#services = services;
    this.#apis = apis;
  }

  /** The rules of the client, with the service's rules for what it leaves out. */
  rules(ctx: Context): RefreshTokenRules {
    const { configuration, clients } = this.#services;
    const record = clientRecord(ctx.oidc.client);
    const rules = { ...configuration.refreshTokens, ...record.refresh_tokens };
    // A client without credentials proves nothing when it refreshes (RFC 9700 section 4.14.2).
    return clients.kindOf(record).rotates === "always" ? { ...rules, rotate: true } : rules;
  }

  /**
   * The refresh token grant with a reuse window: racing and repeated requests within it get the same response. A later
   * reuse revokes the family (RFC 9700 section 4.14.2).
   * @param original oidc-provider's handler.
   */
  grant(original: GrantHandler): GrantHandler {
    return async (ctx) => {
      const unit = this.#services.units.required();
      const presented = ctx.oidc.params.refresh_token;
      if (typeof presented !== "string") return original(ctx);
      const found = await unit.find("RefreshToken", artifactKey(presented));
      if (found === undefined || found.clientId !== clientRecord(ctx.oidc.client).client_id)
        return original(ctx);
      const thumbprint = await requireProof(ctx, found.payload["jkt"]);
      if (found.consumedAt !== undefined) {
        const windowEnd = found.consumedAt + this.rules(ctx).reuseWindow * 1000;
        const elapsed = performance.now() - unit.receivedAt;
        if (this.#services.configuration.clock.now() - elapsed <= windowEnd) {
          await this.#apis.choose(ctx, found);
          ctx.body = await this.#repeatedResponse(ctx, presented, found, thumbprint);
          return;
        }
      }
      if (found.consumedAt === undefined) await this.#apis.choose(ctx, found);
      await original(ctx);
      this.#noteUse(found.grantKey);
      if (ctx.oidc.entities.RotatedRefreshToken) this.#keepResponse(ctx, presented, found, thumbprint);
      else if (this.rules(ctx).sliding) await this.#prolong(ctx);
    };
  }

  /** `ttl.RefreshToken`: a rotated token expires when the first one would have, unless it slides. */
  lifetime(ctx: Context | undefined): number {
    const { lifetimes, clock } = this.#services.configuration;
    const rotated = ctx?.oidc.entities.RotatedRefreshToken;
    const isRegistered = ctx === undefined || clientRecord(ctx.oidc.client).document === undefined;
    const first = isRegistered
      ? lifetimes.refreshToken
      : Math.min(lifetimes.refreshToken, MAX_UNREGISTERED_SECONDS);
    if (ctx === undefined || rotated === undefined) return first;
    const { sliding, maxAge } = this.rules(ctx);
    if (!sliding || rotated.iiat === undefined) return Math.max(1, rotated.remainingTTL);
    const left = rotated.iiat + maxAge - seconds(clock);
    return Math.max(1, Math.min(lifetimes.refreshToken, left));
  }

  /** `ttl.Grant`, in seconds. A refresh checks the grant, so the grant outlives every token that can descend from it. */
  grantLifetime(ctx: Context | undefined): number {
    const { lifetimes, refreshTokens } = this.#services.configuration;
    const { maxAge } = ctx?.oidc.client === undefined ? refreshTokens : this.rules(ctx);
    return Math.max(lifetimes.refreshToken, maxAge, lifetimes.accessToken) + GRANT_MARGIN_SECONDS;
  }

  /** The client gets the first tokens of this grant: from now on the grant lives as long as its tokens can, and counts. */
  keepGrant(ctx: Context, grantKey: string | undefined): void {
    const unit = this.#services.units.required();
    const grant = grantKey === undefined ? undefined : unit.known("Grant", grantKey);
    if (grant === undefined) return;
    const { clock } = this.#services.configuration;
    const exp = seconds(clock) + this.grantLifetime(ctx);
    const usedAt = Math.floor(clock.now());
    unit.save({ ...grant, payload: { ...grant.payload, exp }, expiresAt: exp * 1000, usedAt });
    const { accountId } = grant;
    if (accountId === undefined) return;
    const client = clientNow(clientRecord(ctx.oidc.client));
    unit.whenCommitted(() => this.#services.cleanup.grantAdded(accountId, client));
  }

  /** Stores that the grant is used, as precisely as finding the least recently used one needs. */
  #noteUse(grantKey: string | undefined): void {
    const unit = this.#services.units.required();
    const grant = grantKey === undefined ? undefined : unit.known("Grant", grantKey);
    const now = Math.floor(this.#services.configuration.clock.now());
    if (grant?.usedAt === undefined || now - grant.usedAt < USE_INTERVAL_MS) return;
    unit.save({ ...grant, usedAt: now });
  }

  /** Stores the response for requests that repeat this one within the reuse window. */
  #keepResponse(ctx: Context, presented: string, found: Artifact, jkt: string | undefined): void {
    const unit = this.#services.units.required();
    const body = ctx.body as SealedResponse["body"];
    const expiresAt = unit.known("AccessToken", accessTokenKey(body))?.expiresAt ?? 0;
    const resource = apiOf(ctx.oidc)?.identifier;
    const response: SealedResponse = { body, scope: requestedScope(ctx, found), resource, jkt, expiresAt };
    const sealed = encrypt(replayKey(presented), artifactKey(presented), JSON.stringify(response));
    const { reuseWindow } = this.rules(ctx);
    const until = this.#services.configuration.clock.now() + reuseWindow * 1000 + MAX_REQUEST_MS;
    unit.attachReplay("RefreshToken", sealed, until);
  }

  async #repeatedResponse(
    ctx: Context,
    presented: string,
    consumed: Artifact,
    thumbprint: string | undefined,
  ): Promise<Record<string, unknown>> {
    const unit = this.#services.units.required();
    const refused = new errors.InvalidGrant("refresh token already used");
    const text = consumed.replay && decrypt(replayKey(presented), consumed.key, consumed.replay);
    const grant = consumed.grantKey && (await unit.find("Grant", consumed.grantKey));
    const account = consumed.accountId && (await this.#services.accounts.record(consumed.accountId));
    if (!text || !grant || !account) throw refused;
    const { configuration } = this.#services;
    if (!isCurrent(consumed.payload["generations"], account, clientRecord(ctx.oidc.client), configuration))
      throw refused;
    const { body, scope, resource, jkt, expiresAt } = JSON.parse(text) as SealedResponse;
    // The refresh token of a client with credentials is bound to no key, but the access token of the answer is.
    if (thumbprint !== jkt) throw refused;
    if (requestedScope(ctx, consumed) !== scope) {
      throw new errors.InvalidScope("the refresh token was used for another scope", scope);
    }
    const api = apiOf(ctx.oidc);
    if (api?.identifier !== resource || api?.tokens === "jwt")
      return { ...body, ...(await this.#anotherToken(ctx, presented, jkt)) };
    const left = expiresAt / 1000 - seconds(this.#services.configuration.clock);
    // A missing access token was revoked, unless it has expired: then the new refresh token is what counts.
    if (left > 0 && !(await unit.find("AccessToken", accessTokenKey(body)))) throw refused;
    return { ...body, expires_in: Math.max(0, left) };
  }

  /**
   * Another access token of the same grant, without a further rotation: for a repeated request that names another API
   * than the first, and for a JWT, which is not stored.
   */
  async #anotherToken(
    ctx: Context,
    presented: string,
    jkt: string | undefined,
  ): Promise<Record<string, unknown>> {
    const { provider, client } = ctx.oidc;
    const api = apiOf(ctx.oidc);
    const refreshToken = await provider.RefreshToken.find(presented);
    const grant = refreshToken?.grantId && (await provider.Grant.find(refreshToken.grantId));
    // Several APIs were authorized, so each request names one.
    if (!refreshToken || !grant || api === undefined) throw new errors.InvalidGrant("grant not found");
    ctx.oidc.entity("RefreshToken", refreshToken);
    const { accountId, gty } = refreshToken;
    const { jti: grantId } = grant;
    const token = new provider.AccessToken({ accountId, client, grantId, gty: gty ?? "refresh_token" });
    const info = await this.#apis.resourceServer(ctx, api.identifier, client);
    const server = new provider.ResourceServer(api.identifier, info);
    token.resourceServer = server;
    const wanted = requestedScope(ctx, { payload: refreshToken } as never).split(" ");
    token.scope = grant.getResourceScopeFiltered(
      api.identifier,
      wanted.filter((scope) => server.scopes.has(scope)),
    );
    if (jkt !== undefined) token.setThumbprint("jkt", jkt);
    const access_token = await token.save();
    return { access_token, expires_in: token.expiration, scope: token.scope };
  }

  /** Each use prolongs a sliding refresh token, up to its maximum age. */
  async #prolong(ctx: Context): Promise<void> {
    const token = ctx.oidc.entities.RefreshToken;
    if (token?.iiat === undefined || token.exp === undefined) return;
    const { lifetimes, clock } = this.#services.configuration;
    const end = Math.min(seconds(clock) + lifetimes.refreshToken, token.iiat + this.rules(ctx).maxAge);
    if (end <= token.exp) return;
    token.exp = end;
    await token.save();
  }
}
