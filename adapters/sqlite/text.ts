/**
 * Strings as SQLite keeps them. It stores UTF-8, which has no lone surrogates: two different strings with
 * one would become the same. Such strings are kept as JSON behind a mark that no other stored string has.
 */

/** A code point that Unicode never gives to a character. */
const MARK = "\u{10FFFF}";

/** The stored form: of two different strings never the same. */
export function toText(value: string): string {
  return value.isWellFormed() && !value.startsWith(MARK) ? value : MARK + JSON.stringify(value);
}

/** The string of which this is the stored form. */
export function fromText(text: string): string {
  return text.startsWith(MARK) ? String(JSON.parse(text.slice(MARK.length))) : text;
}

/** For a column that may be empty. */
export function toOptionalText(value: string | null | undefined): string | null {
  return value === undefined || value === null ? null : toText(value);
}
