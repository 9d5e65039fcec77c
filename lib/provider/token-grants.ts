/** What goes before and after the library's own handling of a code and of a refresh token. */
import { errors, type TokenEndpointGrantContext } from "oidc-provider";
import type { Artifact, StoredArtifact } from "../artifacts/artifact.ts";
import { artifactKey } from "../../adapters/oidc/adapter.ts";
import type { Unit } from "../../adapters/oidc/unit-of-work.ts";
import type { RefreshTokenRules } from "../../config/configuration.ts";
import { monotonic, seconds } from "../clock.ts";
import { StorageUnavailable } from "../errors.ts";
import { decrypt, deriveKey, encrypt } from "../sealing.ts";
import { isCurrent } from "./account.ts";
import { createUntil } from "../until.ts";
import { createCodeExchanges } from "./code-exchanges.ts";
import { clientRecord } from "./clients.ts";
import type { ProtocolDependencies } from "./dependencies.ts";

type Context = TokenEndpointGrantContext<{ code?: string; refresh_token?: string }>;
export type GrantHandler = (ctx: Context) => void | Promise<void>;

/** The answer that consumed a refresh token, as it is sealed beside it. */
interface SealedAnswer {
  readonly body: Readonly<Record<string, unknown>>;
  /** What was asked for: see `askedScope`. Version 0.1 did not seal it, nor the end. */
  readonly scope?: string;
  /** Milliseconds since the epoch: when the access token ends. */
  readonly expiresAt?: number;
}

/** Milliseconds that a request inside the window may take until it reads the answer. */
const LONGEST_REQUEST = 5_000;

/** The rules of this client's refresh tokens: its own where it has some, else the service's. */
export function refreshRules(ctx: Context, { configuration }: ProtocolDependencies): RefreshTokenRules {
  return { ...configuration.refreshTokens, ...clientRecord(ctx.oidc.client).refresh_tokens };
}

function currentUnit({ units }: ProtocolDependencies): Unit {
  const unit = units.current();
  if (unit === undefined) throw new TypeError("a token request runs in a unit of work");
  return unit;
}

/**
 * Of N exchanges in flight together one gets the tokens and the others end nothing: such a use is a tie, not a
 * replay. A later use is a replay, which the library answers by ending the family.
 */
export function codeGrant(original: GrantHandler, dependencies: ProtocolDependencies): GrantHandler {
  const { artifacts, configuration } = dependencies;
  const exchanges = createCodeExchanges(artifacts, monotonic);
  const until = createUntil(() => new StorageUnavailable("the storage did not answer before the deadline"));

  /** Every process can tell that the code was used before anybody can know the tokens. */
  async function markAnswered(code: StoredArtifact | undefined, { deadline }: Unit): Promise<void> {
    if (code === undefined) return;
    const end = performance.now() + Math.max(0, deadline - configuration.clock.now());
    // The tokens are committed: they are answered all the same, and soon the code counts as answered without the mark.
    await until(end, artifacts.markAnswered(code)).catch(() => undefined);
  }

  return async (ctx) => {
    const unit = currentUnit(dependencies);
    const { code } = ctx.oidc.params;
    const key = code === undefined ? undefined : artifactKey(code);
    const found = key === undefined ? undefined : await unit.find("AuthorizationCode", key);
    if (found === undefined || found.clientId !== ctx.oidc.client.clientId) return original(ctx);
    const isTie = await exchanges.begin(found, ctx.res, unit.underWaySince).catch((error: unknown) => {
      unit.failure ??= error;
      throw error;
    });
    if (isTie && found.consumedAt !== undefined) {
      throw new errors.InvalidGrant("authorization code already consumed");
    }
    await original(ctx);
    unit.whenCommitted((consumed) => markAnswered(consumed, unit));
  };
}

/** RFC 9700 section 4.14.2, with a window in which racing and repeated refreshes all get the same answer. */
export function refreshGrant(original: GrantHandler, dependencies: ProtocolDependencies): GrantHandler {
  return async (ctx) => {
    const unit = currentUnit(dependencies);
    const presented = ctx.oidc.params.refresh_token;
    const found =
      typeof presented === "string" ? await unit.find("RefreshToken", artifactKey(presented)) : undefined;
    if (
      presented !== undefined &&
      found?.consumedAt !== undefined &&
      found.clientId === ctx.oidc.client.clientId
    ) {
      const { reuseWindow } = refreshRules(ctx, dependencies);
      const elapsed = performance.now() - unit.underWaySince;
      if (dependencies.configuration.clock.now() - elapsed <= found.consumedAt + reuseWindow * 1000) {
        ctx.body = await repeatedAnswer(ctx, presented, found, dependencies);
        return;
      }
    }
    await original(ctx);
    if (presented === undefined) return;
    const rules = refreshRules(ctx, dependencies);
    if (ctx.oidc.entities.RotatedRefreshToken) {
      const body = ctx.body as SealedAnswer["body"];
      const expiresAt = unit.known("AccessToken", accessTokenKey(body))?.expiresAt ?? 0;
      const sealed: SealedAnswer = { body, scope: askedScope(ctx, found), expiresAt };
      const until = dependencies.configuration.clock.now() + rules.reuseWindow * 1000 + LONGEST_REQUEST;
      const replay = encrypt(replayKey(presented), artifactKey(presented), JSON.stringify(sealed));
      unit.attachReplay("RefreshToken", replay, until);
    } else if (rules.sliding) {
      await prolong(ctx, rules, dependencies);
    }
  };
}

