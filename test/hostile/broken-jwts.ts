/** JWTs that nobody should accept, made from one that is good: twelve ways to break the token, eight to lie in it. */
import { createHmac } from "node:crypto";
import { exportJWK, exportSPKI, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";

/** The service's own signing key, so that the tests can sign as the service does. */
export interface SigningKey {
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly publicKey: CryptoKey;
  /** For `keys.signing`. */
  readonly jwk: JWK;
}

export async function newSigningKey(): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
  const kid = "of-the-tests";
  return {
    kid,
    privateKey,
    publicKey,
    jwk: { ...(await exportJWK(privateKey)), kid, alg: "RS256", use: "sig" },
  };
}

/** What a good ID token of the service says. */
export interface GoodClaims {
  readonly iss: string;
  readonly aud: string;
  readonly sub: string;
}

/** A name for what is wrong, and the token. */
export type BrokenJwt = readonly [what: string, token: string];

const encoded = (part: unknown): string =>
  Buffer.from(typeof part === "string" ? part : JSON.stringify(part)).toString("base64url");

/** Every broken token; none is longer than what fits into a request line. */
export async function brokenJwts(key: SigningKey, claims: GoodClaims): Promise<readonly BrokenJwt[]> {
  const now = Math.floor(Date.now() / 1000);
  const good: JWTPayload = { ...claims, iat: now, exp: now + 3600 };
  const header = { alg: "RS256", kid: key.kid };
  const signed = (payload: object): Promise<string> =>
    new SignJWT(payload as JWTPayload).setProtectedHeader(header).sign(key.privateKey);
  const whole = await signed(good);
  const [head = "", body = "", signature = ""] = whole.split(".");
  const hmacInput = `${encoded({ ...header, alg: "HS256" })}.${body}`;
  const publicPem = await exportSPKI(key.publicKey);
  const hmac = createHmac("sha256", publicPem).update(hmacInput).digest("base64url");
  const { aud: _aud, ...withoutAudience } = good;
  const { sub: _sub, ...withoutSubject } = good;

  return [
    // Broken tokens.
    ["alg none", `${encoded({ alg: "none" })}.${body}.`],
    ["alg none, no aud", `${encoded({ alg: "none" })}.${encoded(withoutAudience)}.`],
    ["empty signature", `${head}.${body}.`],
    ["wrong kid", `${encoded({ ...header, kid: "unknown" })}.${body}.${signature}`],
    ["kid is an object", `${encoded({ ...header, kid: { $gt: "" } })}.${body}.${signature}`],
    ["unknown alg", `${encoded({ ...header, alg: "XX999" })}.${body}.${signature}`],
    ["alg is a number", `${encoded({ ...header, alg: 256 })}.${body}.${signature}`],
    ["no alg", `${encoded({ kid: key.kid })}.${body}.${signature}`],
    ["HS256 with the public key", `${hmacInput}.${hmac}`],
    ["truncated", whole.slice(0, -20)],
    ["not Base64", `${head}.${body}.!!!~~~`],
    ["header not Base64", `%%%.${body}.${signature}`],
    ["header an array", `${encoded([])}.${body}.${signature}`],
    ["header null", `${encoded(null)}.${body}.${signature}`],
    ["payload not JSON", `${head}.${encoded("not JSON")}.${signature}`],
    ["payload an array", `${head}.${encoded([1, 2])}.${signature}`],
    ["payload a number", `${head}.${encoded(7)}.${signature}`],
    ["payload null", `${head}.${encoded(null)}.${signature}`],
    ["one part", head],
    ["two parts", `${head}.${body}`],
    ["empty parts", ".."],
    ["five parts, as if encrypted", `${encoded({ alg: "dir", enc: "A256GCM" })}.....`.slice(0, -1)],
    ["huge", `${head}.${encoded({ ...good, filler: "x".repeat(8_000) })}.${signature}`],
    // Signed by the service's own key, and never issued by it.
    ["expired", await signed({ ...good, iat: now - 7200, exp: now - 3600 })],
    ["foreign issuer", await signed({ ...good, iss: "https://evil.example" })],
    ["unknown client", await signed({ ...good, aud: "nobody" })],
    ["name of an object", await signed({ ...good, aud: "__proto__" })],
    ["no aud", await signed(withoutAudience)],
    ["aud a number", await signed({ ...good, aud: 7 })],
    ["aud an empty list", await signed({ ...good, aud: [] })],
    ["no sub", await signed(withoutSubject)],
    ["sub an object", await signed({ ...good, sub: { $ne: null } })],
  ];
}
