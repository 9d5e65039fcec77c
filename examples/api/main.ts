/**
 * An API that accepts the access tokens of a sign-in service, JWT and opaque ones.
 *
 *     ISSUER=… AUDIENCE=… CLIENT_ID=… CLIENT_SECRET=… npx node examples/api/main.ts
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRemoteJWKSet, errors, jwtVerify } from "jose";

// AUDIENCE is the identifier of this API in the directory. The API introspects tokens with this client.
const { ISSUER = "", AUDIENCE = "", CLIENT_ID = "", CLIENT_SECRET = "", PORT = "3001" } = process.env;
if (ISSUER === "" || AUDIENCE === "") throw new TypeError("Set ISSUER and AUDIENCE");

/** The claims of a valid token, in either form. */
interface Claims {
  readonly sub?: string;
  readonly scope?: string;
  readonly exp?: number;
  readonly auth_time?: number;
  readonly acr?: string;
}

/** What a request needs: a scope; for some, a sign-in that is strong and recent. A machine never has one. */
interface Needs {
  readonly scope: string;
  readonly signIn?: { readonly acr: readonly string[]; readonly maxAgeSeconds: number };
}
const STRONG = ["urn:sign-in-service:acr:mfa", "urn:sign-in-service:acr:passkey"];
const ROUTES = new Map<string, Needs>([
  ["GET /articles", { scope: "articles:read" }],
  ["DELETE /articles", { scope: "articles:write", signIn: { acr: STRONG, maxAgeSeconds: 300 } }],
]);

const keys = createRemoteJWKSet(new URL(`${ISSUER}/oauth2/jwks`));
const rules = {
  issuer: ISSUER,
  audience: AUDIENCE,
  typ: "at+jwt",
  algorithms: ["RS256"],
  requiredClaims: ["exp"],
};

/** @throws when the keys can't be loaded: then nobody knows whether the token is valid. */
async function verified(token: string): Promise<Claims | undefined> {
  try {
    return (await jwtVerify<Claims>(token, keys, rules)).payload;
  } catch (error) {
    const isVerdict = error instanceof errors.JOSEError;
    if (!isVerdict || ["ERR_JWKS_TIMEOUT", "ERR_JOSE_GENERIC"].includes(error.code)) throw error;
    return undefined;
  }
}

/** How long a revoked or expired token may still work here. */
const CACHE_MS = 5000;
const MAX_CACHED = 1000;
/** By the hashes of tokens; the tokens themselves are not kept. */
const cache = new Map<string, { readonly claims: Claims; readonly until: number }>();

/** @throws when the service can't be asked. */
async function introspected(token: string): Promise<Claims | undefined> {
  const key = createHash("sha256").update(token).digest("base64url");
  const known = cache.get(key);
  if (known !== undefined && known.until > Date.now()) return known.claims;
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
  cache.set(key, { claims, until: Math.min(Date.now() + CACHE_MS, (claims.exp ?? 0) * 1000) });
  return claims;
}

interface Answer {
  readonly status: number;
  /** What is missing (RFC 6750 section 3, RFC 9470 section 3). */
  readonly challenge?: string;
  readonly body?: object;
}

async function answer(route: string, authorization = ""): Promise<Answer> {
  const needs = ROUTES.get(route);
  if (needs === undefined) return { status: 404 };
  const { scope, signIn } = needs;
  const token = /^Bearer +([\w\-.~+/]+=*)$/i.exec(authorization)?.[1];
  // A request without a token gets no error code.
  if (token === undefined) return { status: 401, challenge: "Bearer" };
  const claims = await (token.split(".").length === 3 ? verified(token) : introspected(token));
  // A token with `cnf` is bound to a key, and a Bearer request doesn't prove that it has the key.
  if (claims === undefined || "cnf" in claims)
    return { status: 401, challenge: 'Bearer error="invalid_token"' };
  if (claims.scope?.split(" ").includes(scope) !== true)
    return { status: 403, challenge: `Bearer error="insufficient_scope", scope="${scope}"` };
  if (signIn !== undefined) {
    const { acr, maxAgeSeconds } = signIn;
    const isRecent = Date.now() / 1000 - (claims.auth_time ?? 0) <= maxAgeSeconds;
    const wanted = `acr_values="${acr.join(" ")}", max_age="${maxAgeSeconds}"`;
    if (!isRecent || !acr.includes(claims.acr ?? ""))
      return { status: 401, challenge: `Bearer error="insufficient_user_authentication", ${wanted}` };
  }
  return { status: 200, body: { articles: ["First article"], for: claims.sub } };
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url, headers } = request;
  const answered = await answer(`${method} ${url}`, headers.authorization).catch(() => ({ status: 503 }));
  const { status, challenge, body = {} }: Answer = answered;
  if (challenge !== undefined) response.setHeader("www-authenticate", challenge);
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(body));
}

const server = createServer((request, response) => void respond(request, response));
server.listen(Number(PORT), "127.0.0.1", () => console.log(`Listening on ${PORT}`));
process.once("SIGTERM", () => server.close().closeAllConnections());
