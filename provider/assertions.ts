/**
 * The claims of a client's assertion (`private_key_jwt`, RFC 7523). oidc-provider checks the algorithm, the signature, `iss`,
 * `sub` and `nbf`, and that the assertion is used once. The rules here go further (decisions.md, `private_key_jwt`).
 */
import { errors, type KoaContextWithOIDC } from "oidc-provider";
import type { Deployment } from "../config/configuration.ts";
import { usedProof } from "./patches.ts";

/**
 * Verifies the DPoP proof of a token request before anything is used up: a missing, wrong or repeated one spends no code and no
 * refresh token, and ends nothing (decisions.md, DPoP).
 * @param boundTo the thumbprint of the key that the code or token is bound to.
 * @returns the thumbprint of the proof's key; `undefined` without a proof.
 */
export async function requireProof(ctx: KoaContextWithOIDC, boundTo: unknown): Promise<string | undefined> {
  const thumbprint = await usedProof(ctx);
  if (boundTo !== undefined && thumbprint !== boundTo)
    throw new errors.InvalidGrant("the request needs a DPoP proof with the key that the grant is bound to");
  return thumbprint;
}

/** Clocks of clients may differ by this much. */
export const ASSERTION_TOLERANCE_SECONDS = 10;

/** An assertion is made for one request. One that lives longer would be a secret sent over the network. */
const MAX_SECONDS = 300;
const MAX_JTI_LENGTH = 512;

const refused = (detail: string): Error => new errors.InvalidClientAuth(detail);

/**
 * Whom an assertion may be for: the token endpoint of the deployment, also at its other endpoints, or on `openid` the
 * issuer. One that was made for another server, or for another endpoint here, is useless to anybody who gets hold of
 * it.
 */
function audiencesOf({ kind, url }: Deployment): readonly string[] {
  return [`${url}/oauth2/token`, ...(kind === "openid" ? [url] : [])];
}

/**
 * Times that clients sign are compared with the system's clock.
 * @throws InvalidClientAuth for a wrong claim.
 */
export function checkAssertion(claims: Readonly<Record<string, unknown>>, deployment: Deployment): void {
  const { aud, iat, exp, jti } = claims;
  const now = Math.floor(Date.now() / 1000);
  if (typeof aud !== "string" || !audiencesOf(deployment).includes(aud))
    throw refused("aud must be one string: the token endpoint or the issuer");
  if (typeof jti !== "string" || jti === "" || jti.length > MAX_JTI_LENGTH) throw refused("jti is malformed");
  if (typeof iat !== "number" || typeof exp !== "number") throw refused("iat and exp are required");
  if (iat > now + ASSERTION_TOLERANCE_SECONDS) throw refused("iat is in the future");
  if (iat < now - MAX_SECONDS - ASSERTION_TOLERANCE_SECONDS) throw refused("iat is too old");
  if (exp <= now) throw refused("exp is past");
  if (exp > now + MAX_SECONDS) throw refused("exp is too far ahead");
}
