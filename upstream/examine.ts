/** What is wrong with a provider, for `doctor`: in the words of the operator who configured it. */
import type { IdentityProvider, ProviderPreset } from "../config/providers.ts";
import type { Connection, Exchange, Work } from "./connection.ts";
import { faultOf, type UpstreamFault } from "./faults.ts";
import { authorizationUrl } from "./trip.ts";

export interface ProviderProblem {
  /** What is wrong: a sentence. */
  readonly problem: string;
  /** What to do: a sentence or more. */
  readonly advice: string;
}

/** Where each provider shows what its client has. */
const CREDENTIALS: Readonly<Record<ProviderPreset, string>> = {
  openid:
    "Compare both with the settings of this client at the provider, and look for a missing character or a space.",
  google:
    "Compare both with Google Cloud Console, Credentials. The client ID ends in .apps.googleusercontent.com, and the secret begins with GOCSPX-.",
  microsoft:
    "Compare both with Microsoft Entra, App registrations. client_id is the Application (client) ID, and client_secret is the Value of a secret that has not expired, not its Secret ID.",
  apple:
    "Compare all four with Apple's developer site. client_id is the identifier of a Services ID, key_id that of a key with Sign in with Apple, private_key the content of its .p8 file, and team_id stands beside your name.",
  github: "Compare both with GitHub, Developer settings, OAuth Apps, or make a new client secret there.",
};

/** What a token endpoint answers if it does not accept the client (RFC 6749 section 5.2), and what GitHub answers. */
const WRONG_CLIENT: ReadonlySet<string> = new Set([
  "invalid_client",
  "unauthorized_client",
  "incorrect_client_credentials",
  "status_401",
]);

/** What Google and Microsoft have in their answers if they don't know the redirect address. */
const UNKNOWN_ADDRESS = /redirect_uri_mismatch|AADSTS50011\b/;
const UNKNOWN_CLIENT = /deleted_client|invalid_client|AADSTS700016\b/;

const REGISTER =
  "Add exactly this address to those of the client at the provider: scheme, host, port and path count, and so does a slash at the end.";

/**
 * @param redirectUris where the provider sends browsers back, of each deployment.
 * @param attempt does one thing, and ends it in time.
 */
export async function examine(
  connection: Connection,
  redirectUris: readonly string[],
  attempt: <T>(work: Work<T>) => Promise<T>,
): Promise<readonly ProviderProblem[]> {
  const { provider, discover } = connection;
  try {
    await attempt(async () => undefined);
  } catch (error) {
    return [await discoveryProblem(connection, faultOf(error))];
  }
  const document = await discover().catch(() => undefined);
  const offers = await attempt(async (exchange) => offerProblems(exchange, document));
  if (offers.length > 0) return offers;
  const [redirectUri] = redirectUris;
  if (redirectUri === undefined) return [];
  const wrong = clientProblem(
    provider,
    await attempt((exchange) => exchangeNothing(exchange, redirectUri)).catch(faultOf),
  );
  if (wrong !== undefined) return [wrong];
  const found: ProviderProblem[] = [];
  for (const address of redirectUris) {
    const state = await attempt((exchange, signal) =>
      addressState(connection, exchange, address, signal),
    ).catch(() => "unknown");
    if (state === "client")
      return [
        {
          problem: `${titleOf(provider)} does not know the client_id.`,
          advice: CREDENTIALS[provider.preset],
        },
      ];
    if (state === "address")
      found.push({
        problem: `${titleOf(provider)} does not accept the redirect address ${address}.`,
        advice: REGISTER,
      });
  }
  return found;
}

const titleOf = ({ key }: IdentityProvider): string => `The provider ${key}`;

/** Why the provider could not be discovered. */
async function discoveryProblem(
  { provider, address = "", discover }: Connection,
  { reason, detail }: UpstreamFault,
): Promise<ProviderProblem> {
  const title = titleOf(provider);
  const setting = `config.providers.${provider.key}.issuer`;
  if (detail === "address_refused")
    return {
      problem: `${title} is at an address that requests must not go to: ${address}.`,
      advice: `In production, the host of an issuer is public. Set config.providers.${provider.key}.allowPrivate to true if the provider is in your own network, and use https.`,
    };
  if (detail === "discovery issuer") {
    const { issuer } = await discover().catch((): { issuer?: unknown } => ({}));
    return {
      problem: `The discovery document at ${address} is that of the issuer ${String(issuer)}, not of ${provider.issuer}.`,
      advice: `Set ${setting} to exactly what the document has as issuer. A slash at the end counts.`,
    };
  }
  if (detail === "ENOTFOUND" || detail === "EAI_AGAIN")
    return {
      problem: `The host of ${address} is not known (${detail}).`,
      advice: `Check the spelling of ${setting}, and the name servers of this machine.`,
    };
  if (reason === "slow")
    return {
      problem: `${title} can't be reached at ${address} (${detail}).`,
      advice: `Check ${setting}, the certificate of the provider, and whether a firewall lets requests out.`,
    };
  if (/^status_|^not_json$/.test(detail))
    return {
      problem: `There is no discovery document at ${address} (${detail.replace("_", " ")}).`,
      advice:
        provider.preset === "microsoft"
          ? "Check the IDs in tenants: Microsoft Entra shows the Directory (tenant) ID on its overview."
          : `Check ${setting}: it is what stands before /.well-known/openid-configuration. At Keycloak that is https://HOST/realms/REALM.`,
    };
  return {
    problem: `The discovery document at ${address} is not usable (${detail}).`,
    advice: "It needs authorization_endpoint, token_endpoint and jwks_uri. Ask whoever runs the provider.",
  };
}

