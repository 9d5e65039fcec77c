/** The codes of an authenticator app, for tests. Computed without the library that checks them, so that both are tested. */
import { createHmac } from "node:crypto";

/**
 * The code that an app shows (RFC 6238 with SHA-1, 6 digits, 30 seconds).
 * @param secret in Base32, as the page shows it.
 * @param at milliseconds since the epoch.
 */
export function totpCode(secret: string, at: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)));
  const digest = createHmac("sha1", fromBase32(secret)).update(counter).digest();
  const offset = (digest.at(-1) ?? 0) & 15;
  return String((digest.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

function fromBase32(text: string): Buffer {
  const bits = Array.from(text.toUpperCase().replaceAll(/[^A-Z2-7]/g, ""))
    .map((character) => ALPHABET.indexOf(character).toString(2).padStart(5, "0"))
    .join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
