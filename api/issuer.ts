/** What the service says about itself: its endpoints, its keys and how it signs. */
import { createRemoteJWKSet, type JWTVerifyGetKey } from "jose";

/** The algorithms that the service can sign with. A symmetric one never verifies a token. */
const SIGNING = ["RS256", "PS256", "ES256", "EdDSA", "Ed25519"];

/** How long the service may take to answer. */
const TIMEOUT_MS = 5_000;

/** How long the metadata is used. The keys are read again on their own when a new one signs. */
const KEPT_MS = 60 * 60 * 1000;

export interface Issuer {
  readonly algorithms: readonly string[];
  readonly keys: JWTVerifyGetKey;
  readonly introspectionEndpoint: string | undefined;
}

/** JSON from the service. @throws when it does not answer with an object in time. */
export async function readJson(
  url: string,
  init: RequestInit = {},
): Promise<Readonly<Record<string, unknown>>> {
  const response = await fetch(url, { ...init, redirect: "error", signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  const value: unknown = await response.json();
  if (typeof value !== "object" || value === null) throw new TypeError(`${url} answered no JSON object`);
  return value as Readonly<Record<string, unknown>>;
}

/** An endpoint belongs to the issuer: credentials and tokens are sent there. */
function endpoint(issuer: string, value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  if (new URL(value).origin !== new URL(issuer).origin)
    throw new TypeError(`the metadata of ${issuer} names an endpoint of another origin`);
  return value;
}

async function discover(issuer: string): Promise<Issuer> {
  const metadata = await readJson(`${issuer}/.well-known/openid-configuration`);
  if (metadata["issuer"] !== issuer)
    throw new TypeError(`the metadata of ${issuer} is that of ${String(metadata["issuer"])}`);
  const offered = metadata["id_token_signing_alg_values_supported"];
  const keys = endpoint(issuer, metadata["jwks_uri"]);
  if (!Array.isArray(offered) || keys === undefined)
    throw new TypeError(`the metadata of ${issuer} names no keys`);
  return {
    algorithms: SIGNING.filter((algorithm) => offered.includes(algorithm)),
    keys: createRemoteJWKSet(new URL(keys), { timeoutDuration: TIMEOUT_MS }),
    introspectionEndpoint: endpoint(issuer, metadata["introspection_endpoint"]),
  };
}

/** Reads the metadata when it is first needed. An attempt that fails is repeated by the next request. */
export function createIssuer(issuer: string): () => Promise<Issuer> {
  let known: { readonly since: number; readonly found: Promise<Issuer> } | undefined;
  return () => {
    if (known === undefined || performance.now() - known.since > KEPT_MS) {
      const found = discover(issuer);
      const attempt = { since: performance.now(), found };
      const before = known;
      known = attempt;
      // While the service is away, what is known is used.
      found.catch(() => {
        if (known === attempt) known = before;
      });
      if (before !== undefined) return found.catch(() => before.found);
    }
    return known.found;
  };
}
