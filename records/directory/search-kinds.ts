/** The kinds of the search for people: keyed hashes of the beginnings of their names, and how far the index is. */
import type { Position } from "../../adapters/record-store.ts";
import { defineKind, type Kind } from "../kinds.ts";
import { ACCOUNT } from "./directory-kinds.ts";

/** Where the search finds an account. */
export interface StoredSearchWords {
  readonly sub: string;
  readonly user_id: number;
  /** The places of its words in the index: see `accounts/search/search-words.ts`. */
  readonly words: readonly (readonly [at: string, order: number])[];
}

/** Apart from the account, so that only a change of a name writes it. */
export const SEARCH_WORDS: Kind<StoredSearchWords, "word"> = defineKind({
  name: "search-words",
  holds: "by which beginnings of its names the search finds an account",
  key: "the `sub`",
  keyOf: ({ sub }) => sub,
  index: { word: ({ words }) => words.map(([at, order]) => ({ at, order })) },
  indexFor: { word: "`accounts.list` with `search`" },
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  store: "storage",
  exported: true,
  afterRestore: "kept",
  // The key of the hashes is lost.
  afterReset: "removed",
  personal: "keyed hashes of the beginnings of e-mail address, username and surname; the `sub`",
});

export interface StoredSearchIndex {
  /** Whether every account has its words. */
  readonly complete: boolean;
  /** Where the next run of `storage reindex` continues, if the last one did not finish. */
  readonly after?: Position;
  /** The accounts that this run has done. */
  readonly done?: number;
}

export const SEARCH_INDEX: Kind<StoredSearchIndex> = defineKind<StoredSearchIndex>({
  name: "search-index",
  holds: "whether the search finds every account",
  key: "always the same",
  keyOf: () => "current",
  store: "storage",
  exported: true,
  // A position belongs to one store.
  carried: ({ complete }) => ({ complete }),
  afterRestore: "kept",
  afterReset: "removed",
  personal: undefined,
});

export const CURRENT_INDEX: ReturnType<typeof SEARCH_INDEX.ref> = SEARCH_INDEX.ref("current");
