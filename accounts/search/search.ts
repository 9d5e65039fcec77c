/**
 * Finds and filters accounts for operators: by a whole name or identifier, and by the beginnings of words (decisions.md,
 * Search).
 */
import type { KeyObject } from "node:crypto";
import type { Found, Query, RecordStore, Ref } from "../../adapters/record-store.ts";
import { InvalidArgument, SignInError } from "../../core/errors.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import {
  ACCOUNT,
  type AccountReference,
  BY_NUMBER,
  SIGN_IN_NAME,
  USER_ID,
} from "../../records/directory/directory-kinds.ts";
import type { Records } from "../../records/records.ts";
import {
  CURRENT_INDEX,
  SEARCH_WORDS,
  type StoredSearchIndex,
  type StoredSearchWords,
} from "../../records/directory/search-kinds.ts";
import { readName, trimmed } from "../names.ts";
import type { AccountFilter } from "../operations/accounts.ts";
import { INCOMPLETE_INDEX } from "./search-index.ts";
import { readTerm, type SearchRange, type SearchTerm, type SearchWay, waysToFind } from "./search-words.ts";

/** More candidates than this are too many to look through. */
const MAX_CANDIDATES = 1_000;
/** Accounts that are read at a time. */
const PAGE = 100;
/** Accounts that one page of a filter without a search looks at. */
const MAX_LOOKED_AT = 1_000;

/** Which accounts, and from where on. */
interface Wanted extends AccountFilter {
  readonly limit: number;
  /** The `user_id` after which the page begins. */
  readonly after: number | undefined;
}

interface AccountPage {
  readonly accounts: readonly AccountRecord[];
  /** The `user_id` after which the next page begins. */
  readonly next: number | undefined;
}

/** The page of what was read, which ends with the `limit`th if there are more. */
function firstOf(accounts: readonly AccountRecord[], limit: number): AccountPage {
  const page = accounts.slice(0, limit);
  return { accounts: page, next: accounts.length > limit ? page.at(-1)?.user_id : undefined };
}

const accountIn = (found: Found): AccountRecord => found.value as unknown as AccountRecord;

function passes({
  service,
  portal,
  disabled,
  email_verified,
}: AccountFilter): (account: AccountRecord) => boolean {
  return (account) =>
    (service === undefined || Object.hasOwn(account.services, service)) &&
    (portal === undefined || account.portal === portal) &&
    (disabled === undefined || (account.disabled ?? false) === disabled) &&
    (email_verified === undefined || account.email_verified === email_verified);
}

/** Where the filter without a search begins: the smallest list that holds all that it wants. */
function partitionOf({ service, portal }: AccountFilter): ReturnType<typeof ACCOUNT.where> {
  if (service !== undefined) return ACCOUNT.where("service", service);
  return portal === undefined ? BY_NUMBER : ACCOUNT.where("portal", portal);
}

/** What a text names, and whether others can be found. */
interface Named {
  /** Whether the index has every account. */
  readonly isComplete: boolean;
  /** The accounts with this name or identifier, each once. */
  readonly exact: readonly AccountRecord[];
  /** Whether it is the whole `sub` or address of one, so that nothing else is meant. */
  readonly isWhole: boolean;
}

/** In two round trips at most. */
async function readNamed(store: RecordStore, typed: string): Promise<Named> {
  const text = trimmed(typed);
  const name = readName(text);
  const number = /^[1-9]\d{0,15}$/u.test(text) ? text : undefined;
  const refs: Ref[] = [CURRENT_INDEX, ACCOUNT.ref(text.toLowerCase())];
  if (name !== undefined) refs.push(SIGN_IN_NAME.ref(name));
  if (number !== undefined) refs.push(USER_ID.ref(number));
  const [index, bySub, ...others] = await store.get(refs, { withParents: true });
  const byName = name === undefined ? undefined : others[0]?.parent;
  const owner = number === undefined ? undefined : (others.at(-1)?.value as AccountReference | undefined);
  const [byNumber] = owner === undefined ? [] : await store.get([ACCOUNT.ref(owner.sub)]);
  const found = [bySub, byName, byNumber].filter((each) => each !== undefined).map(accountIn);
  return {
    isComplete: (index?.value as StoredSearchIndex | undefined)?.complete === true,
    exact: [...new Map(found.map((account) => [account.sub, account])).values()],
    isWhole: bySub !== undefined || (byName !== undefined && name?.includes("@") === true),
  };
}

/** Each account once, ordered by `user_id`. */
function inOrder(found: readonly StoredSearchWords[]): readonly StoredSearchWords[] {
  const bySub = new Map(found.map((each) => [each.sub, each]));
  return [...bySub.values()].toSorted((one, other) => one.user_id - other.user_id);
}

/** Accounts that may match, and how they do. */
interface Candidates {
  /** Ordered by `user_id`. */
  readonly all: readonly StoredSearchWords[];
  readonly matches: SearchWay["matches"];
}

const NOBODY: Candidates = { all: [], matches: () => false };

/** A way, and how many candidates it has: accounts that are found by several fields count several times. */
interface CountedWay extends SearchWay {
  readonly count: number;
  /** Whether one field alone has too many. */
  readonly isWide: boolean;
}

const queryOf = ({ at, ...bounds }: SearchRange, limit: number): Query => ({
  ...SEARCH_WORDS.where("word", at),
  ...bounds,
  limit,
});

