/**
 * Rules for texts that come from outside: names, e-mail addresses, keys, URLs. A rule returns what is wrong, without
 * repeating the text, or `undefined`.
 */
import { domainToASCII } from "node:url";
import { isLoopback } from "../config/value-forms.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import { isObjectName, OBJECT_NAME_PROBLEM } from "../core/untrusted-keys.ts";

/** A problem with a text, completing "NAME: …"; `undefined` if nothing is. */
export type Problem = string | undefined;

/** Of a text field or a display name, in characters. */
const MAX_TEXT_LENGTH = 256;
const MAX_USERNAME_LENGTH = 64;

/** Length in code points: close to what a person counts as characters. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** Text for people to read: not empty, no control characters or line breaks, at most 256 characters. */
export function textProblem(text: string): Problem {
  if (text === "") return "must not be empty";
  if (text.length > 2 * MAX_TEXT_LENGTH || characters(text) > MAX_TEXT_LENGTH) {
    return `must have at most ${MAX_TEXT_LENGTH} characters`;
  }
  if (!text.isWellFormed() || /[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)) return "must not have control characters";
  return undefined;
}

/** Names are compared, so invisible characters would let two different names look the same. */
function invisible(text: string): boolean {
  return !text.isWellFormed() || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text);
}

/** A username: 1 to 64 characters, no `@`, nothing invisible, no surrounding space; also in its normal form. */
export function usernameProblem(username: string): Problem {
  if (username.length > 2 * MAX_USERNAME_LENGTH) return `must have at most ${MAX_USERNAME_LENGTH} characters`;
  for (const form of [username, normaliseName(username)]) {
    if (form === "") return "must not be empty";
    if (characters(form) > MAX_USERNAME_LENGTH) return `must have at most ${MAX_USERNAME_LENGTH} characters`;
    if (invisible(form)) return "must not have control characters";
    if (form !== form.trim()) return "must not begin or end with a space";
    if (form.includes("@")) return "must not have an @, which only e-mail addresses have";
  }
  return undefined;
}

/**
 * An e-mail address: one `@` with something on both sides, at most 254 characters, no spaces, nothing invisible, a domain
 * that a mail server can have. Its NFKC form may differ from its NFC form by case only: otherwise the name that is
 * compared would be another mailbox than the one that gets the mail.
 */
export function emailProblem(email: string): Problem {
  if (email.length > MAX_NAME) return `must have at most ${MAX_NAME} characters`;
  if (invisible(email) || /\s/u.test(email)) return "must not have spaces or control characters";
  if (![email, lowerCase(email, "NFKC")].every((form) => /^[^@]+@[^@]+$/u.test(form)))
    return "must have one @ with text on both sides";
  if (/[<>,;:"()[\]\\]/u.test(email))
    return "must be a plain address, without quotes, brackets or separators";
  if (lowerCase(email, "NFC") !== lowerCase(email, "NFKC"))
    return "must not have characters that stand for others, such as full-width letters";
  const [, local = "", domain = ""] = /^(.*)@(.*)$/su.exec(canonicalEmail(email)) ?? [];
  if (domain === "") return "must have a domain that a mail server can have";
  const form = `${lowerCase(local, "NFKC")}@${domain}`;
  if (form.length > MAX_NAME) return `must have at most ${MAX_NAME} characters`;
  if (/\.\.|@\.|\.$|^\.|\.@/u.test(form)) return "must not have empty parts between dots";
  return undefined;
}

/**
 * The one form in which an address is stored and written to: NFC, with its domain as A-labels in lower case (RFC 5890
 * section 2.3.2.1). The part before the `@` keeps its case, which is its server's affair (RFC 5321 section 2.4).
 */
export function canonicalEmail(email: string): string {
  const at = email.lastIndexOf("@");
  return `${email.slice(0, at).normalize("NFC")}@${asciiDomain(lowerCase(email.slice(at + 1), "NFC"))}`;
}

/** A domain in lower case as A-labels; empty if it can't be one. */
function asciiDomain(domain: string): string {
  // The URL parser would decode `%2e`, and read a path after `/`.
  if (/[^-.\w\u0080-\u{10ffff}]/u.test(domain)) return "";
  // It would also make IPv4 addresses of numbers, so plain domains stay as they are.
  return /[\u0080-\u{10ffff}]/u.test(domain) ? domainToASCII(domain) : domain;
}

/** A real date, as `YYYY-MM-DD`. */
export function dateProblem(date: string): Problem {
  if (!/^\d{4}-\d{2}-\d{2}$/u.test(date)) return "must have the form YYYY-MM-DD";
  const parsed = new Date(`${date}T00:00:00Z`);
  const real = !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(date);
  return real && !date.startsWith("0000") ? undefined : "must be a real date";
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

/** `sub`: a UUID in lower case, as RFC 9562 section 4 writes it. */
export function subProblem(sub: string): Problem {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u.test(sub)
    ? undefined
    : "must be a UUID in lower case";
}

/** UTF-16 units of the longest sign-in name: an e-mail address (RFC 5321 section 4.5.3.1.3, without brackets). */
const MAX_NAME = 254;

/** In lower case. Normalised again because lower-casing can leave a sequence that composes. */
function lowerCase(text: string, form: "NFC" | "NFKC"): string {
  return text.normalize(form).toLowerCase().normalize(form);
}

/**
 * The normal form of a sign-in name: Unicode NFKC and lower case, and the domain of an e-mail address as A-labels. The
 * result can be eighteen times as long, so callers bound the name first.
 */
export function normaliseName(name: string): string {
  const normal = lowerCase(name.toWellFormed(), "NFKC");
  const at = normal.lastIndexOf("@");
  const domain = at === -1 ? "" : asciiDomain(normal.slice(at + 1));
  return domain === "" ? normal : `${normal.slice(0, at)}@${domain}`;
}

/**
 * The normal form of a name as it was typed; `undefined` if it is too long, before or after normalising. No account
 * can have such a name, so it needs no look-up.
 */
export function typedName(typed: string): string | undefined {
  if (typed.length > MAX_NAME) return undefined;
  const name = normaliseName(typed);
  return name.length > MAX_NAME ? undefined : name;
}

/** The sign-in names of the account, in their normal form: e-mail addresses and usernames share one name space. */
export function namesOf(record: Pick<AccountRecord, "email" | "username">): string[] {
  const names = [record.email, ...(record.username === null ? [] : [record.username])];
  return [...new Set(names.map((name) => normaliseName(name)))];
}

const MAX_URL = 2048;

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

/** What is wrong with any URL. The URL parser corrects many errors silently, and other parsers correct them differently. */
export function urlProblem(address: string): Problem {
  if (address.length > MAX_URL) return `must have at most ${MAX_URL} characters`;
  if (!/^[\u0021-\u007e]*$/u.test(address)) return "must be printable ASCII without spaces";
  if (/[\\"<>^`{|}]/u.test(address)) return "must not have a character that a URL can't have";
  if (address.includes("#")) return "must not have a fragment";
  const authority = /^https?:\/\/([^/?]+)/u.exec(address)?.[1];
  if (authority === undefined) return "must be an absolute URL that begins with https:// or http://";
  if (authority.includes("@")) return "must not have a user name or password";
  const host = authority.replace(/:\d*$/u, "").toLowerCase();
  // `127.1`, `0x7f000001` and `%61` are other spellings of a host: a reviewer must see the host that is used.
  return URL.parse(address)?.hostname === host
    ? undefined
    : "must be an absolute URL with its host written plainly";
}