function replayKey(presented: string): Buffer {
  return deriveKey(presented, "sign-in-service rotation");
}

function accessTokenKey(body: SealedAnswer["body"]): string {
  return artifactKey(String(body["access_token"]));
}

/** Each value once, in one order. RFC 6749 section 6: without a scope all is asked for that the refresh token has. */
function askedScope(ctx: Context, token: Artifact | undefined): string {
  const asked = ctx.oidc.params["scope"] || token?.payload["scope"];
  return typeof asked === "string" ? [...new Set(asked.split(" "))].toSorted().join(" ") : "";
}

async function repeatedAnswer(
  ctx: Context,
  presented: string,
  consumed: Artifact,
  dependencies: ProtocolDependencies,
): Promise<Record<string, unknown>> {
  const { accounts, configuration } = dependencies;
  const unit = currentUnit(dependencies);
  const refused = new errors.InvalidGrant("refresh token already used");
  const text = consumed.replay && decrypt(replayKey(presented), consumed.key, consumed.replay);
  const grant = consumed.grantKey && (await unit.find("Grant", consumed.grantKey));
  const account = consumed.accountId && (await accounts.record(consumed.accountId));
  if (!text || !grant || !account) throw refused;
  if (!isCurrent(consumed.payload["generations"], account, clientRecord(ctx.oidc.client))) throw refused;
  const { body, scope, expiresAt } = JSON.parse(text) as SealedAnswer;
  if (scope !== undefined && askedScope(ctx, consumed) !== scope) {
    throw new errors.InvalidScope("the refresh token was used for another scope", scope);
  }
  const left =
    expiresAt === undefined ? Number(body["expires_in"]) : expiresAt / 1000 - seconds(configuration.clock);
  // An access token that has come to its end was not revoked: what counts then is the new refresh token.
  if (left > 0 && !(await unit.find("AccessToken", accessTokenKey(body)))) throw refused;
  return { ...body, expires_in: Math.max(0, left) };
}

/** A sliding refresh token is prolonged at each use, up to its longest age. */
async function prolong(
  ctx: Context,
  rules: RefreshTokenRules,
  { configuration }: ProtocolDependencies,
): Promise<void> {
  const token = ctx.oidc.entities.RefreshToken;
  if (token?.iiat === undefined || token.exp === undefined) return;
  const now = Math.floor(configuration.clock.now() / 1000);
  const end = Math.min(now + configuration.lifetimes.refreshToken, token.iiat + rules.maxAge);
  if (end <= token.exp) return;
  token.exp = end;
  await token.save();
}

/** `ttl.RefreshToken`: a rotated token ends when the first would have, unless it slides. */
export function refreshTokenLifetime(ctx: Context | undefined, dependencies: ProtocolDependencies): number {
  const { configuration } = dependencies;
  const full = configuration.lifetimes.refreshToken;
  const rotated = ctx?.oidc.entities.RotatedRefreshToken;
  if (ctx === undefined || rotated === undefined) return full;
  const rules = refreshRules(ctx, dependencies);
  if (!rules.sliding || rotated.iiat === undefined) return Math.max(1, rotated.remainingTTL);
  const now = Math.floor(configuration.clock.now() / 1000);
  return Math.max(1, Math.min(full, rotated.iiat + rules.maxAge - now));
}

const DAY = 86_400;

/** `ttl.Grant`: the grant is what a refresh checks, so it outlives every token that may descend from it. */
export function grantLifetime(ctx: Context | undefined, dependencies: ProtocolDependencies): number {
  const { lifetimes, refreshTokens } = dependencies.configuration;
  const rules = ctx?.oidc.client === undefined ? refreshTokens : refreshRules(ctx, dependencies);
  return Math.max(lifetimes.refreshToken, rules.maxAge, lifetimes.accessToken) + DAY;
}
