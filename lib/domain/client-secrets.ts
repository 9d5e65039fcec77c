/** Client secrets: made here or chosen, kept as a keyed digest only. */
import { randomBytes, timingSafeEqual } from "node:crypto";
import type { ClientRecord, ClientSecret } from "../directory/directory.ts";
import { type SecretKey, hmac } from "../sealing.ts";

/** Secrets that are accepted side by side at most: the newest ones. */
const MAX_SECRETS = 4;

/** A new secret of 256 bits, Base64url: safe in Basic credentials however they are read. */
export function generateSecret(): string {
  return randomBytes(32).toString("base64url");
}

/** What is kept of a secret. */
export function keptSecret(key: SecretKey, secret: string): ClientSecret {
  return { hash: hmac(key, secret) };
}

/** Whether a kept secret still counts. @param now seconds since the epoch, with a fraction. */
function isAccepted({ expires_at }: ClientSecret, now: number): boolean {
  return expires_at === undefined || now < expires_at;
}

/**
 * Whether this is one of the client's secrets that have not expired. The work is the same wherever a secret
 * differs, and for a client that does not exist or has none.
 */
export function secretMatches(
  key: SecretKey,
  record: Pick<ClientRecord, "secrets"> | undefined,
  presented: string,
  now: number,
): boolean {
  const digest = Buffer.from(hmac(key, presented));
  const accepted = record?.secrets.filter((secret) => isAccepted(secret, now)) ?? [];
  const hashes = accepted.length > 0 ? accepted.map(({ hash }) => hash) : [hmac(key, "")];
  let matches = 0;
  for (const hash of hashes) {
    const kept = Buffer.from(hash);
    matches |= Number(kept.length === digest.length && timingSafeEqual(kept, digest));
  }
  return accepted.length > 0 && matches === 1;
}

/** The secrets after a rotation: the new one, and the old ones until they expire. @param now seconds since the epoch. */
export function rotated(
  secrets: readonly ClientSecret[],
  fresh: ClientSecret,
  now: number,
  keepOldFor: number,
): ClientSecret[] {
  const old = secrets
    .map((secret) => ({ ...secret, expires_at: Math.min(secret.expires_at ?? Infinity, now + keepOldFor) }))
    .filter((secret) => isAccepted(secret, now));
  return [fresh, ...old].slice(0, MAX_SECRETS);
}
