/** Sign-in names: e-mail addresses and usernames in one name space, compared in one normal form. */
import type { AccountRecord } from "../directory/directory.ts";

/** UTF-16 units of the longest sign-in name: an e-mail address (RFC 5321 section 4.5.3.1.3, without brackets). */
export const LONGEST_NAME = 254;

/**
 * The normal form: Unicode NFKC and lower case. NFKC is applied again at the end because lower-casing can
 * leave a sequence that composes. It can be eighteen times as long as the name, so callers bound the name first.
 */
export function normaliseName(name: string): string {
  return name.toWellFormed().normalize("NFKC").toLowerCase().normalize("NFKC");
}

/**
 * The normal form of what somebody typed; `undefined` when it is too long to be a name, before or after
 * normalising. Nobody can have such a name, so it needs no look-up.
 */
export function typedName(typed: string): string | undefined {
  if (typed.length > LONGEST_NAME) return undefined;
  const name = normaliseName(typed);
  return name.length > LONGEST_NAME ? undefined : name;
}

/** All names by which the account signs in, in their normal form. */
export function namesOf(record: Pick<AccountRecord, "email" | "username">): string[] {
  const names = [record.email, ...(record.username === null ? [] : [record.username])];
  return [...new Set(names.map((name) => normaliseName(name)))];
}
