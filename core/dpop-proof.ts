/**
 * What a DPoP proof has to say (RFC 9449 section 4.3), in one pass without I/O. The service loads it with the first proof, and
 * `sign-in-service/api` checks by it, too: it loads nothing else of the service.
 */
import { constants, createPublicKey, hash, type KeyObject, verify } from "node:crypto";
import { clientKeyFormProblem, clientKeyProblem, isKeyFor } from "./client-keys.ts";
import { isObject, isTooDeep, MAX_JSON_LEVELS } from "./untrusted-json.ts";

/** As long as all headers of a request may be. */
const MAX_LENGTH = 16_384;
const MAX_JTI_LENGTH = 256;
/** Whoever sends a proof chooses the key: a larger one would only cost time. */
const MAX_RSA_BITS = 4_096;
const MAX_RSA_MEMBER = Math.ceil((MAX_RSA_BITS / 8) * (4 / 3));
const MAX_EXPONENT_MEMBER = 8;

/** Without a nonce, a proof may be this old. */
const MAX_AGE_SECONDS = 60;
/** The clock of whoever made it may be ahead by this. */
const MAX_AHEAD_SECONDS = 10;

/** The request that a proof is for. */
export interface ProvedRequest {
  readonly method: string;
  /** The address of the endpoint, without a query. */
  readonly address: string;
  /** The access token that comes with it. */
  readonly token?: string | undefined;
  /** Whether a proof without a nonce is refused. */
  readonly needsNonce: boolean;
}

/** A proof that was found right. */
export interface Proof {
  /** The SHA-256 thumbprint of its key (RFC 7638). */
  readonly thumbprint: string;
  readonly jti: string;
  readonly nonce?: string;
}

type Members = Readonly<Record<string, unknown>>;

/**
 * Keys that were imported, by thumbprint: a client has one for long, and the import takes half as long as a signature. What
 * stands for a key is all of it, so nobody else can have its thumbprint.
 */
export type ImportedKeys = Map<string, KeyObject>;

const MAX_KEYS = 1_000;

/** What differs between those who check proofs. */
export interface ProofRules {
  /** The latest last. */
  readonly keys: ImportedKeys;
  /** Whether whoever checks has made the nonce a short time ago. Without it, nonces say nothing. */
  readonly isNonce?: (nonce: string) => boolean;
  /** The error for a proof that is wrong. */
  refused(what: string): Error;
  /** The error for a proof that needs a nonce, or another one. */
  nonceNeeded(what: string): Error;
  /** The error for JSON that is nested too deep. */
  tooDeep(what: string): Error;
}

/** @throws what the rules make of it. */
export function checkProof(
  sent: string,
  { method, address, token, needsNonce }: ProvedRequest,
  rules: ProofRules,
): Proof {
  const { keys, isNonce } = rules;
  const refuse = (what: string): Error => rules.refused(what);
  const { header, claims, signed, signature } = parsed(sent, rules);
  const { jti, htm, htu, ath, iat, nonce } = claims;
  if (typeof jti !== "string" || jti === "" || jti.length > MAX_JTI_LENGTH) throw refuse("jti");
  if (htm !== method) throw refuse("htm");
  if (typeof htu !== "string" || withoutQuery(htu) !== withoutQuery(address)) throw refuse("htu");
  if (token !== undefined && ath !== hash("sha256", token, "base64url")) throw refuse("ath");
  if (typeof iat !== "number") throw refuse("iat");
  if (nonce !== undefined && typeof nonce !== "string") throw refuse("nonce");
  // Times that clients sign are compared with the system's clock.
  const now = Date.now() / 1000;
  if (!isUnset(claims["exp"]) && !(Number(claims["exp"]) > now)) throw refuse("exp");
  if (!isUnset(claims["nbf"]) && !(Number(claims["nbf"]) <= now + MAX_AHEAD_SECONDS)) throw refuse("nbf");
  const jwk = keyOf(header, rules);
  const thumbprint = thumbprintOf(jwk);
  const key = keys.get(thumbprint) ?? imported(jwk, rules);
  if (!isSigned(header["alg"], key, signed, signature)) throw refuse("signature");
  keep(keys, thumbprint, key);
  if (nonce !== undefined && isNonce !== undefined) {
    if (!isNonce(nonce)) throw rules.nonceNeeded("the nonce of the DPoP proof is too old or unknown");
  } else if (needsNonce || iat < now - MAX_AGE_SECONDS || iat > now + MAX_AHEAD_SECONDS)
    throw rules.nonceNeeded("the DPoP proof needs a nonce");
  return { thumbprint, jti, ...(nonce !== undefined && { nonce }) };
}

