/**
 * When a signing key is published, signs and is retired (decisions.md, Signing keys). Each algorithm has keys of its own,
 * one of which signs. Everything follows from the times that a key is kept with, so no process has to do anything at
 * those times. All times are seconds since the epoch.
 */
import type { SigningKeyRecord } from "../keys/signing-key-store.ts";

/** `published`: in the JWKS, signs later. `signing`: signs. `retired`: signs no more, what it has signed still counts. */
export type SigningKeyState = "published" | "signing" | "retired";

type Keys = readonly SigningKeyRecord[];

/** Seconds between publishing a key and signing with it: clients keep the JWKS for as long. */
export const LEAD = 3600;

/**
 * The key that signs with an algorithm: the first that is not retired. The clock of the process that made it may be ahead
 * of this one, so `signs_from` does not count.
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
 * @param usable seconds for which something that it signed last may be presented.
 */
export function publishedUntil({ retires_at }: SigningKeyRecord, usable: number): number | null {
  return retires_at === null ? null : retires_at + usable;
}

/** Without those that have left the JWKS. */
export function stillPublished(keys: Keys, now: number, usable: number): Keys {
  return keys.filter((key) => now < (publishedUntil(key, usable) ?? Infinity));
}

/** What the JWKS has at this time, the keys that sign first, and the time at which that may be different. */
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

/** The key that is published and waits to sign with an algorithm, if there is one. */
export function nextKey(keys: Keys, alg: string, now: number): SigningKeyRecord | undefined {
  return keys.find((key) => key.alg === alg && stateOf(key, keys, now) === "published");
}

/** Whether the newest key of an algorithm is this old, and no other one waits to sign. */
export function isRotationDue(keys: Keys, alg: string, now: number, every: number | undefined): boolean {
  const newest = keys.findLast((key) => key.alg === alg);
  if (every === undefined || newest === undefined || nextKey(keys, alg, now) !== undefined) return false;
  return newest.published_at + every <= now;
}

/** A key without its times. */
export type NewSigningKey = Pick<SigningKeyRecord, "kid" | "alg" | "sealed">;

/** The first key of an algorithm: it signs at once. */
export function firstKey(key: NewSigningKey, now: number): SigningKeyRecord {
  return { ...key, published_at: now, signs_from: now, retires_at: null };
}

/** The keys with a new one, which takes over from the one that signs. */
export function withNext(keys: Keys, fresh: NewSigningKey, now: number): Keys {
  const takesOver = now + LEAD;
  const signing = signingKey(keys, fresh.alg, now);
  const before = signing === undefined ? keys : replaced(keys, { ...signing, retires_at: takesOver });
  return [...before, { ...fresh, published_at: now, signs_from: takesOver, retires_at: null }];
}

/**
 * The keys without one that nobody may trust any more. If it signs, the next one signs at once; if it was the next one,
 * the one that signs goes on.
 * @param makeKey for when it signs and no other one of its algorithm waits.
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
