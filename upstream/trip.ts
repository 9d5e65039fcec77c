/** There and back: where a browser is sent, and what its answer is worth. */
import { type Clock, seconds } from "../core/clock.ts";
import type { UpstreamIdentity } from "./claims.ts";
import type { Exchange } from "./connection.ts";
import { readIdentity } from "./identity.ts";
import { type Departure, PRESETS } from "./presets.ts";

/** What is kept while a browser is at a provider. Plain JSON, and secret. */
export interface Trip {
  /** The key of the provider. */
  readonly provider: string;
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly redirect_uri: string;
  /** What was asked for, in seconds. The provider may have ignored it: see `auth_time`. */
  readonly max_age?: number;
}

/** The parameters of an answer that count (RFC 6749 section 4.1.2, RFC 9207). */
const ANSWER: ReadonlySet<string> = new Set(["code", "state", "error", "iss"]);

/**
 * Asks for these in the ID token (OpenID Connect Core 1.0 section 5.5). Many providers say when and how somebody signed in only
 * if they are asked, and tell the address elsewhere, where nobody has signed it.
 */
const IN_ID_TOKEN = JSON.stringify({
  id_token: { email: null, email_verified: null, auth_time: { essential: true }, amr: null },
});

/** The address at the provider. */
export async function authorizationUrl(
  { client, settings, provider }: Exchange,
  departure: Departure,
): Promise<{ readonly url: URL; readonly trip: Trip }> {
  const verifier = client.randomPKCECodeVerifier();
  const { fresh, maxAge } = departure;
  const max_age = fresh === true ? 0 : maxAge;
  const trip: Trip = {
    provider: provider.key,
    state: client.randomState(),
    nonce: client.randomNonce(),
    verifier,
    redirect_uri: new URL(departure.redirectUri).href,
    ...(max_age !== undefined && { max_age }),
  };
  const parameters = {
    redirect_uri: trip.redirect_uri,
    scope: provider.scopes.join(" "),
    state: trip.state,
    nonce: PRESETS[provider.preset].metadata === undefined ? trip.nonce : undefined,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    ...(settings.serverMetadata().claims_parameter_supported === true && { claims: IN_ID_TOKEN }),
    ...PRESETS[provider.preset].parameters(departure, provider),
  };
  const given = Object.entries(parameters).filter((each): each is [string, string] => each[1] !== undefined);
  const url = client.buildAuthorizationUrl(settings, Object.fromEntries(given));
  return { url, trip };
}

export async function comeBack(
  exchange: Exchange,
  trip: Trip,
  answer: URLSearchParams,
  clock: Clock,
): Promise<UpstreamIdentity> {
  const { client, settings, isOpenId } = exchange;
  const url = new URL(trip.redirect_uri);
  for (const [name, value] of answer) if (ANSWER.has(name)) url.searchParams.append(name, value);
  const tokens = await client.authorizationCodeGrant(settings, url, {
    expectedState: trip.state,
    pkceCodeVerifier: trip.verifier,
    ...(isOpenId && { expectedNonce: trip.nonce, idTokenExpected: true }),
  });
  return readIdentity(exchange, tokens, seconds(clock));
}
