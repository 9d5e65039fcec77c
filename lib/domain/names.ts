/** Sign-in names: e-mail addresses and usernames in one name space, compared in one normal form. */
import type { AccountRecord } from "../../adapters/directory.ts";

/**
 * Longer input is nobody's name: the longest allowed one has 254 characters, and composing shortens a
 * text to a quarter at most. Normalising megabytes would only burn time.
 */
const LONGEST_INPUT = 1024;

/**
 * The normal form: Unicode NFKC and lower case. NFKC is applied again at the end because lower-casing can
 * leave a sequence that composes. What can't be a name comes out cut, so it is found by nobody.
 */
export function normaliseName(name: string): string {
  return name
    .slice(0, LONGEST_INPUT + 1)
    .toWellFormed()
    .normalize("NFKC")
    .toLowerCase()
    .normalize("NFKC");
}

/** All names by which the account signs in, in their normal form. */
export function namesOf(record: Pick<AccountRecord, "email" | "username">): string[] {
  const names = [record.email, ...(record.username === null ? [] : [record.username])];
  return [...new Set(names.map((name) => normaliseName(name)))];
}