const listOf = (value: unknown): readonly unknown[] | undefined => (Array.isArray(value) ? value : undefined);

/** What the provider does not offer, by its discovery document. */
function offerProblems(
  { provider, settings }: Exchange,
  document: Readonly<Record<string, unknown>> | undefined,
): ProviderProblem[] {
  if (document === undefined) return [];
  const title = titleOf(provider);
  const found: ProviderProblem[] = [];
  const { id_token_signing_alg_values_supported: algorithms = [] } = settings.serverMetadata();
  if (algorithms.length === 0)
    found.push({
      problem: `${title} signs ID tokens with no algorithm that proves who signed.`,
      advice: "Switch on RS256 or ES256 for this client at the provider.",
    });
  const methods = listOf(document["token_endpoint_auth_methods_supported"]);
  const hasMethod = methods?.some((each) => each === "client_secret_post" || each === "client_secret_basic");
  if (provider.client_secret !== undefined && hasMethod === false)
    found.push({
      problem: `${title} takes no client secrets, neither as a parameter nor in a header.`,
      advice: "Switch on client_secret_post or client_secret_basic at the provider.",
    });
  const scopes = listOf(document["scopes_supported"]);
  const unknown = scopes === undefined ? [] : provider.scopes.filter((scope) => !scopes.includes(scope));
  if (unknown.length > 0)
    found.push({
      problem: `${title} does not list the scopes ${unknown.join(", ")}.`,
      advice: `Check the spelling in config.providers.${provider.key}.scopes, or add the scopes at the provider.`,
    });
  return found;
}

/** Exchanges a code that nobody got: whoever is not accepted as the client gets another error than for the code. */
async function exchangeNothing({ client, settings }: Exchange, redirectUri: string): Promise<undefined> {
  const answer = new URL(redirectUri);
  const state = client.randomState();
  const { issuer } = settings.serverMetadata();
  answer.search = new URLSearchParams({ code: client.randomState(), state, iss: issuer }).toString();
  const checks = { expectedState: state, pkceCodeVerifier: client.randomPKCECodeVerifier() };
  await client.authorizationCodeGrant(settings, answer, checks);
}

function clientProblem(
  provider: IdentityProvider,
  fault: UpstreamFault | undefined,
): ProviderProblem | undefined {
  const { reason, detail = "" } = fault ?? {};
  const title = titleOf(provider);
  if (WRONG_CLIENT.has(detail))
    return {
      problem:
        provider.preset === "apple"
          ? `${title} does not accept what client_id, team_id, key_id and private_key make together.`
          : `${title} does not accept client_id and client_secret.`,
      advice: CREDENTIALS[provider.preset],
    };
  if (reason === "slow" || detail === "address_refused")
    return {
      problem: `The token endpoint of the provider ${provider.key} can't be reached (${detail}).`,
      advice: "Check whether a firewall lets requests to its host out, and whether its address is public.",
    };
  return undefined;
}

/** Whether the provider sends a browser back to the address. Not every provider tells without a person who signs in. */
async function addressState(
  { send }: Connection,
  exchange: Exchange,
  redirectUri: string,
  signal: AbortSignal,
): Promise<"right" | "address" | "client" | "unknown"> {
  const { url } = await authorizationUrl(exchange, { redirectUri });
  url.searchParams.set("prompt", "none");
  const response = await send(url.href, {}, signal);
  const location = response.headers.get("location") ?? "";
  if (location.startsWith(redirectUri)) return "right";
  const texts = [location, await response.text(), decoded(location)];
  if (texts.some((text) => UNKNOWN_ADDRESS.test(text))) return "address";
  if (texts.some((text) => UNKNOWN_CLIENT.test(text))) return "client";
  return response.status >= 400 && response.status < 500 ? "address" : "unknown";
}

/** Google's errors, which are encoded. */
function decoded(location: string): string {
  const error = URL.parse(location)?.searchParams.get("authError") ?? "";
  return Buffer.from(error, "base64").toString();
}
