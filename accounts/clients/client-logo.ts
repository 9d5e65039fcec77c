/** The logo of a client: bytes that are checked when they are registered, because nothing is ever fetched. */
import { hash } from "node:crypto";
import type { StoredLogo } from "../../records/directory/directory.ts";

/** Bytes of a logo at most. */
export const MOST_LOGO_BYTES = 100_000;

/** By the first bytes: neither a name nor a claimed type says what a file is. No format here can hold scripts. */
const FORMATS: readonly (readonly [type: string, matches: (start: string) => boolean])[] = [
  ["image/png", (start) => start.startsWith("\x89PNG\r\n\x1a\n")],
  ["image/jpeg", (start) => start.startsWith("\xff\xd8\xff")],
  ["image/webp", (start) => start.startsWith("RIFF") && start.slice(8, 12) === "WEBP"],
];

function typeOf(bytes: Uint8Array): string | undefined {
  const start = Buffer.from(bytes.subarray(0, 12)).toString("latin1");
  return FORMATS.find(([, matches]) => matches(start))?.[0];
}

/** What is wrong with the bytes of a logo, completing "logo …"; `undefined` if nothing is. */
export function logoProblem(value: unknown): string | undefined {
  if (!(value instanceof Uint8Array)) return "must be bytes: a Buffer or Uint8Array";
  if (value.length > MOST_LOGO_BYTES) return `must have at most ${MOST_LOGO_BYTES} bytes`;
  return typeOf(value) === undefined ? "must be a PNG, JPEG or WebP image" : undefined;
}

/** A logo as it is stored. @param bytes without a {@link logoProblem}. */
export function storedLogo(client_id: string, bytes: Uint8Array): StoredLogo {
  return {
    client_id,
    type: typeOf(bytes) ?? "application/octet-stream",
    sha256: hash("sha256", bytes, "base64url"),
    bytes: Buffer.from(bytes).toString("base64"),
  };
}
