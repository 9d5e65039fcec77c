/**
 * The names of people: sign-in names (usernames and e-mail addresses, in one name space), and what they are called.
 * A rule returns what is wrong, without repeating the text, or `undefined`.
 */
import { domainToASCII, domainToUnicode } from "node:url";
import type { AccountRecord } from "../records/directory/directory.ts";
import { characters, type Problem, textProblem } from "./text-rules.ts";

declare const READ: unique symbol;

/** A sign-in name in its normal form. Look-ups, limits and counts take no other text. */
export type SignInName = string & { readonly [READ]: true };

/** UTF-16 units of the longest sign-in name: an e-mail address (RFC 5321 section 4.5.3.1.3, without brackets). */
const MAX_NAME = 254;
/** RFC 5321 section 4.5.3.1.1. */
const MAX_LOCAL_PART = 64;
/** UTF-16 units of a domain that is converted: more than any domain has. */
const MAX_DOMAIN = 1_000;
const MAX_USERNAME = 64;
const MAX_PERSON_NAME = 100;
/** Of a typed name: longer texts are not read. */
const MAX_TYPED_BYTES = 16_384;

/** The look-behind keeps the time linear: only the beginning of a run is tried. */
const BLANKS = /^[\p{White_Space}\u{feff}]+|(?<![\p{White_Space}\u{feff}])[\p{White_Space}\u{feff}]+$/gu;

/** The text without white space at both ends. */
export const trimmed = (text: string): string => text.replaceAll(BLANKS, "");

/** In lower case. Normalized again because lower-casing can leave a sequence that composes. */
export function lowerCase(text: string, form: "NFC" | "NFKC"): string {
  return text.normalize(form).toLowerCase().normalize(form);
}

/**
 * The normal form of a name: NFKC without white space at both ends, in lower case, and the domain of an e-mail address
 * as A-labels; a domain that has none stays as it is. The normal form of a normal form is itself. It can be eighteen
 * times as long as the text, so callers bound the text first.
 */
export function normalName(text: string): SignInName {
  const name = lowerCase(trimmed(text.toWellFormed().normalize("NFKC")), "NFKC");
  const [local, domain, ...more] = name.split("@");
  const ascii = domain === undefined || more.length > 0 ? "" : asciiDomain(domain);
  return (ascii === "" ? name : `${local}@${ascii}`) as SignInName;
}

/**
 * Reads a name that a person typed or a client sent (decisions.md, A name as typed). `undefined` if it is longer than
 * any name of an account, so it needs no look-up.
 */
export function readName(typed: string): SignInName | undefined {
  if (typed.length > MAX_TYPED_BYTES || Buffer.byteLength(typed) > MAX_TYPED_BYTES) return undefined;
  const name = normalName(typed);
  return name.length > MAX_NAME ? undefined : name;
}

/** The fields that are the full name together. */
export const FULL_NAME = ["name", "surname"] as const;

/** What identifies a person to people. */
export type NamedPerson = Pick<AccountRecord, "email" | "username" | (typeof FULL_NAME)[number]>;

/** The full name of a person; may be empty. */
export function fullName(person: Pick<NamedPerson, (typeof FULL_NAME)[number]>): string {
  return FULL_NAME.map((field) => person[field])
    .filter(Boolean)
    .join(" ");
}

/** The sign-in names of the account. */
export function namesOf(record: Pick<AccountRecord, "email" | "username">): SignInName[] {
  const names = [record.email, ...(record.username === null ? [] : [record.username])];
  return [...new Set(names.map((name) => normalName(name)))];
}

/** Names are compared, so invisible characters would let two different names look the same. */
function invisible(text: string): boolean {
  return !text.isWellFormed() || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text);
}

/** A username: 1 to 64 characters, no `@`, nothing invisible, no surrounding space; also in its normal form. */
export function usernameProblem(username: string): Problem {
  if (username.length > 2 * MAX_USERNAME) return `must have at most ${MAX_USERNAME} characters`;
  for (const form of [username, username.normalize("NFKC"), normalName(username)]) {
    if (form === "") return "must not be empty";
    if (characters(form) > MAX_USERNAME) return `must have at most ${MAX_USERNAME} characters`;
    if (invisible(form)) return "must not have control characters";
    if (form !== trimmed(form)) return "must not begin or end with a space";
    if (form.includes("@")) return "must not have an @, which only e-mail addresses have";
  }
  return undefined;
}

/** What is wrong with a username that a person chooses. `reserved`: nobody may choose it. */
type ChosenUsernameProblem = "invalid" | "reserved";

/** The scripts in common modern use (Unicode UAX 31, Table 5). */
const SCRIPTS = [
  "Arab Armn Beng Bopo Cyrl Deva Ethi Geor Grek Gujr Guru Hang Hani Hebr Hira Kana Khmr Knda Laoo Latn Mlym Mymr Orya",
  "Sinh Taml Telu Thaa Thai Tibt",
].flatMap((line) => line.split(" ").map((script) => [script]));

