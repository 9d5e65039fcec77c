/**
 * What the search for people compares: the words of an address, a username and a surname, and the beginnings of them
 * by which the index finds an account (decisions.md, Search). The index holds keyed hashes of beginnings, so whoever reads the
 * storage learns no name.
 */
import type { KeyObject } from "node:crypto";
import type { RecordData } from "../../adapters/record-store.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { hmacOfMany } from "../../core/sealing.ts";
import { SEARCH_WORDS } from "../../records/directory/search-kinds.ts";
import { lowerCase, shownEmail, trimmed } from "../names.ts";
import type { Problem } from "../text-rules.ts";

/** The fields that are searched. */
export const SEARCHED_FIELDS = ["email", "username", "surname"] as const;
type SearchedField = (typeof SEARCHED_FIELDS)[number];

/** What the search reads of an account. */
export type Searched = Pick<AccountRecord, SearchedField>;

/** The beginnings that are in the index, in characters. A search needs a text of the last length at least. */
const LENGTHS = [8, 6, 4, 3] as const;
/** The words of a field that are searched. */
const MAX_WORDS = 6;
/** Of a hash in Base64url. Accounts under the same 48 bits by chance are filtered out, as all that only begin alike. */
const HASH_CHARACTERS = 8;

/** Where words end. */
const SEPARATORS = /[\s.\-_+@]+/u;

/** As names are compared: NFKC in lower case, with single blanks. */
const normal = (text: string): string =>
  trimmed(lowerCase(text.toWellFormed(), "NFKC")).replaceAll(/\s+/gu, " ");

const wordsIn = (text: string): string[] => text.split(SEPARATORS).filter((word) => word !== "");

/** A field of an account as it is searched. */
interface SearchedText {
  readonly field: SearchedField;
  readonly whole: string;
  readonly words: readonly string[];
}

/** The texts of an account. Of an address, people see the domain in its script, and search for that. */
function textsOf(account: Searched): SearchedText[] {
  return SEARCHED_FIELDS.flatMap((field) => {
    const value = account[field];
    if (value === null) return [];
    const whole = normal(value.includes("xn--") && field === "email" ? shownEmail(value) : value);
    return { field, whole, words: wordsIn(whole).slice(0, MAX_WORDS) };
  });
}

const SURROGATE = /[\uD800-\uDFFF]/;

/** All beginnings of a text that are in the index, the longest first. */
function beginningsOf(text: string): string[] {
  const start = text.slice(0, 2 * LENGTHS[0]);
  // Nearly every name. An import of a million accounts comes here ten million times.
  if (!SURROGATE.test(start))
    return LENGTHS.filter((length) => length <= start.length).map((length) => start.slice(0, length));
  const characters = Array.from(start);
  return LENGTHS.filter((length) => length <= characters.length).map((length) =>
    characters.slice(0, length).join(""),
  );
}

/** The places of beginnings in the index. With the field, so that the hashes don't show that two fields begin alike. */
function placesWith(key: KeyObject): (field: SearchedField, beginning: string) => string {
  const hmac = hmacOfMany(key);
  return (field, beginning) => hmac(`${field}\0${beginning}`).slice(0, HASH_CHARACTERS);
}

/** Whether a change concerns what is searched. */
export function changesSearch(before: Searched | undefined, after: Searched): boolean {
  return before === undefined || SEARCHED_FIELDS.some((field) => before[field] !== after[field]);
}

/** The record by which the index finds an account. @param key `ServiceKeys.search`. */
export function searchRecord(
  account: Searched & Pick<AccountRecord, "sub" | "user_id">,
  key: KeyObject,
): RecordData {
  const placeOf = placesWith(key);
  const places = textsOf(account).flatMap(({ field, whole, words }) =>
    [...new Set([...words, whole].flatMap(beginningsOf))].map((each) => placeOf(field, each)),
  );
  const { sub, user_id } = account;
  return SEARCH_WORDS.record({ sub, user_id, words: [...new Set(places)].toSorted() });
}

/** In UTF-16 units: the longest name has fewer. */
const MAX_TYPED = 254;

/** What is wrong with what somebody has typed. */
export function searchProblem(typed: string): Problem {
  if (typed.length > MAX_TYPED) return `must have at most ${MAX_TYPED} characters`;
  return trimmed(typed) === "" ? "must not be empty" : undefined;
}

/** What somebody searches for. */
export interface SearchTerm {
  readonly whole: string;
  readonly words: readonly string[];
}

/** Reads what somebody has typed; `undefined` if nothing of it has the characters that a search needs. */
export function readTerm(typed: string): SearchTerm | undefined {
  const whole = normal(typed);
  const words = [...new Set(wordsIn(whole))];
  return [whole, ...words].some((text) => beginningsOf(text).length > 0) ? { whole, words } : undefined;
}

/** A way to find candidates: their places, one of each field, and which of them match. */
export interface SearchWay {
  readonly places: readonly string[];
  readonly matches: (account: Searched) => boolean;
}

const hasWords =
  (words: readonly string[]) =>
  (account: Searched): boolean => {
    const all = textsOf(account).flatMap((text) => text.words);
    return words.every((word) => all.some((each) => each.startsWith(word)));
  };

const beginsWith =
  (whole: string) =>
  (account: Searched): boolean =>
    textsOf(account).some((text) => text.whole.startsWith(whole));

/** How the candidates for a term are found: by one of its words, and, where it is more than a word, by the whole of it. */
export function waysToFind(
  { whole, words }: SearchTerm,
  key: KeyObject,
): { readonly byWord: readonly SearchWay[]; readonly byWhole: readonly SearchWay[] } {
  const placeOf = placesWith(key);
  const way = (text: string, matches: SearchWay["matches"]): SearchWay[] => {
    const [beginning] = beginningsOf(text);
    if (beginning === undefined) return [];
    return [{ places: SEARCHED_FIELDS.map((field) => placeOf(field, beginning)), matches }];
  };
  const byWhole = words.length === 1 && words[0] === whole ? [] : way(whole, beginsWith(whole));
  return { byWord: words.slice(0, MAX_WORDS).flatMap((word) => way(word, hasWords(words))), byWhole };
}
