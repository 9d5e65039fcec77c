/** The public keys of a client, with which it signs assertions instead of sending a secret (RFC 7523). */
import { createPublicKey } from "node:crypto";
import { ownValue } from "./untrusted-keys.ts";

/** The algorithms of assertions. `Ed25519` (RFC 9864) and `EdDSA` name the same one here. */
export const ASSERTION_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA", "Ed25519"] as const;

/** The algorithms of DPoP proofs, as metadata lists them. */
export const PROOF_ALGORITHMS = ["ES256", "EdDSA", "Ed25519", "PS256", "RS256"] as const;

export const MAX_KEYS = 10;
const MIN_RSA_BITS = 2048;
/** The longest member: a modulus of 16,384 bits in Base64url. */
const MAX_MEMBER_LENGTH = 2_800;

/** The members of each type of key, besides `kty`, and the algorithms that it signs with. */
const KEY_TYPES: Readonly<
  Record<
    string,
    { readonly members: readonly string[]; readonly crv?: string; readonly algorithms: readonly string[] }
  >
> = {
  RSA: { members: ["n", "e"], algorithms: ["RS256", "PS256"] },
  EC: { members: ["crv", "x", "y"], crv: "P-256", algorithms: ["ES256"] },
  OKP: { members: ["crv", "x"], crv: "Ed25519", algorithms: ["EdDSA", "Ed25519"] },
};

/** Whether a client's key verifies signatures of this algorithm. */
export function isKeyFor(key: Readonly<Record<string, unknown>>, algorithm: unknown): boolean {
  const { kty, alg } = key;
  const algorithms = typeof kty === "string" ? (ownValue(KEY_TYPES, kty)?.algorithms ?? []) : [];
  return algorithms.some((each) => each === algorithm) && (alg === undefined || alg === algorithm);
}

/** The members of private and symmetric keys (RFC 7518 section 6). */
const PRIVATE = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"] as const;

/** {@link clientKeyProblem}, as far as its members say it without an import. */
export function clientKeyFormProblem(key: unknown): string | undefined {
  if (typeof key !== "object" || key === null || Array.isArray(key)) return "must be an object";
  if (PRIVATE.some((name) => Object.hasOwn(key, name)))
    return "must be a public key: the private one stays with the client";
  const members = key as Readonly<Record<string, unknown>>;
  const { kty, use, alg, kid } = members;
  const type = typeof kty === "string" && Object.hasOwn(KEY_TYPES, kty) ? KEY_TYPES[kty] : undefined;
  if (type === undefined) return `must be of the type ${Object.keys(KEY_TYPES).join(", ")}`;
  if (type.members.some((name) => !isText(members[name]))) return `must have ${type.members.join(", ")}`;
  if (type.crv !== undefined && members["crv"] !== type.crv) return `must be on the curve ${type.crv}`;
  if (use !== undefined && use !== "sig") return "must be for signatures";
  if (alg !== undefined && !type.algorithms.some((each) => each === alg))
    return `must be for ${type.algorithms.join(" or ")}`;
  return kid !== undefined && !isText(kid) ? "must have a text as kid" : undefined;
}

/** What is wrong with a key, completing "jwks.keys[0] …"; `undefined` if nothing is. */
export function clientKeyProblem(key: unknown): string | undefined {
  const problem = clientKeyFormProblem(key);
  if (problem !== undefined) return problem;
  try {
    const stored = storedClientKey(key as Readonly<Record<string, unknown>>);
    const { asymmetricKeyDetails } = createPublicKey({ format: "jwk", key: stored });
    const bits = asymmetricKeyDetails?.modulusLength;
    return bits !== undefined && bits < MIN_RSA_BITS ? `must have at least ${MIN_RSA_BITS} bits` : undefined;
  } catch {
    return "must be a key";
  }
}

/** The members of a key that are kept. @param key without a {@link clientKeyProblem}. */
export function storedClientKey(key: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const { members = [] } = KEY_TYPES[String(key["kty"])] ?? {};
  return pick(key, [...members, "use", "alg", "kid"]);
}

function pick(key: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, string> {
  const picked = ["kty", ...names].flatMap((name) => (isText(key[name]) ? [[name, key[name]] as const] : []));
  return Object.fromEntries(picked);
}

const isText = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && value.length <= MAX_MEMBER_LENGTH;
