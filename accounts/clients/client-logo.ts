/** The logo of a client: which pictures it may be, and how it is stored. */
import { hash } from "node:crypto";
import type { StoredLogo } from "../../records/directory/directory.ts";

export const MAX_LOGO_BYTES = 100_000;

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
  if (value.length > MAX_LOGO_BYTES) return `must have at most ${MAX_LOGO_BYTES} bytes`;
  return typeOf(value) === undefined ? "must be a PNG, JPEG or WebP image" : undefined;
}

/** What the record of the client says of its logo. @param bytes without a {@link logoProblem}. */
export function logoFacts(bytes: Uint8Array): Pick<StoredLogo, "type" | "sha256"> {
  return { type: typeOf(bytes) ?? "application/octet-stream", sha256: hash("sha256", bytes, "base64url") };
}

/** The logo to store; `null`: none; `undefined`: the same as before. */
export function logoOf(
  client_id: string,
  { logo }: { readonly logo?: Uint8Array | null | undefined },
): StoredLogo | null | undefined {
  if (logo === undefined || logo === null) return logo;
  return { client_id, ...logoFacts(logo), bytes: Buffer.from(logo).toString("base64") };
}
