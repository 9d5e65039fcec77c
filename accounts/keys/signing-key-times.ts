/**
 * When a signing key is published, signs and is retired. Each algorithm has its own keys, one of which signs. The state
 * of a key follows from its stored times, so no process has to act at these times. Times are seconds since the epoch.
 */
import type { SigningKeyRecord } from "../../records/signing-key-store.ts";

/** `published`: in the JWKS, signs later. `signing`: signs. `retired`: no longer signs; its signatures are still valid. */
export type SigningKeyState = "published" | "signing" | "retired";

type Keys = readonly SigningKeyRecord[];

/** Between publishing a key and signing with it: clients cache the JWKS for that long. */
const LEAD_SECONDS = 3600;

/**
 * The key that signs with an algorithm: the first that is not retired. `signs_from` is ignored, because the clock of
 * the process that made the key may be fast.
 */
export function signingKey(keys: Keys, alg: string, now: number): SigningKeyRecord | undefined {
  return keys.find((key) => key.alg === alg && now < (key.retires_at ?? Infinity));
}

export function stateOf(key: SigningKeyRecord, keys: Keys, now: number): SigningKeyState {
  if (key === signingKey(keys, key.alg, now)) return "signing";
  return now < key.signs_from ? "published" : "retired";
}

/**
 * When a key leaves the JWKS; `null` while that is not known.
 * @param usable seconds for which a signed token can be used.
 */
export function publishedUntil({ retires_at }: SigningKeyRecord, usable: number): number | null {
  return retires_at === null ? null : retires_at + usable;
}

/** The keys that have not left the JWKS. */
export function stillPublished(keys: Keys, now: number, usable: number): Keys {
  return keys.filter((key) => now < (publishedUntil(key, usable) ?? Infinity));
}

/** The keys in the JWKS, the signing ones first, and the time until which this holds. */
export function keysInForce(
  keys: Keys,
  now: number,
  usable: number,
): { readonly keys: Keys; readonly until: number } {
  const published = stillPublished(keys, now, usable);
  const signing = published.filter((key) => stateOf(key, keys, now) === "signing");
  const others = published.filter((key) => !signing.includes(key));
  const times = keys.flatMap((key) => [key.signs_from, publishedUntil(key, usable) ?? Infinity]);
  return {
    keys: [...signing, ...others],
    until: Math.min(...times.filter((time) => now < time), Infinity),
  };
}

/** The published key that will sign with an algorithm next, if there is one. */
export function nextKey(keys: Keys, alg: string, now: number): SigningKeyRecord | undefined {
  return keys.find((key) => key.alg === alg && stateOf(key, keys, now) === "published");
}

/** Whether the newest key of an algorithm is at least `every` seconds old, and no other key waits to sign. */
export function isRotationDue(keys: Keys, alg: string, now: number, every: number | undefined): boolean {
  const newest = keys.findLast((key) => key.alg === alg);
  if (every === undefined || newest === undefined || nextKey(keys, alg, now) !== undefined) return false;
  return newest.published_at + every <= now;
}

/** A key without its times. */
export type NewSigningKey = Pick<SigningKeyRecord, "kid" | "alg" | "sealed">;

/** The first key of an algorithm: it signs immediately. */
export function firstKey(key: NewSigningKey, now: number): SigningKeyRecord {
  return { ...key, published_at: now, signs_from: now, retires_at: null };
}

/** The keys with a new one that takes over from the signing key. */
export function withNext(keys: Keys, fresh: NewSigningKey, now: number): Keys {
  const takesOver = now + LEAD_SECONDS;
  const signing = signingKey(keys, fresh.alg, now);
  const before = signing === undefined ? keys : replaced(keys, { ...signing, retires_at: takesOver });
  return [...before, { ...fresh, published_at: now, signs_from: takesOver, retires_at: null }];
}

/**
 * The keys without a compromised one. If it signs, the next key signs immediately; if it is the next key, the signing key
 * stays.
 * @param makeKey makes a replacement if it signs and there is no next key.
 */
export async function without(
  keys: Keys,
  gone: SigningKeyRecord,
  now: number,
  makeKey: (alg: string) => Promise<NewSigningKey>,
): Promise<Keys> {
  const rest = keys.filter((key) => key !== gone);
  const signing = signingKey(keys, gone.alg, now);
  const next = nextKey(keys, gone.alg, now);
  if (signing !== undefined && next === gone) return replaced(rest, { ...signing, retires_at: null });
  if (signing !== gone) return rest;
  if (next !== undefined) return replaced(rest, { ...next, signs_from: now });
  return [...rest, firstKey(await makeKey(gone.alg), now)];
}

function replaced(keys: Keys, changed: SigningKeyRecord): Keys {
  return keys.map((key) => (key.kid === changed.kid ? changed : key));
}
