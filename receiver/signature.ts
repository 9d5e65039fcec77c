/** Signatures of Standard Webhooks 1.0, symmetric: `v1,` and the Base64 of an HMAC-SHA-256. */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import { InvalidArgument } from "../core/errors.ts";

const PREFIX = "whsec_";
const VERSION = "v1,";
/** More than any rotation needs. A longer header would only cost the receiver time. */
const MAX_SIGNATURES = 16;

/** The signed parts of a request. */
export interface Signed {
  /** `webhook-id`: no dot. */
  readonly id: string;
  /** `webhook-timestamp`: seconds since the epoch. */
  readonly timestamp: number;
  /** The body, byte for byte. */
  readonly body: string | Uint8Array;
}

/** Standard Webhooks 1.0: 24 to 64 bytes. */
const MIN_KEY_BYTES = 24;

/**
 * The key in a signing secret.
 * @throws InvalidArgument for a secret that is not `whsec_` and the Base64 of 24 bytes or more. The message does not repeat it.
 */
export function signingKey(secret: string): KeyObject {
  const encoded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : "";
  const key = Buffer.from(encoded, "base64");
  if (key.length < MIN_KEY_BYTES || key.toString("base64") !== encoded) {
    throw new InvalidArgument({
      path: "secrets",
      message: `each must be whsec_ and the Base64 of at least ${MIN_KEY_BYTES} bytes`,
    });
  }
  return createSecretKey(key);
}

function sign(key: KeyObject, { id, timestamp, body }: Signed): string {
  const hmac = createHmac("sha256", key);
  if (typeof body === "string") hmac.update(`${id}.${timestamp}.${body}`);
  else hmac.update(`${id}.${timestamp}.`).update(body);
  return hmac.digest("base64");
}

/**
 * The value of `webhook-signature`: one signature for each key, so that a receiver may know either secret during a
 * rotation.
 */
export function signatureHeader(keys: readonly KeyObject[], signed: Signed): string {
  return keys.map((key) => VERSION + sign(key, signed)).join(" ");
}

/**
 * Whether one of the signatures in the header was made with one of the keys. All are compared, each in constant time.
 */
export function isSigned(header: string, keys: readonly KeyObject[], signed: Signed): boolean {
  const presented = header
    .split(" ", MAX_SIGNATURES)
    .filter((each) => each.startsWith(VERSION))
    .map((each) => Buffer.from(each.slice(VERSION.length)));
  let matches = 0;
  for (const key of keys) {
    const expected = Buffer.from(sign(key, signed));
    for (const each of presented) {
      matches |= Number(each.length === expected.length && timingSafeEqual(each, expected));
    }
  }
  return matches === 1;
}
