/**
 * What the search for people compares: the words of an address, a username and a surname, and the beginnings of them
 * by which the index finds an account (decisions.md, Search). The index holds keyed hashes of beginnings, so whoever reads the
 * storage learns no name.
 */
import type { KeyObject } from "node:crypto";
import type { Query, RecordData } from "../../adapters/record-store.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { hmacOfMany } from "../../core/sealing.ts";
import { SEARCH_WORDS, type StoredSearchWords } from "../../records/directory/search-kinds.ts";
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

/** A row of the index. */
export type SearchPlace = StoredSearchWords["words"][number];

/** Rows of the index, from one order to another. */
export type SearchRange = Required<Pick<Query, "at" | "from" | "to">>;

/** How many values a part of an order has. Three of them are a safe integer. */
const PART = 2 ** 17;

/** The places of texts in the index. @param key `ServiceKeys.search`. */
interface Places {
  /** The rows of the words of a field. */
  of(field: SearchedField, texts: readonly string[]): SearchPlace[];
  /** The rows of everything that begins so: two ranges. */
  under(field: SearchedField, beginning: string): SearchRange[];
}

/**
 * One row holds all beginnings of a word: the shortest one is the partition, and the longer ones are the parts of the order, so that all words with a
 * beginning are a range. A record has one row in a partition. A further word there ("anna annalisa" has none, "anna anneliese" one) has a row for
 * each of its longer beginnings, in partitions of their own.
 *
 * The hashes are about the field too, so that they don't show that two fields begin alike. A part of 0 means that the word is shorter.
 */
function placesWith(key: KeyObject): Places {
  const hmac = hmacOfMany(key);
  const placeOf = (field: SearchedField, beginning: string): string =>
    hmac(`${field}\0${beginning}`).slice(0, HASH_CHARACTERS);
  const orderOf = (field: SearchedField, longer: readonly string[], rest: number): number =>
    LENGTHS.slice(1).reduce((order, _length, index) => {
      const beginning = longer[index];
      if (beginning === undefined) return order * PART + rest;
      const bits = Buffer.from(placeOf(field, beginning), "base64url").readUIntBE(0, 6);
      return order * PART + 1 + (bits % (PART - 1));
    }, 0);
  return {
    of(field, texts) {
      const rows = new Map<string, number>();
      for (const text of texts) {
        const [shortest = "", ...longer] = beginningsOf(text).toReversed();
        const at = placeOf(field, shortest);
        if (!rows.has(at)) rows.set(at, orderOf(field, longer, 0));
        else for (const each of longer) rows.set(placeOf(field, each), 0);
      }
      return [...rows];
    },
    under(field, beginning) {
      const [shortest = "", ...longer] = beginningsOf(beginning).toReversed();
      const from = orderOf(field, longer, 0);
      const ranges = [{ at: placeOf(field, shortest), from, to: orderOf(field, longer, PART - 1) }];
      const last = longer.at(-1);
      return last === undefined ? ranges : [...ranges, { at: placeOf(field, last), from: 0, to: 0 }];
    },
  };
}

/** The longest beginnings of these texts, without those that another one begins with: whoever finds those finds this one. */
function endsOf(texts: readonly string[]): string[] {
  const longest = [...new Set(texts.flatMap((text) => beginningsOf(text).slice(0, 1)))];
  return longest.filter((one) => !longest.some((other) => other !== one && other.startsWith(one)));
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
  const places = placesWith(key);
  const words = textsOf(account).flatMap(({ field, whole, words: parts }) =>
    places.of(field, endsOf([...parts, whole])),
  );
  const { sub, user_id } = account;
  return SEARCH_WORDS.record({ sub, user_id, words });
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

/** A way to find candidates: where they are, and which of them match. */
export interface SearchWay {
  readonly ranges: readonly SearchRange[];
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
  const places = placesWith(key);
  const way = (text: string, matches: SearchWay["matches"]): SearchWay[] => {
    const [beginning] = beginningsOf(text);
    if (beginning === undefined) return [];
    return [{ ranges: SEARCHED_FIELDS.flatMap((field) => places.under(field, beginning)), matches }];
  };
  const byWhole = words.length === 1 && words[0] === whole ? [] : way(whole, beginsWith(whole));
  return { byWord: words.slice(0, MAX_WORDS).flatMap((word) => way(word, hasWords(words))), byWhole };
}
