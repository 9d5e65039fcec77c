/** Checks the requests that an API receives, and tells clients where to get a token. */
import type { IncomingMessage } from "node:http";
import { PROOF_ALGORITHMS } from "../core/client-keys.ts";
import { checkProof, type ProofRules } from "../core/dpop-proof.ts";
import { AccessError, challenge } from "./access-error.ts";
import { type Claims, createTokens, type Introspection } from "./tokens.ts";

export interface ApiOptions {
  /** The URL of the `openid` deployment of the service, such as `https://login.example.com/openid`. */
  readonly issuer: string;
  /** The identifier of this API in the directory of the service: the `resource` that clients send and the `aud` of tokens. */
  readonly resource: string;
  /** Needed for opaque tokens. Without it, only JWTs are valid. */
  readonly introspection?: Introspection;
  /** Scopes of this API that clients can ask for, for its metadata (RFC 9728). Default: none are named. */
  readonly scopes?: readonly string[];
  /** The name of this API for people, in its metadata. */
  readonly name?: string;
}

/** What a request needs besides a valid token. */
export interface Needs {
  /** A scope, or several that are all needed. */
  readonly scope?: string | readonly string[];
  /** A role, or several of which one is enough. Machines have none. */
  readonly role?: string | readonly string[];
  /** How the person has to have signed in: one of these values of `acr`. Machines have none. */
  readonly acr?: string | readonly string[];
  /** How long ago the person may have signed in, in seconds. */
  readonly max_age?: number;
}

/** A request of Node or of the Web. Of a request of Express, `originalUrl` counts, which has the whole path. */
export type ApiRequest = Request | (IncomingMessage & { readonly originalUrl?: string });

/** Who calls, and what they may do. */
export interface Access {
  /** The person's `sub`; for a machine, its `client_id`. */
  readonly sub: string;
  readonly client_id: string;
  /** Whether a client acts on its own behalf. */
  readonly isMachine: boolean;
  readonly scopes: ReadonlySet<string>;
  /** The roles of the person in the service of this API. */
  readonly roles: ReadonlySet<string>;
  /** When the token ends, in seconds since the epoch. */
  readonly expires_at: number;
  /** How the person signed in. */
  readonly acr: string | undefined;
  /** When the person signed in, in seconds since the epoch. */
  readonly auth_time: number | undefined;
  /** Everything that the token says. */
  readonly claims: Readonly<Record<string, unknown>>;
}

export interface Api {
  /**
   * Who calls. The token is never passed on.
   * @throws AccessError with the status and the headers of the response.
   */
  verify(request: ApiRequest, needs?: Needs): Promise<Access>;
  /** Where clients look for {@link metadata}: `/.well-known/oauth-protected-resource`, with the path of the identifier behind it. */
  readonly metadataPath: string;
  /** What clients need to know about this API before they have a token (RFC 9728). */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** The response to a request for the metadata, readable from every origin; `undefined` for other requests. */
  metadataResponse(request: ApiRequest): Response | undefined;
}

const WELL_KNOWN = "/.well-known/oauth-protected-resource";
/** RFC 6750 section 2.1 and RFC 9449 section 7.1. */
const SCHEME = /^(?:Bearer|DPoP)(?: |$)/i;
const CREDENTIALS = /^(?:Bearer|DPoP) +(?<token>[\w\-.~+/]+=*)$/i;
const MAX_TOKEN_LENGTH = 8_192;

const listOf = (values: string | readonly string[] = []): readonly string[] =>
  typeof values === "string" ? [values] : values;

const isWeb = (request: ApiRequest): request is Request => request.headers instanceof Headers;

/** The values of a header that may be sent only once. */
function valuesOf(request: ApiRequest, name: string): readonly string[] {
  if (!isWeb(request)) return request.headersDistinct[name] ?? [];
  const value = request.headers.get(name);
  return value === null ? [] : [value];
}

/** Path and query, as the caller sent them. */
function targetOf(request: ApiRequest): string {
  if (!isWeb(request)) return request.originalUrl ?? request.url ?? "/";
  const { pathname, search } = new URL(request.url);
  return pathname + search;
}

function identifier(name: string, value: string): URL {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (
    url === undefined ||
    !/^https?:$/.test(url.protocol) ||
    url.hash !== "" ||
    url.username + url.password !== ""
  )
    throw new TypeError(`${name} must be an https URL without a fragment and without credentials`);
  return url;
}

function accessOf(claims: Claims): Access {
  const { sub, client_id, scope, roles, exp, acr, auth_time } = claims;
  return {
    sub: String(sub),
    client_id: String(client_id),
    isMachine: sub === client_id,
    scopes: new Set(typeof scope === "string" ? scope.split(" ").filter(Boolean) : []),
    roles: new Set(Array.isArray(roles) ? roles.map(String) : []),
    expires_at: Number(exp),
    acr: typeof acr === "string" ? acr : undefined,
    auth_time: typeof auth_time === "number" ? auth_time : undefined,
    claims,
  };
}

/**
 * Makes the checks of an API.
 * @throws TypeError or RangeError for options that can't work.
 */
