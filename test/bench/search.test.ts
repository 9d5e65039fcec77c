/** What a search asks of a storage, whatever the machine: its calls, and the records that they read. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { AccountSearch } from "../../accounts/search/search.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { postgresBulk, sqliteBulk } from "../../bench/growth/bulk.ts";
import { fillPeople, openMain, type Sample, searchesOf, searchOf } from "../../bench/growth/search.ts";
import { countPostgres, countSqlite } from "../../bench/statements/counters.ts";
import { DatabaseFiles } from "../adapters/sqlite/database-files.ts";
import { closing } from "../closing.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";

/** Enough that thousands share a first name or a domain, and some hundreds a surname. */
const ACCOUNTS = 20_000;
/** Of a page. */
const LIMIT = 50;

type Wanted = Parameters<AccountSearch["list"]>[0];

/** The calls of a store, and the records that they read. */
interface Reads {
  get: number;
  list: number;
  count: number;
  records: number;
}

/** A store that counts. */
function counting(store: RecordStore): { readonly store: RecordStore; readonly take: () => Reads } {
  let reads: Reads = { get: 0, list: 0, count: 0, records: 0 };
  const counted: Pick<RecordStore, "get" | "list" | "count"> = {
    async get(refs, options) {
      const found = await store.get(refs, options);
      reads.get += 1;
      reads.records += found.filter((each) => each !== undefined).length;
      return found;
    },
    async list(queries) {
      const pages = await store.list(queries);
      reads.list += 1;
      reads.records += pages.reduce((sum, { records }) => sum + records.length, 0);
      return pages;
    },
    count(queries) {
      reads.count += 1;
      return store.count(queries);
    },
  };
  return {
    store: Object.assign(Object.create(store) as RecordStore, counted),
    take() {
      const taken = reads;
      reads = { get: 0, list: 0, count: 0, records: 0 };
      return taken;
    },
  };
}

const PLACES = ["SQLite", "PostgreSQL"] as const;

/** What each place has, once it is filled. */
interface Filled {
  readonly search: AccountSearch;
  readonly take: () => Reads;
  /** Statements since the last call, if somebody counts them. */
  readonly statements: () => Promise<number>;
}

describe.each(PLACES)("a search among many on %s", (place) => {
  let sample: Sample;
  let filled: Filled;
  let common: string;
  let shared: string;

  beforeAll(async () => {
    const isFile = place === "SQLite";
    const file = new DatabaseFiles().next();
    const address = isFile ? `sqlite:${file}` : await closing(await openOwnPostgres()).newDatabase();
    // With its tables.
    await (await openMain(address)).close();
    sample = await fillPeople([isFile ? sqliteBulk(file) : await postgresBulk(address)], ACCOUNTS);
    const counter = closing(isFile ? { ...countSqlite(), url: address } : await countPostgres(address));
    const { store, take } = counting(closing(await openMain(counter.url)));
    if ("begin" in counter) await counter.begin();
    filled = { search: searchOf(store), take, statements: async () => (await counter.take()).statements };
    const byCount = [...sample.surnames].toSorted(([, one], [, other]) => other - one);
    common = byCount[0]?.[0] ?? "";
    shared = byCount.find(([, count]) => count <= 3)?.[0] ?? "";
  }, 120_000);

  /** What a search reads, and how many statements that takes. */
  async function costs(
    wanted: Partial<Wanted>,
  ): Promise<Reads & { shown: number | string; statements: number }> {
    filled.take();
    await filled.statements();
    const found = await filled.search
      .list({ limit: LIMIT, after: undefined, ...wanted })
      .catch((error: unknown) => String(Reflect.get(Object(error), "code")));
    const shown = typeof found === "string" ? found : found.accounts.length;
    return { ...filled.take(), shown, statements: await filled.statements() };
  }

  it("looks up whole names, and reads nothing of the index [D-ADM-271]", async () => {
    const [{ sub, email, user_id } = { sub: "", email: "", user_id: 0 }] = sample.people;
    // Beside the account, whether the index is complete.
    expect(await costs({ search: email })).toMatchObject({ get: 1, list: 0, count: 0, records: 2, shown: 1 });
    expect(await costs({ search: sub })).toMatchObject({ get: 1, list: 0, count: 0, records: 2, shown: 1 });
    const byNumber = await costs({ search: `${user_id}` });
    expect(byNumber.get + byNumber.list + byNumber.count).toBeLessThanOrEqual(3);
    expect(byNumber.records).toBeLessThanOrEqual(3);
  });

  it("counts first: one that is too wide reads no account [D-ADM-270, D-ADM-173]", async () => {
    for (const search of ["gmail", "gmail com", "com", "gma"]) {
      const { statements, ...reads } = await costs({ search });
      expect(reads).toEqual({ get: 1, list: 0, count: 1, records: 1, shown: "search_too_wide" });
      // On SQLite a statement for each range: two of each field for each word and the whole, but one for three letters.
      expect(statements).toBeLessThanOrEqual(place === "SQLite" ? 16 : 3);
    }
  });

  it("reads what a page needs, in a few round trips [D-ADM-271]", async () => {
    const rare = await costs({ search: shared });
    expect(rare).toMatchObject({ get: 2, list: 1, count: 1 });
    expect(rare.statements).toBeLessThanOrEqual(place === "SQLite" ? 14 : 5);
    const first = await costs({ search: common });
    expect(first).toMatchObject({ get: 2, list: 1, count: 1, shown: LIMIT });
    // Each candidate is in the index at most three times, and read once; accounts are read as far as the page needs.
    const candidates = (await costs({ search: common, limit: 200 })).shown as number;
    expect(first.records).toBeLessThanOrEqual(1 + 3 * candidates + LIMIT + 1);
    const nobody = await costs({ search: common, service: "none" });
    expect([nobody.shown, nobody.records <= 1 + 4 * candidates]).toEqual([0, true]);
    expect(nobody.list + nobody.get).toBeLessThanOrEqual(20);
  });

  it("takes the narrowest of several words [D-ADM-271, D-ADM-170]", async () => {
    const both = await costs({ search: `gmail ${shared}` });
    expect(both).toMatchObject({ get: 2, list: 1, count: 1 });
    expect(both.records).toBeLessThanOrEqual(20);
  });

  it("reads every kind of search that is measured within the same bounds [D-ADM-271]", async () => {
    for (const [name, wanted] of Object.entries(searchesOf(sample)))
      for (let at = 0; at < 10; at += 1) {
        const { get, list, count, records } = await costs(wanted(at));
        expect([name, get + list + count <= 40, records <= 4_000]).toEqual([name, true, true]);
      }
  });
});
