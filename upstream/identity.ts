/** Who came back from a provider, of whichever kind. */
import type { TokenEndpointResponse, TokenEndpointResponseHelpers } from "openid-client";
import type { ProviderPreset } from "../config/providers.ts";
import { isUuid } from "../config/value-forms.ts";
import {
  type Claims,
  isVouched,
  readAuthTime,
  readEmail,
  readMfa,
  readNames,
  readSubject,
  type UpstreamIdentity,
} from "./claims.ts";
import type { Exchange } from "./connection.ts";
import { UpstreamFault } from "./faults.ts";
import { readGitHubIdentity } from "./github.ts";
import { microsoftIssuer } from "./presets.ts";

export type Tokens = TokenEndpointResponse & TokenEndpointResponseHelpers;

/** How far the time of an ID token may be off. It was made a moment ago; Microsoft dates it back by five minutes. */
const TOKEN_AGE_SECONDS = 420;
const TOKEN_AHEAD_SECONDS = 60;

/** @param now in seconds since the epoch. */
export async function readIdentity(
  exchange: Exchange,
  tokens: Tokens,
  now: number,
): Promise<UpstreamIdentity> {
  const { provider } = exchange;
  if (!exchange.isOpenId) return readGitHubIdentity(exchange, tokens.access_token);
  const claims: (Claims & { readonly iss: string; readonly sub: string; readonly iat: number }) | undefined =
    tokens.claims();
  if (claims === undefined) throw new UpstreamFault("lied", "id_token");
  if (claims.iat > now + TOKEN_AHEAD_SECONDS || claims.iat < now - TOKEN_AGE_SECONDS)
    throw new UpstreamFault("lied", "iat");
  const who = WHO[provider.preset]?.(exchange, claims, tokens.id_token ?? "") ?? {
    issuer: claims.iss,
    subject: readSubject(claims.sub),
  };
  const said = provider.preset === "openid" ? await withUserInfo(exchange, tokens, claims) : claims;
  const email = readEmail(said["email"]);
  const authTime = readAuthTime(claims, now);
  return {
    provider: provider.key,
    ...who,
    ...(email !== undefined && { email }),
    vouched: isVouched(provider, claims),
    ...(provider.preset !== "apple" && readNames(said)),
    ...(authTime !== undefined && { auth_time: authTime }),
    mfa: readMfa(provider, claims, now),
  };
}

type Who = Pick<UpstreamIdentity, "issuer" | "subject">;

type TokenClaims = Claims & { readonly iss: string; readonly sub: string };

/** Providers whose identities are not simply `iss` and `sub`, or that let in only some of them. */
const WHO: Partial<
  Record<ProviderPreset, (exchange: Exchange, claims: TokenClaims, idToken: string) => Who>
> = {
  google({ provider }, claims) {
    const { hd } = provider;
    if (hd !== undefined && !(typeof claims["hd"] === "string" && hd.includes(claims["hd"])))
      throw new UpstreamFault("stranger", "hd");
    return { issuer: claims.iss, subject: readSubject(claims.sub) };
  },
  /** `sub` is another one for each application, and anybody can set `email`. `tid` and `oid` stay. */
  microsoft({ provider, keys }, { tid, oid, iss }, idToken) {
    const [tenant, object] = [tid, oid].map((each) =>
      typeof each === "string" && isUuid(each) && each === each.toLowerCase() ? each : undefined,
    );
    if (tenant === undefined || object === undefined) throw new UpstreamFault("lied", "tid oid");
    if (iss !== microsoftIssuer(provider, tenant)) throw new UpstreamFault("lied", "iss");
    const { tenants = [] } = provider;
    if (tenants !== "any" && !tenants.includes(tenant)) throw new UpstreamFault("stranger", "tid");
    // Some keys are for the tokens of some tenants only.
    const { kid } = JSON.parse(Buffer.from(idToken.split(".", 1)[0]!, "base64url").toString()) as Claims;
    const own = keys().find((key) => key["kid"] === kid)?.["issuer"];
    if (own !== undefined && (typeof own !== "string" || own.replace("{tenantid}", tenant) !== iss))
      throw new UpstreamFault("lied", "issuer of the key");
    return { issuer: iss, subject: `${tenant}:${object}` };
  },
};

/** Claims that are asked for at the userinfo endpoint if the ID token has none of them. */
const MORE = [["email"], ["given_name", "family_name", "name"]];

/** What the userinfo endpoint says besides. It is not in the ID token, so the provider does not vouch for it. */
async function withUserInfo(
  { client, settings }: Exchange,
  { access_token }: Tokens,
  claims: Claims & { readonly sub: string },
): Promise<Claims> {
  const isComplete = MORE.every((names) => names.some((name) => claims[name] !== undefined));
  if (isComplete || settings.serverMetadata().userinfo_endpoint === undefined) return claims;
  const more: Claims = await client.fetchUserInfo(settings, access_token, claims.sub);
  return { ...more, ...claims };
}
