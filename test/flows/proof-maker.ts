/** Makes DPoP proofs (RFC 9449), right and wrong ones. */
import { hash, randomUUID } from "node:crypto";
import { calculateJwkThumbprint, type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";

/** A key with which a client proves who it is. */
export interface ProofKey {
  readonly alg: string;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
  readonly thumbprint: string;
}

export async function newProofKey(alg = "ES256"): Promise<ProofKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = await exportJWK(publicKey);
  return { alg, privateKey, jwk, thumbprint: await calculateJwkThumbprint(jwk) };
}

/** The claim `ath` of a proof that comes with an access token. */
export const athOf = (token: string): string => hash("sha256", token, "base64url");

/** @param claims `htm` and `htu` at least; `undefined` leaves one out. */
export function makeProof(
  { alg, privateKey, jwk }: ProofKey,
  claims: Record<string, unknown>,
  header: Record<string, unknown> = {},
): Promise<string> {
  const iat = Math.floor(Date.now() / 1000);
  return new SignJWT({ jti: randomUUID(), iat, ...claims })
    .setProtectedHeader({ alg, typ: "dpop+jwt", jwk, ...header })
    .sign(privateKey, { crit: { x: false } });
}
