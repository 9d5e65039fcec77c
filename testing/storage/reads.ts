/** The storage contract for reading: records, indexes, scans and counters. */
import type { IndexEntry, Page, Query, RecordStore } from "../../adapters/record-store.ts";
import type { TestRunner } from "./runner.ts";
import { commit, find, keysOf, ref, type Stage, thing } from "./stage.ts";

/** Values that are hard to store. */
const HOSTILE_VALUES = [
  {},
  { text: "\0 \ud800 \udfff \u2028 żółć 😀" },
  { "": 1, "a.b": 2, $where: 3, "\0": 4 },
  JSON.parse('{"__proto__": {"x": 1}, "constructor": 2, "toString": null}'),
  { numbers: [0, -1, 1.5, 1e300, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER] },
  { empty: [[], {}, "", null, false], deep: { a: { b: { c: [{ d: 1 }] } } } },
  { long: "x".repeat(100_000) },
];

/** Keys that look alike, or have a special meaning in some stores. */
const HOSTILE_KEYS = [
  "a",
  "A",
  "'",
  "''",
  '"',
  "\\",
  "%",
  "_",
  "*",
  "?",
  "[a]",
  "a:b",
  "a/b",
  "{a}",
  "$where",
  "a.b",
  "0",
  "00",
  "null",
  "__proto__",
  "constructor",
  "!",
  "~",
  "x".repeat(200),
  `${"x".repeat(199)}y`,
];

export function describeRecords(stage: Stage, { it, expect }: TestRunner): void {
  it("come back as they were written, with the id of their commit as version", async () => {
    const put = HOSTILE_VALUES.map((value, index) => thing(String(index), { value }));
    const version = await commit(stage, { put });
    for (const store of [stage.store, stage.second]) {
      expect(await store.get(put)).toEqual(
        put.map(({ kind, key, value }) => ({ kind, key, value, version })),
      );
    }
  });

  it("are found under exactly their kind and key, in the order asked for", async () => {
    await commit(stage, { put: HOSTILE_KEYS.map((key) => thing(key)) });
    await commit(stage, { put: [{ kind: "other", key: "a", value: { other: true } }] });
    const asked = [...HOSTILE_KEYS, "missing", ...HOSTILE_KEYS.toReversed()];
    const found = await stage.store.get(asked.map((key) => ref(key)));
    expect(keysOf(found)).toEqual(asked.map((key) => (key === "missing" ? undefined : key)));
    expect((await find(stage.store, "a", "other"))?.value).toEqual({ other: true });
    expect(await stage.store.get([])).toEqual([]);
  });

  it("are copies: what a caller does with its objects changes nothing", async () => {
    const value = { list: [1] };
    const written = commit(stage, { put: [thing("a", { value })] });
    value.list.push(2);
    await written;
    const first = await find(stage.store, "a");
    try {
      (first!.value["list"] as number[]).push(3);
    } catch {
      // Frozen, which is as good as a copy.
    }
    expect((await find(stage.store, "a"))?.value).toEqual({ list: [1] });
  });

  it("are replaced as a whole, and removed", async () => {
    await commit(stage, {
      put: [thing("a", { value: { one: 1, two: 2 }, expiresAt: stage.clock.now() + 9 })],
    });
    await find(stage.second, "a");
    const version = await commit(stage, { put: [thing("a", { value: { two: 3 } })] });
    const replaced = { kind: "thing", key: "a", value: { two: 3 }, version };
    expect(await find(stage.store, "a")).toEqual(replaced);
    expect(await find(stage.second, "a")).toEqual(replaced);
    await commit(stage, { remove: [ref("a"), ref("never-there")] });
    expect(await find(stage.store, "a")).toBeUndefined();
    expect(await find(stage.second, "a")).toBeUndefined();
  });

  it("are gone from the millisecond on in which they expire, swept or not", async () => {
    const expiresAt = stage.clock.now() + 1_000;
    const index = [{ name: "all", at: "x", order: 1 }];
    await commit(stage, { put: [thing("a", { expiresAt, index }), thing("b", { index })] });
    const query = { kind: "thing", index: "all", at: "x", limit: 9 };
    stage.clock.advance(999);
    expect(await find(stage.store, "a")).toMatchObject({ key: "a", expiresAt });
    expect(keysOf((await stage.store.list([query]))[0]?.records ?? [])).toHaveLength(2);
    stage.clock.advance(1);
    for (const round of [1, 2]) {
      expect(await find(stage.store, "a")).toBeUndefined();
      expect(keysOf((await stage.store.list([query]))[0]?.records ?? [])).toEqual(["b"]);
      expect(keysOf((await stage.store.scan("thing", undefined, 9)).records)).toEqual(["b"]);
      if (round === 1) expect(await stage.store.sweep(10, stage.clock.now())).toBeLessThanOrEqual(1);
    }
    expect(await stage.store.sweep(10, stage.clock.now())).toBe(0);
    await commit(stage, { expect: [{ ref: ref("a"), version: "absent" }], put: [thing("a")] });
    expect((await find(stage.store, "a"))?.expiresAt).toBeUndefined();
  });

  it("count up, from each number that was asked for, and never twice the same", async () => {
    const { store, second } = stage;
    expect(await store.next("people")).toBe(1);
    expect(await second.next("people")).toBe(2);
    expect(await store.next("people", 100)).toBe(100);
    expect(await store.next("people", 50)).toBe(101);
    expect(await store.next("others")).toBe(1);
    const numbers = await Promise.all(
      Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? store : second).next("people")),
    );
    expect(new Set(numbers).size).toBe(40);
    expect(Math.min(...numbers)).toBe(102);
  });
}

