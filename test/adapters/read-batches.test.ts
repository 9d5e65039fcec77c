/** Reads of one tick are combined into one. */
import { beforeAll, beforeEach, expect, it } from "@jest/globals";
import { batchReads } from "../../adapters/read-batches.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { openSqlite } from "../../adapters/sqlite/record-store.ts";
import { closing } from "../closing.ts";

const PARENT = { kind: "grant", key: "g" };
const child = (key: string) => ({ kind: "code", key });
let store: RecordStore;
let sent: number[] = [];
let get: RecordStore["get"];

beforeAll(async () => {
  store = closing(await openSqlite({ path: ":memory:", clock: Date }));
  await store.commit({
    id: "one",
    deadline: Date.now() + 1_000,
    put: [
      { ...PARENT, value: { is: "g" } },
      ...["a", "b"].map((key) => ({ kind: "code", key, value: { is: key }, parent: PARENT })),
    ],
  });
});
beforeEach(() => {
  sent = [];
  get = batchReads((refs, options) => {
    sent.push(refs.length);
    return store.get(refs, options);
  });
});

const valuesOf = (found: Awaited<ReturnType<RecordStore["get"]>>): unknown[] =>
  found.map((each) => each?.value["is"]);

it("gives each caller what it asked for, in its order, with one read", async () => {
  const [one, none, two] = await Promise.all([
    get([child("b"), child("missing"), PARENT]),
    get([]),
    Promise.resolve().then(() => get([child("a")], { withParents: true })),
  ]);
  expect([one, none, two].map(valuesOf)).toEqual([["b", undefined, "g"], [], ["a"]]);
  expect(one?.map((found) => found?.parent)).toEqual([undefined, undefined, undefined]);
  expect(two?.[0]?.parent?.value).toEqual({ is: "g" });
  expect(sent).toEqual([4]);
  expect(valuesOf(await get([child("a")]))).toEqual(["a"]);
  expect(sent).toEqual([4, 1]);
});

it("sends large batches before the end of the tick", async () => {
  const all = await Promise.all(Array.from({ length: 100 }, () => get([child("a"), child("b")])));
  expect(all.map(valuesOf)).toEqual(all.map(() => ["a", "b"]));
  expect(sent).toEqual([64, 64, 64, 8]);
});

it("rejects all reads of a batch that fails, and no later ones", async () => {
  let fails = true;
  get = batchReads((refs) => (fails ? Promise.reject(new Error("not now")) : store.get(refs)));
  const settled = await Promise.allSettled([get([PARENT]), get([child("a")])]);
  expect(settled.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  fails = false;
  expect(valuesOf(await get([PARENT]))).toEqual(["g"]);
});
