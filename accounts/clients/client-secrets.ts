/** The secrets of clients: made, rotated and compared. Only their keyed digests are stored. */
import { type KeyObject, randomBytes, timingSafeEqual } from "node:crypto";
import { hmac } from "../../core/sealing.ts";
import type { ClientRecord, ClientSecret } from "../../records/directory/directory.ts";

/** The maximum number of secrets of a client; the newest are kept. */
const MAX_SECRETS = 4;

/** A new secret of 256 bits in Base64url, which needs no encoding in Basic credentials. */
export function generateSecret(): string {
  return randomBytes(32).toString("base64url");
}

/** @param now seconds since the epoch, with a fraction. */
function isValid({ expires_at }: ClientSecret, now: number): boolean {
  return expires_at === undefined || now < expires_at;
}

/**
 * Whether this is one of the client's valid secrets, and of which kind. It takes the same time wherever a secret differs, and
 * for a client that does not exist or has no secret.
 */
export function secretMatches(
  key: KeyObject,
  record: Pick<ClientRecord, "secrets"> | undefined,
  presented: string,
  now: number,
): "generated" | "chosen" | undefined {
  const digest = Buffer.from(hmac(key, presented));
  const valid = record?.secrets.filter((secret) => isValid(secret, now)) ?? [];
  const nobodys: ClientSecret = { hash: "-".repeat(digest.length) };
  const matching = (valid.length > 0 ? valid : [nobodys]).filter(({ hash }) => {
    const stored = Buffer.from(hash);
    return stored.length === digest.length && timingSafeEqual(stored, digest);
  });
  const [match] = valid.length > 0 ? matching : [];
  return match && (match.generated === true ? "generated" : "chosen");
}

/** The secrets after a rotation: the new one, and the old ones until they expire. @param now seconds since the epoch. */
export function addedSecret(
  secrets: readonly ClientSecret[],
  fresh: ClientSecret,
  now: number,
  keepOldFor: number,
): ClientSecret[] {
  const old = secrets
    .map((secret) => ({ ...secret, expires_at: Math.min(secret.expires_at ?? Infinity, now + keepOldFor) }))
    .filter((secret) => isValid(secret, now));
  return [fresh, ...old].slice(0, MAX_SECRETS);
}