/** All pages of a query. */
async function everyPage(store: RecordStore, query: Query): Promise<string[]> {
  const keys: string[] = [];
  for (let after: string | undefined; ;) {
    const [page = { records: [] }] = await store.list([after === undefined ? query : { ...query, after }]);
    keys.push(...page.records.map(({ key }) => key));
    if (page.next === undefined) return keys;
    after = page.next;
  }
}

async function everyScan(store: RecordStore, kind: string, limit: number): Promise<string[]> {
  const keys: string[] = [];
  for (let after: string | undefined; ;) {
    const page: Page = await store.scan(kind, after, limit);
    keys.push(...page.records.map(({ key }) => key));
    if (page.next === undefined) return keys;
    after = page.next;
  }
}

const entry = (order: number, at = "x", name = "all"): IndexEntry => ({ name, at, order });

export function describeIndexes(stage: Stage, { it, expect }: TestRunner): void {
  const ORDERS = [5, -3, 0, Number.MAX_SAFE_INTEGER, 12, Number.MIN_SAFE_INTEGER, 1_800_000_000_000];
  const SORTED = ORDERS.toSorted((a, b) => a - b).map(String);
  const query: Query = { kind: "thing", index: "all", at: "x", limit: 2 };

  async function fill(): Promise<void> {
    await commit(stage, {
      put: [
        ...ORDERS.map((order) => thing(String(order), { index: [entry(order)] })),
        thing("elsewhere", { index: [entry(0, "y")] }),
        thing("other-index", { index: [entry(0, "x", "other")] }),
        { kind: "other", key: "kind", value: {}, index: [entry(0)] },
        thing("none"),
      ],
    });
  }

  it("show pages in order, both ways, between bounds, as far as the limit", async () => {
    await fill();
    expect(await everyPage(stage.store, query)).toEqual(SORTED);
    expect(await everyPage(stage.second, { ...query, descending: true })).toEqual(SORTED.toReversed());
    expect(await everyPage(stage.store, { ...query, from: -3, to: 12 })).toEqual(["-3", "0", "5", "12"]);
    expect(await everyPage(stage.store, { ...query, from: -3, to: 12, descending: true })).toEqual([
      "12",
      "5",
      "0",
      "-3",
    ]);
    expect(await everyPage(stage.store, { ...query, from: 1, to: 4 })).toEqual([]);
    expect(await everyPage(stage.store, { ...query, limit: 1 })).toEqual(SORTED);
    expect(await everyPage(stage.store, { ...query, limit: ORDERS.length })).toEqual(SORTED);
  });

  it("answer several queries at once, each with its own page, and count what they hold", async () => {
    await fill();
    const queries = [query, { ...query, at: "y" }, { ...query, at: "z" }, { ...query, index: "other" }];
    const counted = queries.map((each) => Object.assign({}, each, { limit: 10_000 }));
    const pages = await stage.store.list(queries);
    expect(pages.map(({ records }) => keysOf(records))).toEqual([
      SORTED.slice(0, 2),
      ["elsewhere"],
      [],
      ["other-index"],
    ]);
    expect(pages.map(({ next }) => next !== undefined)).toEqual([true, false, false, false]);
    expect(await stage.store.count(counted)).toEqual([ORDERS.length, 1, 0, 1]);
    expect(await stage.store.count([{ ...query, from: 0, to: 12, limit: 9 }])).toEqual([3]);
  });

  it("count no further than to the limit of each", async () => {
    await fill();
    const limits = [1, 2, ORDERS.length, ORDERS.length + 1];
    expect(await stage.store.count(limits.map((limit) => Object.assign({}, query, { limit })))).toEqual([
      1,
      2,
      ORDERS.length,
      ORDERS.length,
    ]);
    expect(await stage.store.count([{ ...query, from: 0, to: 12, limit: 2 }])).toEqual([2]);
  });

  it("show many records of one order once each", async () => {
    const index = [{ name: "all", at: "x", order: 7 }];
    const keys = Array.from({ length: 25 }, (_, number) => `key-${number}`);
    await commit(stage, { put: keys.map((key) => thing(key, { index })) });
    for (const descending of [false, true]) {
      const found = await everyPage(stage.store, { ...query, limit: 4, descending });
      expect(found.toSorted()).toEqual(keys.toSorted());
    }
  });

  it("follow a record: what it had and has no more is gone", async () => {
    const both = [entry(1), entry(4, "x", "other")];
    await commit(stage, { put: [thing("a", { index: both }), thing("b", { index: [entry(2)] })] });
    await commit(stage, { put: [thing("a", { index: [entry(3)] })] });
    expect(await everyPage(stage.second, query)).toEqual(["b", "a"]);
    expect(await everyPage(stage.second, { ...query, index: "other" })).toEqual([]);
    await commit(stage, { put: [thing("a", { index: [entry(3, "y")] })] });
    expect(await everyPage(stage.second, query)).toEqual(["b"]);
    await commit(stage, { put: [thing("a")], remove: [ref("b")] });
    for (const at of ["x", "y"]) expect(await everyPage(stage.second, { ...query, at })).toEqual([]);
    expect(await stage.store.count([query, { ...query, at: "y" }])).toEqual([0, 0]);
  });

  it("go on behind a page though what was on it has moved or is gone", async () => {
    await commit(stage, {
      put: [1, 2, 3, 4].map((order) => thing(String(order), { index: [entry(order)] })),
    });
    const [first] = await stage.store.list([query]);
    const moved = [thing("1", { index: [entry(9)] }), thing("0", { index: [entry(0)] })];
    await commit(stage, { put: moved, remove: [ref("2")] });
    expect(await everyPage(stage.store, { ...query, after: first?.next ?? "" })).toEqual(["3", "4", "1"]);
  });

  it("are not needed to scan a kind: what is there throughout comes at least once", async () => {
    await fill();
    const all = [...ORDERS.map(String), "elsewhere", "other-index", "none"];
    expect(new Set(await everyScan(stage.store, "thing", 3))).toEqual(new Set(all));
    const first = await stage.store.scan("thing", undefined, 3);
    const gone = all.filter((key) => !first.records.some((record) => record.key === key)).slice(0, 2);
    await commit(stage, { remove: gone.map((key) => ref(key)) });
    const rest: string[] = first.records.map(({ key }) => key);
    for (let after = first.next; after !== undefined;) {
      const page = await stage.second.scan("thing", after, 3);
      rest.push(...page.records.map(({ key }) => key));
      after = page.next;
    }
    expect(new Set(rest)).toEqual(new Set(all.filter((key) => !gone.includes(key))));
  });
}