export function createApi({ issuer, resource, introspection, scopes, name }: ApiOptions): Api {
  identifier("issuer", issuer);
  const { origin, pathname, search } = identifier("resource", resource);
  const tokens = createTokens(issuer, resource, introspection);
  const metadataPath = WELL_KNOWN + (pathname === "/" ? "" : pathname);
  const resource_metadata = origin + metadataPath + search;
  const metadata = {
    resource,
    authorization_servers: [issuer],
    bearer_methods_supported: ["header"],
    dpop_signing_alg_values_supported: PROOF_ALGORITHMS,
    ...(scopes !== undefined && { scopes_supported: scopes }),
    ...(name !== undefined && { resource_name: name }),
  };

  function refused(
    status: 400 | 401 | 403,
    error: string,
    scheme: "Bearer" | "DPoP" = "Bearer",
    values: Readonly<Record<string, string | undefined>> = {},
  ): AccessError {
    const algs = scheme === "DPoP" ? PROOF_ALGORITHMS.join(" ") : undefined;
    const authenticate = [challenge(scheme, { error, ...values, algs, resource_metadata })];
    return new AccessError(status, error, { authenticate });
  }

  /** Joined as texts, because `//host/path` is a path here, and a host in a relative URL. */
  const addressOf = (request: ApiRequest): URL | undefined =>
    URL.parse(origin + targetOf(request)) ?? undefined;

  const wrongProof = (): AccessError => refused(401, "invalid_dpop_proof", "DPoP");
  // An API gives no nonces: method, address, token and a minute bind a proof.
  const rules: ProofRules = {
    keys: new Map(),
    refused: wrongProof,
    nonceNeeded: wrongProof,
    tooDeep: wrongProof,
  };

  /** The request shows that its caller has the key of the token. */
  function requireProof(request: ApiRequest, token: string, jkt: unknown): void {
    const [proof, ...others] = valuesOf(request, "dpop");
    // Not the Host of the request, which its caller chooses.
    const url = addressOf(request);
    if (proof === undefined || others.length > 0 || url === undefined) throw wrongProof();
    const method = request.method ?? "";
    const address = origin + url.pathname;
    const { thumbprint } = checkProof(proof, { method, address, token, needsNonce: false }, rules);
    if (thumbprint !== jkt) throw wrongProof();
  }

  function requireNeeds(
    { scopes: has, roles, acr, auth_time }: Access,
    needs: Needs,
    scheme: "Bearer" | "DPoP",
  ): void {
    const wanted = listOf(needs.scope);
    if (!wanted.every((each) => has.has(each)))
      throw refused(403, "insufficient_scope", scheme, { scope: wanted.join(" ") });
    const anyRole = listOf(needs.role);
    // A new token would have the same roles.
    if (anyRole.length > 0 && !anyRole.some((each) => roles.has(each)))
      throw new AccessError(403, "the person has none of the roles");
    const { max_age } = needs;
    const anyAcr = listOf(needs.acr);
    const isStrong = anyAcr.length === 0 || anyAcr.includes(acr ?? "");
    const isRecent = max_age === undefined || Date.now() / 1000 - (auth_time ?? 0) <= max_age;
    if (!isStrong || !isRecent)
      throw refused(401, "insufficient_user_authentication", scheme, {
        acr_values: anyAcr.length === 0 ? undefined : anyAcr.join(" "),
        max_age: max_age?.toString(),
      });
  }

  return {
    metadataPath,
    metadata,
    async verify(request, needs = {}) {
      const [authorization = "", ...others] = valuesOf(request, "authorization");
      const scope = listOf(needs.scope).join(" ") || undefined;
      // A request without a token gets no error code (RFC 6750 section 3.1).
      if (!SCHEME.test(authorization))
        throw new AccessError(401, "the request has no token", {
          authenticate: [challenge("Bearer", { resource_metadata, scope })],
        });
      const { token = "" } = CREDENTIALS.exec(authorization)?.groups ?? {};
      const scheme = /^dpop/i.test(authorization) ? "DPoP" : "Bearer";
      if (others.length > 0 || token === "" || token.length > MAX_TOKEN_LENGTH)
        throw refused(400, "invalid_request", scheme);
      const claims = await tokens.claims(token).catch((cause: unknown) => {
        throw new AccessError(503, "the service could not be asked about a token", { cause });
      });
      if (claims === undefined) throw refused(401, "invalid_token", scheme);
      const { cnf } = claims;
      const jkt: unknown = Object(cnf)["jkt"];
      // A bound token proves nothing as Bearer, and an unbound one nothing as DPoP.
      if (scheme === "Bearer" ? cnf !== undefined : jkt === undefined)
        throw refused(401, "invalid_token", scheme);
      if (scheme === "DPoP") requireProof(request, token, jkt);
      const access = accessOf(claims);
      requireNeeds(access, needs, scheme);
      return access;
    },
    metadataResponse(request) {
      if (addressOf(request)?.pathname !== metadataPath) return undefined;
      const headers = { "access-control-allow-origin": "*", "cache-control": "public, max-age=3600" };
      if (request.method === "OPTIONS") {
        const asked = { "access-control-allow-methods": "GET", "access-control-allow-headers": "*" };
        return new Response(null, { status: 204, headers: { ...headers, ...asked } });
      }
      if (request.method !== "GET" && request.method !== "HEAD")
        return new Response(null, { status: 405, headers: { ...headers, allow: "GET" } });
      return Response.json(metadata, { headers });
    },
  };
}
