/**
 * Rules for texts that come from outside: display names, dates, keys, URLs. A rule returns what is wrong, without
 * repeating the text, or `undefined`. Sign-in names are in `names.ts`.
 */
import { documentAddressProblem } from "../config/clients.ts";
import { type Clock, seconds } from "../core/clock.ts";
import { isLoopback, urlProblem } from "../config/value-forms.ts";
import { isObjectName, OBJECT_NAME_PROBLEM } from "../core/untrusted-keys.ts";

/** A problem with a text, completing "NAME: …"; `undefined` if nothing is. */
export type Problem = string | undefined;

/** Of a text field or a display name, in characters. */
const MAX_TEXT_LENGTH = 256;

/** Length in code points: close to what a person counts as characters. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** Characters that nobody sees, or that reorder what is around them: controls, line separators, overrides, tags. */
const HIDDEN = /[\p{Cc}\p{Zl}\p{Zp}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{e0000}-\u{e007f}]/u;

/** Text for people to read: not empty, at most this long, nothing that hides or reorders text. */
export function textProblem(text: string, maxLength: number = MAX_TEXT_LENGTH): Problem {
  if (text === "") return "must not be empty";
  if (text.length > 2 * maxLength || characters(text) > maxLength) {
    return `must have at most ${maxLength} characters`;
  }
  if (!text.isWellFormed() || HIDDEN.test(text)) return "must not have control characters";
  return undefined;
}

const EARLIEST_BIRTH = "1850-01-01";

/** A date, as `YYYY-MM-DD`, that the calendar has. */
export function dateProblem(date: string): Problem {
  if (!/^\d{4}-\d{2}-\d{2}$/u.test(date)) return "must have the form YYYY-MM-DD";
  const parsed = new Date(`${date}T00:00:00Z`);
  return Number.isNaN(parsed.getTime()) || !parsed.toISOString().startsWith(date)
    ? "must be a real date"
    : undefined;
}

/** A date of birth, as `YYYY-MM-DD`: real, not before 1850, and not in the future (in UTC) if there is a clock. */
export function birthDateProblem(date: string, clock?: Clock): Problem {
  const problem = dateProblem(date);
  if (problem !== undefined) return problem;
  if (date < EARLIEST_BIRTH) return "must not be before 1850";
  const today = clock && new Date(seconds(clock) * 1000).toISOString().slice(0, 10);
  return today !== undefined && date > today ? "must not be in the future" : undefined;
}

/** The longest language tag that RFC 5646 section 4.4.1 asks to support. */
const MAX_LOCALE_LENGTH = 35;

/** A language tag (BCP 47). */
export function localeProblem(tag: string): Problem {
  const problem = "must be a language tag, such as pl or en-GB";
  if (tag.length > MAX_LOCALE_LENGTH) return problem;
  try {
    return Intl.getCanonicalLocales(tag).length === 1 ? undefined : problem;
  } catch {
    return problem;
  }
}

/** The form of the key of a service, group or portal. Also accepts stored keys that are no longer allowed. */
export function keyFormProblem(key: string): Problem {
  return /^[A-Za-z0-9_-]{1,64}$/u.test(key) ? undefined : "must be 1 to 64 of the characters A-Z a-z 0-9 _ -";
}

/** Key of a service, group or portal. */
export function keyProblem(key: string): Problem {
  return isObjectName(key) ? OBJECT_NAME_PROBLEM : keyFormProblem(key);
}

/** `client_id`: without `%` and `+`, so that these can only come from form-encoding in a Basic header. */
export function clientIdProblem(clientId: string): Problem {
  if (isObjectName(clientId)) return OBJECT_NAME_PROBLEM;
  return /^[A-Za-z0-9._~-]{1,128}$/u.test(clientId)
    ? undefined
    : "must be 1 to 128 of the characters A-Z a-z 0-9 . _ ~ -";
}

/** Whether a request can name a client so: a registered one, or by the address of its document. */
export const isClientId = (clientId: string): boolean =>
  clientIdProblem(clientId) === undefined || documentAddressProblem(clientId) === undefined;

/** `sub`: a UUID in lower case, as RFC 9562 section 4 writes it. */
export function subProblem(sub: string): Problem {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u.test(sub)
    ? undefined
    : "must be a UUID in lower case";
}

/**
 * Redirect, post-logout and back-channel URLs: absolute, https or http on loopback, no userinfo, no fragment, nothing
 * that two parsers could read differently. They are compared as registered.
 */
export function clientAddressProblem(address: string): Problem {
  const problem = urlProblem(address);
  if (problem !== undefined) return problem;
  if (address.includes("*")) return "must not have a wildcard";
  const url = new URL(address);
  const allowed = url.protocol === "https:" || isLoopback(url.hostname);
  return allowed ? undefined : "must be https, or http on loopback";
}

/**
 * The URL of a receiver: http or https, no userinfo, no fragment. Whether its address is allowed is checked when a
 * notification is sent, because only then is the host name resolved.
 */
export function receiverAddressProblem(address: string): Problem {
  return urlProblem(address);
}
