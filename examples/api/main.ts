/**
 * An API that accepts the access tokens of a sign-in service, JWT and opaque ones.
 *
 *     ISSUER=… AUDIENCE=… CLIENT_ID=… CLIENT_SECRET=… npx node examples/api/main.ts
 */
import { createHash } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import { createRemoteJWKSet, errors, jwtVerify } from "jose";

// AUDIENCE is the identifier of this API in the directory. The client is the one with which it introspects tokens.
const { ISSUER = "", AUDIENCE = "", CLIENT_ID = "", CLIENT_SECRET = "", PORT = "3001" } = process.env;
if (ISSUER === "" || AUDIENCE === "") throw new TypeError("Set ISSUER and AUDIENCE");

/** The claims of a valid token, in either form. */
interface Claims {
  readonly sub?: string;
  readonly client_id?: string;
  readonly scope?: string;
  readonly exp?: number;
  readonly auth_time?: number;
  readonly acr?: string;
}

/** What a request requires of its token. */
interface Needs {
  readonly scope: string;
  /** The sign-in must have had one of these `acr` values. Tokens of machines have none. */
  readonly acr?: readonly string[];
  /** Seconds since the person signed in. */
  readonly maxAge?: number;
}

const STRONG = ["urn:sign-in-service:acr:mfa", "urn:sign-in-service:acr:passkey"];
const ROUTES = new Map<string, Needs>([
  ["GET /articles", { scope: "articles:read" }],
  ["DELETE /articles", { scope: "articles:write", acr: STRONG, maxAge: 300 }],
]);
/** How long a revoked opaque token may still work here. */
const CACHE_MS = 5000;
const MAX_CACHED = 1000;

/** What jose throws if it could not load the keys. */
const UNAVAILABLE = new Set(["ERR_JWKS_TIMEOUT", "ERR_JOSE_GENERIC"]);

/** Refuses a request with a challenge (RFC 6750 section 3, RFC 9470 section 3). */
class Refusal extends Error {
  readonly status: number;
  readonly challenge: string;
  constructor(status: number, parameters: Readonly<Record<string, string>> = {}) {
    super(parameters["error"] ?? "no token");
    this.status = status;
    const list = Object.entries(parameters).map(([name, value]) => `${name}="${value}"`);
    this.challenge = `Bearer ${list.join(", ")}`.trim();
  }
}

const keys = createRemoteJWKSet(new URL(`${ISSUER}/oauth2/jwks`));
const cache = new Map<string, { readonly claims: Claims; readonly until: number }>();

async function verified(token: string): Promise<Claims | undefined> {
  const rules = {
    issuer: ISSUER,
    audience: AUDIENCE,
    typ: "at+jwt",
    algorithms: ["RS256"],
    requiredClaims: ["exp"],
  };
  try {
    return (await jwtVerify<Claims>(token, keys, rules)).payload;
  } catch (error) {
    // Without the keys, nobody knows whether the token is valid.
    const isVerdict = error instanceof errors.JOSEError && !UNAVAILABLE.has(error.code);
    if (!isVerdict) throw error;
    return undefined;
  }
}

async function introspected(token: string): Promise<Claims | undefined> {
  // The cache doesn't hold the tokens themselves.
  const key = createHash("sha256").update(token).digest("base64url");
  const known = cache.get(key);
  if (known !== undefined && known.until > Date.now()) return known.claims;
  cache.delete(key);
  const credentials = Buffer.from(`${CLIENT_ID}:${CLIENT_SECRET}`).toString("base64");
  const response = await fetch(`${ISSUER}/oauth2/introspect`, {
    method: "POST",
    headers: { authorization: `Basic ${credentials}` },
    body: new URLSearchParams({ token }),
    signal: AbortSignal.timeout(5000),
  });
  if (!response.ok) throw new Error(`introspection answered ${response.status}`);
  const claims = (await response.json()) as Claims & { readonly active: boolean; readonly aud?: string };
  if (!claims.active || claims.aud !== AUDIENCE) return undefined;
  if (cache.size >= MAX_CACHED) cache.clear();
  const expiry = (claims.exp ?? 0) * 1000;
  cache.set(key, { claims, until: Math.min(Date.now() + CACHE_MS, expiry) });
  return claims;
}

async function authorize(authorization: string | undefined, needs: Needs): Promise<Claims> {
  const [, token] = /^Bearer +([\w\-.~+/]+=*)$/i.exec(authorization ?? "") ?? [];
  // A request without a token gets no error code.
  if (token === undefined) throw new Refusal(401);
  const claims = await (token.split(".").length === 3 ? verified(token) : introspected(token));
  // A token with `cnf` is bound to a key, and a Bearer request doesn't prove that it has the key.
  if (claims === undefined || "cnf" in claims) throw new Refusal(401, { error: "invalid_token" });
  const { scope, acr, maxAge } = needs;
  if (claims.scope?.split(" ").includes(scope) !== true)
    throw new Refusal(403, { error: "insufficient_scope", scope });
  const isStrong = acr === undefined || acr.includes(claims.acr ?? "");
  const age = Date.now() / 1000 - (claims.auth_time ?? 0);
  if (!isStrong || (maxAge !== undefined && age > maxAge))
    throw new Refusal(401, {
      error: "insufficient_user_authentication",
      ...(acr !== undefined && { acr_values: acr.join(" ") }),
      ...(maxAge !== undefined && { max_age: String(maxAge) }),
    });
  return claims;
}

const server = createServer((request, response) => {
  const needs = ROUTES.get(`${request.method} ${request.url}`);
  if (needs === undefined) return send(response, 404, {});
  void authorize(request.headers.authorization, needs).then(
    ({ sub }) => send(response, 200, { articles: ["First article"], for: sub }),
    (error: unknown) => {
      if (!(error instanceof Refusal)) return send(response, 503, {});
      response.setHeader("www-authenticate", error.challenge);
      send(response, error.status, {});
    },
  );
});
server.listen(Number(PORT), "127.0.0.1", () => console.log(`Listening on ${PORT}`));
process.once("SIGTERM", () => server.close().closeAllConnections());

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(body));
}
