/** Whether an access token is valid, and what it says: JWTs by their signature, opaque ones by introspection. */
import { createHash } from "node:crypto";
import { decodeProtectedHeader, errors, jwtVerify } from "jose";
import { createIssuer, readJson } from "./issuer.ts";

/** The claims of a token, in either form. */
export type Claims = Readonly<Record<string, unknown>>;

/** The client as which an API asks about opaque tokens. */
export interface Introspection {
  /** A client that the `introspection` of the API names. */
  readonly client_id: string;
  readonly client_secret: string;
  /** How long a token that was ended may still work, in seconds: 0 to 10. 0 asks for each request. Default: 5. */
  readonly cache_seconds?: number;
}

const MAX_CACHE_SECONDS = 10;
const DEFAULT_CACHE_SECONDS = 5;
const MAX_CACHED = 10_000;

/** What a JWT of an API has besides `iss`, `aud` and `typ` (RFC 9068 section 2.2). */
const REQUIRED = ["exp", "iat", "sub", "client_id", "jti"];

/** These say that the keys could not be read, not that the token is wrong. */
const UNREADABLE: ReadonlySet<string> = new Set(["ERR_JWKS_TIMEOUT", "ERR_JOSE_GENERIC", "ERR_JWKS_INVALID"]);

function isJwt(token: string): boolean {
  if (token.split(".").length !== 3) return false;
  try {
    return decodeProtectedHeader(token).alg !== undefined;
  } catch {
    return false;
  }
}

export interface Tokens {
  /**
   * The claims of a valid token for this API; otherwise `undefined`.
   * @throws when nobody can say whether it is valid.
   */
  claims(token: string): Promise<Claims | undefined>;
}

export function createTokens(
  issuer: string,
  resource: string,
  introspection: Introspection | undefined,
): Tokens {
  const about = createIssuer(issuer);

  async function verified(token: string): Promise<Claims | undefined> {
    const { algorithms, keys } = await about();
    try {
      const { payload } = await jwtVerify(token, keys, {
        issuer,
        typ: "at+jwt",
        algorithms: [...algorithms],
        requiredClaims: REQUIRED,
      });
      // A list of audiences is a token for others as well.
      return payload.aud === resource ? payload : undefined;
    } catch (error) {
      if (!(error instanceof errors.JOSEError) || UNREADABLE.has(error.code)) throw error;
      return undefined;
    }
  }

  const introspected = introspection && createIntrospection(issuer, resource, introspection, about);
  return {
    async claims(token) {
      if (isJwt(token)) return verified(token);
      return introspected?.(token);
    },
  };
}

/** By the hashes of tokens. The tokens themselves are not kept. */
function createIntrospection(
  issuer: string,
  resource: string,
  { client_id, client_secret, cache_seconds = DEFAULT_CACHE_SECONDS }: Introspection,
  about: ReturnType<typeof createIssuer>,
): (token: string) => Promise<Claims | undefined> {
  if (!(cache_seconds >= 0 && cache_seconds <= MAX_CACHE_SECONDS))
    throw new RangeError(`introspection.cache_seconds must be between 0 and ${MAX_CACHE_SECONDS}`);
  const known = new Map<string, { readonly claims: Claims; readonly until: number }>();
  const running = new Map<string, Promise<Claims | undefined>>();
  // RFC 6749 section 2.3.1 encodes both as forms do.
  const encoded = [client_id, client_secret].map((text) =>
    new URLSearchParams({ _: text }).toString().slice(2),
  );
  const authorization = `Basic ${Buffer.from(encoded.join(":")).toString("base64")}`;

  async function ask(token: string): Promise<Claims | undefined> {
    const { introspectionEndpoint } = await about();
    if (introspectionEndpoint === undefined) throw new Error(`${issuer} offers no introspection`);
    const claims = await readJson(introspectionEndpoint, {
      method: "POST",
      headers: { authorization },
      body: new URLSearchParams({ token }),
    });
    const { active, aud, iss, exp } = claims;
    if (active !== true || aud !== resource || iss !== issuer) return undefined;
    return typeof exp === "number" && exp * 1000 > Date.now() ? claims : undefined;
  }

  async function asked(key: string, token: string): Promise<Claims | undefined> {
    const claims = await ask(token);
    if (claims === undefined || cache_seconds === 0) return claims;
    const [oldest] = known.keys();
    if (known.size >= MAX_CACHED && oldest !== undefined) known.delete(oldest);
    const until = Math.min(Date.now() + cache_seconds * 1000, Number(claims["exp"]) * 1000);
    known.set(key, { claims, until });
    return claims;
  }

  return (token) => {
    const key = createHash("sha256").update(token).digest("base64url");
    const found = known.get(key);
    if (found !== undefined && found.until > Date.now()) return Promise.resolve(found.claims);
    known.delete(key);
    if (cache_seconds === 0) return ask(token);
    const current = running.get(key) ?? asked(key, token).finally(() => running.delete(key));
    running.set(key, current);
    return current;
  };
}