/** Scripts that are written together and count as one (Unicode TS 39, section 5.1). */
const SETS = [...SCRIPTS, ["Hani", "Bopo"], ["Hani", "Hira", "Kana"], ["Hani", "Hang"]];

/** Letters, marks and digits of one script, and the characters that all scripts share. */
const ONE_SCRIPT = SETS.map((scripts) => {
  const own = scripts.map((script) => `\\p{scx=${script}}`).join("");
  return new RegExp(`^(?:(?=[\\p{L}\\p{M}\\p{Nd}])[${own}]|[-._0-9])+$`, "u");
});

/** Whether no character is a look-alike of another script's (Unicode TS 39, single script). */
const hasOneScript = (text: string): boolean => ONE_SCRIPT.some((script) => script.test(text));

/**
 * What is wrong with a username that a person chooses; imports and the library may set others. It has one script and a
 * letter, does not look like a `sub`, and is not reserved.
 * @param reserved compared as sign-in names are.
 */
export function chosenUsernameProblem(
  username: string,
  reserved: readonly string[],
): ChosenUsernameProblem | undefined {
  if (usernameProblem(username) !== undefined) return "invalid";
  const name = normalName(username);
  for (const form of [username.normalize("NFC"), name])
    if (!/\p{L}/u.test(form) || !hasOneScript(form)) return "invalid";
  if (/^[0-9a-f]{32}$/u.test(name.replaceAll("-", ""))) return "invalid";
  return reserved.some((each) => normalName(each) === name) ? "reserved" : undefined;
}

/**
 * An e-mail address: one `@`, at most 64 characters before it and 254 in all, no spaces, nothing invisible, a domain
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
  const domain = domainOf(canonicalEmail(email));
  if (!isMailDomain(domain)) return "must have a domain that a mail server can have";
  // Lower-casing can make a text longer.
  for (const form of [canonicalEmail(email), normalName(email)]) {
    const local = form.slice(0, form.lastIndexOf("@"));
    if (local.length > MAX_LOCAL_PART) return `must have at most ${MAX_LOCAL_PART} characters before the @`;
    if (form.length > MAX_NAME) return `must have at most ${MAX_NAME} characters`;
    if (/\.\.|^\.|\.$/u.test(local)) return "must not have empty parts between dots";
  }
  return undefined;
}

/** The rules for an address that a person enters. @param domains those that need no dot. */
export function enteredEmailProblem(email: string, domains: readonly string[] = []): Problem {
  const problem = emailProblem(email);
  if (problem !== undefined) return problem;
  const domain = domainOf(canonicalEmail(email));
  return domain.includes(".") || domains.includes(domain) ? undefined : "must have a domain with a dot";
}

/** The part behind the `@`. */
export const domainOf = (email: string): string => email.slice(email.lastIndexOf("@") + 1);

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
  // The URL parser would decode `%2e`, and read a path after `/`. Its work grows with the square of the length.
  if (domain.length > MAX_DOMAIN || /[^-.\w\u0080-\u{10ffff}]/u.test(domain)) return "";
  // It would also make IPv4 addresses of numbers, so plain domains stay as they are.
  return /[\u0080-\u{10ffff}]/u.test(domain) ? domainToASCII(domain) : domain;
}

/** Whether a domain has only labels of letters, digits and hyphens, and each `xn--` label is an A-label. */
function isMailDomain(domain: string): boolean {
  return domain
    .split(".")
    .every(
      (label) =>
        /^(?!-)[a-z0-9-]{1,63}(?<!-)$/u.test(label) &&
        (!label.startsWith("xn--") || shownLabel(label) !== undefined),
    );
}

/** An A-label in its script; `undefined` if it is none. */
function shownLabel(label: string): string | undefined {
  const shown = domainToUnicode(label);
  return shown !== label && domainToASCII(shown) === label ? shown : undefined;
}

/**
 * An address as people read it: its domain in its script, if each label has one script; otherwise a label could be a
 * look-alike, so the A-labels are shown.
 */
export function shownEmail(email: string): string {
  const plain = canonicalEmail(email);
  const labels = domainOf(plain)
    .split(".")
    .map((label) => (label.startsWith("xn--") ? shownLabel(label) : label));
  const isSafe = labels.every((label) => label !== undefined && hasOneScript(label));
  return isSafe ? `${plain.slice(0, plain.lastIndexOf("@"))}@${labels.join(".")}` : plain;
}

/** A given or family name: any script, at most 100 characters without white space at both ends. */
export function personNameProblem(name: string): Problem {
  const text = trimmed(name);
  const isLong = text.length > 2 * MAX_PERSON_NAME || characters(text) > MAX_PERSON_NAME;
  return isLong ? `must have at most ${MAX_PERSON_NAME} characters` : textProblem(text);
}
