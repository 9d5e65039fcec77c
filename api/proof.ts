/** The proof that a caller has the key to which its token is bound (RFC 9449 sections 4.3 and 7). */
import { createHash } from "node:crypto";
import { calculateJwkThumbprint, EmbeddedJWK, errors, type JWK, jwtVerify } from "jose";

export const PROOF_ALGORITHMS: readonly string[] = ["ES256", "EdDSA", "PS256", "RS256"];

/** How old a proof may be, and how far in the future, in seconds. */
const MAX_AGE = 60;
const MAX_AHEAD = 10;
const MAX_ID_LENGTH = 256;
const MAX_PROOF_LENGTH = 8_192;

/** What a proof has to be about. */
export interface Proved {
  readonly method: string;
  /** The address of the request, without query and fragment. */
  readonly url: string;
  readonly token: string;
}

/** Compared after normalization (RFC 9449 section 4.3): an address has one form with its default port, escapes and dot segments. */
function sameAddress(claimed: unknown, url: string): boolean {
  if (typeof claimed !== "string" || !URL.canParse(claimed)) return false;
  const { origin, pathname } = new URL(claimed);
  return origin + pathname === url;
}

/**
 * The thumbprint of the key that signed the proof; `undefined` if the proof is not one for this request. That it is sent twice is not
 * noticed: method, address, token and a minute bind it.
 */
export async function thumbprintOf(
  proof: string,
  { method, url, token }: Proved,
): Promise<string | undefined> {
  if (proof.length > MAX_PROOF_LENGTH) return undefined;
  try {
    const { payload, protectedHeader } = await jwtVerify(proof, EmbeddedJWK, {
      typ: "dpop+jwt",
      algorithms: [...PROOF_ALGORITHMS],
      requiredClaims: ["jti", "htm", "htu", "iat", "ath"],
    });
    const { jti, htm, htu, iat = 0, ath } = payload;
    const age = Date.now() / 1000 - iat;
    const isProof =
      typeof jti === "string" &&
      jti.length > 0 &&
      jti.length <= MAX_ID_LENGTH &&
      htm === method &&
      sameAddress(htu, url) &&
      age <= MAX_AGE &&
      age >= -MAX_AHEAD &&
      ath === createHash("sha256").update(token).digest("base64url");
    return isProof ? await calculateJwkThumbprint(protectedHeader.jwk as JWK, "sha256") : undefined;
  } catch (error) {
    // What is wrong with a key shows as a TypeError or as an error of Web Cryptography.
    if (error instanceof errors.JOSEError || error instanceof TypeError || error instanceof DOMException)
      return undefined;
    throw error;
  }
}
