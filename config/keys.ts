/** What counts as a key. */
import { createPrivateKey } from "node:crypto";
import { isPlainObject } from "./snapshot.ts";

/** Bytes of one key of `keys.secrets`: AES-256. */
export const SECRET_BYTES = 32;

/** Whether this is 32 bytes in Base64 or Base64url, padded or not. */
export function isSecret(text: string): boolean {
  return /^(?:[A-Za-z0-9+/]{43}|[A-Za-z0-9_-]{43})=?$/u.test(text);
}

const MIN_RSA_BITS = 2048;
const CURVES: ReadonlySet<unknown> = new Set(["P-256", "P-384", "P-521", "Ed25519"]);

/**
 * Whether this is a private key that can sign ID tokens, as a JWK (RFC 7517): RSA of at least 2048 bits,
 * EC on P-256, P-384 or P-521, or Ed25519; `use`, if there is one, is `sig`.
 */
export function isSigningKey(value: unknown): boolean {
  if (!isPlainObject(value)) return false;
  if (value["use"] !== undefined && value["use"] !== "sig") return false;
  if (value["kid"] !== undefined && (typeof value["kid"] !== "string" || value["kid"] === "")) return false;
  if (value["kty"] !== "RSA" && !CURVES.has(value["crv"])) return false;
  try {
    const key = createPrivateKey({ key: value, format: "jwk" });
    return value["kty"] !== "RSA" || (key.asymmetricKeyDetails?.modulusLength ?? 0) >= MIN_RSA_BITS;
  } catch {
    return false;
  }
}
