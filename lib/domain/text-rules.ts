/** Rules for single texts. Each says what is wrong, without repeating the text, or `undefined`. */
import { isObjectName, OBJECT_NAME_PROBLEM } from "../object-names.ts";
import { LONGEST_NAME, normaliseName } from "./names.ts";

/** What is wrong with a text, completing "NAME: …"; `undefined` when nothing is. */
export type Problem = string | undefined;

/** Characters of a text field, a key's display name included. */
const MAX_TEXT = 256;
const MAX_USERNAME = 64;

/** Length in code points: what a person counts as characters, nearly. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** Text that a person reads: not empty, no control characters or line breaks, at most 256 characters. */
export function textProblem(text: string): Problem {
  if (text === "") return "must not be empty";
  if (text.length > 2 * MAX_TEXT || characters(text) > MAX_TEXT) {
    return `must have at most ${MAX_TEXT} characters`;
  }
  if (!text.isWellFormed() || /[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)) return "must not have control characters";
  return undefined;
}

/** Names that are compared may have nothing that nobody sees: formatting characters would make twins. */
function invisible(text: string): boolean {
  return !text.isWellFormed() || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text);
}

/** A username: 1 to 64 characters, no `@`, nothing invisible, no space around it; in its normal form too. */
export function usernameProblem(username: string): Problem {
  if (username.length > 2 * MAX_USERNAME) return `must have at most ${MAX_USERNAME} characters`;
  for (const form of [username, normaliseName(username)]) {
    if (form === "") return "must not be empty";
    if (characters(form) > MAX_USERNAME) return `must have at most ${MAX_USERNAME} characters`;
    if (invisible(form)) return "must not have control characters";
    if (form !== form.trim()) return "must not begin or end with a space";
    if (form.includes("@")) return "must not have an @: that is how e-mail addresses are told from usernames";
  }
  return undefined;
}

/** An e-mail address: one `@` with something on both sides, at most 254 characters, no spaces, nothing invisible. */
export function emailProblem(email: string): Problem {
  if (email.length > LONGEST_NAME) return `must have at most ${LONGEST_NAME} characters`;
  for (const form of [email, normaliseName(email)]) {
    if (form.length > LONGEST_NAME) return `must have at most ${LONGEST_NAME} characters`;
    if (invisible(form) || /\s/u.test(form)) return "must not have spaces or control characters";
    if (!/^[^@]+@[^@]+$/u.test(form)) return "must have one @ with text on both sides";
    if (/[<>,;:"()[\]\\]/u.test(form))
      return "must be a plain address, without quotes, brackets or separators";
    if (/\.\.|@\.|\.$|^\.|\.@/u.test(form)) return "must not have empty parts between dots";
  }
  return undefined;
}

/** A date that the calendar has, as `YYYY-MM-DD`. */
export function dateProblem(date: string): Problem {
  if (!/^\d{4}-\d{2}-\d{2}$/u.test(date)) return "must have the form YYYY-MM-DD";
  const parsed = new Date(`${date}T00:00:00Z`);
  const real = !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(date);
  return real && !date.startsWith("0000") ? undefined : "must be a real date";
}

/** The form of every key of a service, group or portal, including stored keys that may no longer be used. */
export function keyFormProblem(key: string): Problem {
  return /^[A-Za-z0-9_-]{1,64}$/u.test(key) ? undefined : "must be 1 to 64 of the characters A-Z a-z 0-9 _ -";
}

/** Key of a service, group or portal. */
export function keyProblem(key: string): Problem {
  return isObjectName(key) ? OBJECT_NAME_PROBLEM : keyFormProblem(key);
}

/** `client_id`: has no `%` and no `+`, so that one in a Basic header can only come from form-encoding. */
export function clientIdProblem(clientId: string): Problem {
  if (isObjectName(clientId)) return OBJECT_NAME_PROBLEM;
  return /^[A-Za-z0-9._~-]{1,128}$/u.test(clientId)
    ? undefined
    : "must be 1 to 128 of the characters A-Z a-z 0-9 . _ ~ -";
}

/** `sub`: a UUID in lower case, as RFC 9562 section 4 writes it. */
export function subProblem(sub: string): Problem {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u.test(sub)
    ? undefined
    : "must be a UUID in lower case";
}
