/** Signatures of cookies, in the place of the library's: SHA-256, and with keys that are made ready once. */
import { createSecretKey, timingSafeEqual } from "node:crypto";
import { hmac } from "../sealing.ts";

/** What oidc-provider and Koa's cookies ask of the signing keys. */
export interface CookieSignatures {
  /** The signature under the first key. */
  sign(data: string): string;
  /** Whether one of the keys made the signature. */
  verify(data: string, signature: string): boolean;
  /** Which of the keys made the signature; -1 when none did. */
  index(data: string, signature: string): number;
}

/** @param keys `keys.cookies`: the first signs, all verify; at least one. */
export function createCookieSignatures(keys: readonly string[]): CookieSignatures {
  const ready = keys.map((key) => createSecretKey(key, "utf8"));
  const [first] = ready;
  if (first === undefined) throw new TypeError("keys.cookies: at least one key");

  function index(data: string, signature: string): number {
    const presented = Buffer.from(signature);
    return ready.findIndex((key) => {
      const expected = Buffer.from(hmac(key, data));
      return expected.length === presented.length && timingSafeEqual(expected, presented);
    });
  }

  return {
    sign: (data) => hmac(first, data),
    verify: (data, signature) => index(data, signature) !== -1,
    index,
  };
}