/** In one round trip, which reads no candidate. */
async function countWays(store: RecordStore, ways: readonly SearchWay[]): Promise<CountedWay[]> {
  const counts = await store.count(
    ways.flatMap(({ ranges }) => ranges.map((range) => queryOf(range, MAX_CANDIDATES + 1))),
  );
  let at = 0;
  return ways.map((way) => {
    const own = counts.slice(at, (at += way.ranges.length));
    const count = own.reduce((sum, each) => sum + each, 0);
    return { ...way, count, isWide: own.some((each) => each > MAX_CANDIDATES) };
  });
}

/** The candidates of all these ways; `undefined` if there are too many, which takes reading them if some were counted several times. */
async function candidatesOf(
  store: RecordStore,
  ways: readonly CountedWay[],
): Promise<Candidates | undefined> {
  if (ways.length === 0 || ways.some(({ isWide }) => isWide)) return undefined;
  const pages = await store.list(
    ways.flatMap(({ ranges }) => ranges.map((range) => queryOf(range, MAX_CANDIDATES))),
  );
  const all = inOrder(
    pages.flatMap(({ records }) => records.map(({ value }) => value as unknown as StoredSearchWords)),
  );
  if (all.length > MAX_CANDIDATES) return undefined;
  return { all, matches: (account) => ways.some(({ matches }) => matches(account)) };
}

/**
 * Those whose names have all words of the term, and those with a name that begins with the whole term.
 * @throws SignInError `search_too_wide`.
 */
async function candidatesFor(store: RecordStore, term: SearchTerm, key: KeyObject): Promise<Candidates> {
  const { byWord, byWhole } = waysToFind(term, key);
  const counted = await countWays(store, [...byWord, ...byWhole]);
  const whole = counted.slice(byWord.length).filter(({ isWide }) => !isWide);
  const [narrowest] = counted.slice(0, byWord.length).toSorted((one, other) => one.count - other.count);
  const found = await candidatesOf(store, narrowest === undefined ? whole : [narrowest, ...whole]);
  if (found !== undefined) return found;
  // What has no blanks is the beginning of an address or a double name, whoever else has its words.
  const isOneName = !term.whole.includes(" ") && whole.some(({ count }) => count > 0);
  const named = isOneName ? await candidatesOf(store, whole) : undefined;
  if (named !== undefined) return named;
  throw new SignInError(
    "search_too_wide",
    `more than ${MAX_CANDIDATES} accounts have names that begin like this: type more of the name`,
  );
}

export interface AccountSearch {
  /**
   * One page of accounts, ordered by `user_id`; first those that the text names exactly. A page of a search is full or the last one;
   * without a search it may be short.
   * @throws SignInError `search_too_wide`, `search_incomplete`.
   * @throws InvalidArgument for a text that is too short to search for.
   */
  list(wanted: Wanted): Promise<AccountPage>;
}

/** @param key `ServiceKeys.search`. */
export function createAccountSearch(records: Records, key: KeyObject): AccountSearch {
  /** All accounts that pass the filters. */
  async function filtered({ limit, after, ...filters }: Wanted): Promise<AccountPage> {
    const holds = passes(filters);
    const isFiltered = Object.values(filters).some((value) => value !== undefined);
    const accounts: AccountRecord[] = [];
    let looked = 0;
    const pages = records.pages({
      ...partitionOf(filters),
      from: after === undefined ? undefined : after + 1,
      limit: Math.min(MAX_LOOKED_AT, Math.max(isFiltered ? PAGE : 1, limit + 1)),
    });
    for await (const page of pages) {
      const read = page.records.map(accountIn);
      accounts.push(...read.filter(holds));
      looked += read.length;
      if (accounts.length > limit) return firstOf(accounts, limit);
      const last = read.at(-1)?.user_id;
      if (isFiltered && looked >= MAX_LOOKED_AT && page.next !== undefined && last !== undefined)
        return { accounts, next: last };
    }
    return { accounts, next: undefined };
  }

  /** The accounts that may match, beside those that the text names. */
  async function othersOf(search: string, { isComplete, isWhole }: Named): Promise<Candidates> {
    if (isWhole) return NOBODY;
    if (!isComplete) throw new SignInError("search_incomplete", INCOMPLETE_INDEX);
    const term = readTerm(search);
    if (term === undefined)
      throw new InvalidArgument({ path: "filter.search", message: "must have at least three characters" });
    return candidatesFor(records.store, term, key);
  }

  async function searched({
    search,
    limit,
    after,
    ...filters
  }: Wanted & { search: string }): Promise<AccountPage> {
    const holds = passes(filters);
    const named = await readNamed(records.store, search);
    const exact = named.exact.filter(holds);
    const others = await othersOf(search, named).catch((error: unknown) => {
      // Who is named exactly is found, however many others begin alike.
      if (exact.length > 0 && (error instanceof SignInError || error instanceof InvalidArgument))
        return NOBODY;
      throw error;
    });
    const shown = exact.findIndex(({ user_id }) => user_id === after) + 1;
    const isFirst = after === undefined || shown > 0;
    const accounts = isFirst ? exact.slice(shown) : [];
    const from = isFirst ? 0 : after;
    const rest = others.all.filter(
      ({ sub, user_id }) => user_id > from && exact.every((account) => account.sub !== sub),
    );
    // First as many as a page has, if each of them passes.
    for (
      let at = 0, size = limit + 1;
      at < rest.length && accounts.length <= limit;
      at += size, size = PAGE
    ) {
      const found = await records.store.get(rest.slice(at, at + size).map(({ sub }) => ACCOUNT.ref(sub)));
      const read = found.filter((each) => each !== undefined).map(accountIn);
      accounts.push(...read.filter((account) => holds(account) && others.matches(account)));
    }
    return firstOf(accounts, limit);
  }

  return {
    list: ({ search, ...wanted }) =>
      search === undefined ? filtered(wanted) : searched({ ...wanted, search }),
  };
}