const isUnset = (value: unknown): boolean => value === undefined;

interface ParsedProof {
  readonly header: Members;
  readonly claims: Members;
  readonly signed: string;
  readonly signature: Buffer;
}

/** Two headers arrive as one with a comma, which is no proof. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;

function parsed(sent: string, rules: ProofRules): ParsedProof {
  if (sent.length > MAX_LENGTH || !COMPACT.test(sent)) throw rules.refused("form");
  const [first = "", second = "", third = ""] = sent.split(".");
  const header = objectIn(first, rules);
  const claims = objectIn(second, rules);
  if (header === undefined || claims === undefined) throw rules.refused("form");
  // No extension is understood here (RFC 7515 section 4.1.11).
  if (header["crit"] !== undefined || header["typ"] !== "dpop+jwt") throw rules.refused("form");
  return { header, claims, signed: `${first}.${second}`, signature: Buffer.from(third, "base64url") };
}

function objectIn(part: string, rules: ProofRules): Members | undefined {
  let found: unknown;
  try {
    found = JSON.parse(Buffer.from(part, "base64url").toString());
  } catch {
    return undefined;
  }
  if (isTooDeep(found)) throw rules.tooDeep(`a JWT is nested deeper than ${MAX_JSON_LEVELS} levels`);
  return isObject(found) ? found : undefined;
}

/** The address without query and fragment (RFC 9449 section 4.2), as URLs are compared; `undefined` if it is none. */
function withoutQuery(address: string): string | undefined {
  const url = URL.parse(address);
  if (url === null) return undefined;
  url.search = "";
  url.hash = "";
  return url.href;
}

/** The public key in the header. */
function keyOf({ jwk, alg }: Members, rules: ProofRules): Readonly<Record<string, string>> {
  if (!isObject(jwk) || !isKeyFor(jwk, alg) || clientKeyFormProblem(jwk) !== undefined)
    throw rules.refused("jwk");
  const key = jwk as Readonly<Record<string, string>>;
  const { n = "", e = "" } = key;
  if (n.length > MAX_RSA_MEMBER || e.length > MAX_EXPONENT_MEMBER) throw rules.refused("jwk");
  return key;
}

/** Only after all of it was checked: it is a point of the curve, or long enough. */
function imported(jwk: Readonly<Record<string, string>>, rules: ProofRules): KeyObject {
  if (clientKeyProblem(jwk) !== undefined) throw rules.refused("jwk");
  return createPublicKey({ format: "jwk", key: jwk });
}

function keep(keys: ImportedKeys, thumbprint: string, key: KeyObject): void {
  if (keys.has(thumbprint)) return;
  const [oldest] = keys.keys();
  if (oldest !== undefined && keys.size >= MAX_KEYS) keys.delete(oldest);
  keys.set(thumbprint, key);
}

const isSignedWithEd25519 = (key: KeyObject, signed: Buffer, signature: Buffer): boolean =>
  verify(null, signed, key, signature);

/** How each algorithm verifies a signature (RFC 7518 section 3, RFC 8037 section 3.1, RFC 9864 section 2.2). */
const VERIFY: Readonly<Record<string, (key: KeyObject, signed: Buffer, signature: Buffer) => boolean>> = {
  ES256: (key, signed, signature) => verify("sha256", signed, { key, dsaEncoding: "ieee-p1363" }, signature),
  EdDSA: isSignedWithEd25519,
  Ed25519: isSignedWithEd25519,
  PS256: (key, signed, signature) =>
    verify("sha256", signed, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }, signature),
  RS256: (key, signed, signature) => verify("sha256", signed, key, signature),
};

/** Whether the key has signed it. The algorithm fits the key. */
function isSigned(alg: unknown, key: KeyObject, signed: string, signature: Buffer): boolean {
  return VERIFY[String(alg)]?.(key, Buffer.from(signed), signature) ?? false;
}

/** RFC 7638 section 3. */
function thumbprintOf({ kty, crv, x, y, n, e }: Readonly<Record<string, string>>): string {
  const members = kty === "RSA" ? { e, kty, n } : { crv, kty, x, ...(kty === "EC" && { y }) };
  return hash("sha256", JSON.stringify(members), "base64url");
}
