/**
 * Strings as MongoDB can find them. BSON holds UTF-8, which has no lone surrogates, and what is long makes a slow
 * index; such keys are stored as their hash. So a key is not for reading: what has to be read is kept beside it.
 */
import { hash } from "node:crypto";

/** Longer keys are hashed: in UTF-16 units. */
const LONGEST = 512;

/** Before every hash, and never first in a key that is stored as it is: a code point that Unicode never uses. */
const MARK = "\u{10FFFF}";

/** Between the parts of a key. */
const SEPARATOR = " ";

/**
 * The stored form of a key of one or several parts: of two different lists of as many parts never the same.
 * Short ones that have no space in their parts, or have one part only, are readable.
 */
export function toKey(...parts: readonly string[]): string {
  const text = parts.join(SEPARATOR);
  const isClear = parts.length === 1 || !parts.some((part) => part.includes(SEPARATOR));
  if (isClear && text.length <= LONGEST && text.isWellFormed() && !text.startsWith(MARK)) return text;
  return MARK + hash("sha256", JSON.stringify(parts), "base64url");
}

/** What a key of one part was made of; `undefined` for a hash. */
export function clearKey(key: string): string | undefined {
  return key.startsWith(MARK) ? undefined : key;
}

/** For a field that is left out when there is nothing. */
export function toOptionalKey(value: string | null | undefined): string | undefined {
  return value === undefined || value === null ? undefined : toKey(value);
}
