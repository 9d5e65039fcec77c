/** The storage contract with two processes at once, on every backend that several processes can have open. */
import { randomUUID } from "node:crypto";
import * as runner from "@jest/globals";
import type { Commit, Expectation, RecordData, RecordStore } from "../../adapters/record-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { find, keysOf, outcomes, ref, thing } from "../../testing/storage/stage.ts";
import { describeStorage } from "../../testing/storage/suite.ts";
import { rounds } from "../rounds.ts";
import { BACKENDS, type Ground } from "./backends.ts";
import { openAt } from "./open-at.ts";
import { StoreProcess } from "./two-processes.ts";
import { closing } from "../closing.ts";

const { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } = runner;
const clock = createSystemClock();

type Change = Omit<Commit, "id" | "deadline">;

/** Changes that two processes make at once, and how many of them succeed. */
interface Race {
  /** The records before, written in one commit. */
  readonly before: readonly RecordData[];
  /** @param version of those records. */
  readonly changes: (version: string) => readonly [one: readonly Change[], other: readonly Change[]];
  readonly atLeast: number;
  readonly atMost: number;
  /**
   * The keys that are found afterwards, if all are known. The partition `x` of the index `all` must have the same ones.
   */
  readonly found?: readonly string[];
}

const MANY = 10;
const many = (change: (number: number) => Change): [Change[], Change[]] => {
  const all = Array.from({ length: 2 * MANY }, (_, number) => change(number));
  return [all.slice(0, MANY), all.slice(MANY)];
};
const expecting = (key: string, version: string, kind = "thing"): Expectation => ({
  ref: ref(key, kind),
  version,
});
/** An indexed record whose value contains its position. */
const placed = (key: string, order: number, parts: Partial<RecordData> = {}): RecordData =>
  thing(key, { value: { order }, index: [{ name: "all", at: "x", order }], ...parts });
const query = { kind: "thing", index: "all", at: "x", limit: 100 };
const PARENT = { parent: ref("parent") };

const RACES: Readonly<Record<string, Race>> = {
  "at most one of two commits succeeds when each relies on the version that the other replaces": {
    before: [placed("a", 1), placed("b", 1)],
    changes: (version) => [
      [{ expect: [expecting("a", version)], put: [placed("b", 2)] }],
      [{ expect: [expecting("b", version)], put: [placed("a", 2)] }],
    ],
    atLeast: 0,
    atMost: 1,
    found: ["a", "b"],
  },
  "at most one of two commits succeeds when each relies on what the other removes": {
    before: [placed("a", 1), placed("b", 1)],
    changes: () => [
      [{ expect: [expecting("a", "present")], remove: [ref("b")] }],
      [{ expect: [expecting("b", "present")], remove: [ref("a")] }],
    ],
    atLeast: 0,
    atMost: 1,
  },
  "at most one of two commits succeeds when each relies on what the other removes or creates": {
    before: [placed("a", 1)],
    changes: () => [
      [{ expect: [expecting("a", "present")], put: [placed("c", 1)] }],
      [{ expect: [expecting("c", "absent")], remove: [ref("a")], put: [placed("c", 2)] }],
    ],
    atLeast: 0,
    atMost: 1,
    // Both keep `c`; `a` is there unless the second one won.
  },
  "one of many commits that replace the same version succeeds": {
    before: [placed("a", 1)],
    changes: (version) =>
      many((number) => ({ expect: [expecting("a", version)], put: [placed("a", number)] })),
    atLeast: 1,
    atMost: 1,
    found: ["a"],
  },
  "one of many commits that create the same record succeeds": {
    before: [],
    changes: () => many((number) => ({ expect: [expecting("a", "absent")], put: [placed("a", number)] })),
    atLeast: 1,
    atMost: 1,
    found: ["a"],
  },
  "one of many commits that create a record in place of an expired one succeeds, and the old children stay hidden":
    {
      before: [placed("parent", 1, { expiresAt: 1 }), placed("child", 1, PARENT)],
      changes: () =>
        many((number) => ({ expect: [expecting("parent", "absent")], put: [placed("parent", number)] })),
      atLeast: 1,
      atMost: 1,
      found: ["parent"],
    },
  "one of many commits that remove what they rely on succeeds": {
    before: [placed("a", 1)],
    changes: (version) => many(() => ({ expect: [expecting("a", version)], remove: [ref("a")] })),
    atLeast: 1,
    atMost: 1,
    found: [],
  },
  "a child that is put while its parent is removed is gone": {
    before: [placed("parent", 1)],
    changes: () => [[{ put: [placed("child", 1, PARENT)] }], [{ remove: [ref("parent")] }]],
    atLeast: 1,
    atMost: 2,
    found: [],
  },
  "a commit that relies on a child while its parent is removed comes before the removal, or fails": {
    before: [placed("parent", 1), placed("child", 1, PARENT)],
    changes: () => [
      [{ expect: [expecting("child", "present")], put: [placed("other", 1, PARENT)] }],
      [{ expect: [expecting("other", "absent")], put: [placed("other", 2)], remove: [ref("parent")] }],
    ],
    atLeast: 1,
    atMost: 1,
  },
  "a child that is put while its parent is removed and put again belongs to none or to the new one": {
    before: [placed("parent", 1), placed("first", 1, PARENT)],
    changes: () => [
      [{ put: [placed("parent", 2)] }, { put: [placed("parent", 3)] }],
      [{ put: [placed("child", 1, PARENT)] }, { put: [placed("parent", 4)] }],
    ],
    atLeast: 4,
    atMost: 4,
    found: ["child", "first", "parent"],
  },
  "many children are put under one parent": {
    before: [placed("parent", 1)],
    changes: () => many((number) => ({ put: [placed(`child-${number}`, number, PARENT)] })),
    atLeast: 2 * MANY,
    atMost: 2 * MANY,
    found: ["parent", ...Array.from({ length: 2 * MANY }, (_, number) => `child-${number}`)],
  },
  "many rely on one shared record": {
    before: [{ ...placed("service", 1), kind: "shared" }],
    changes: () =>
      many((number) => ({
        expect: [expecting("service", "present", "shared")],
        put: [placed(`account-${number}`, number)],
      })),
    atLeast: 2 * MANY,
    atMost: 2 * MANY,
  },
  "a shared record is removed by a commit that relies on nothing that was put beside it": {
    before: [{ ...placed("service", 1), kind: "shared" }, placed("closing", 1)],
    changes: () => [
      [{ expect: [expecting("service", "present", "shared")], put: [placed("closing", 2)] }],
      [{ expect: [expecting("closing", "present")], remove: [ref("service", "shared"), ref("closing")] }],
    ],
    atLeast: 1,
    atMost: 2,
  },
  "two commits that replace the same records in different orders both succeed": {
    before: [placed("a", 1), placed("b", 1)],
    changes: () => [[{ put: [placed("a", 2), placed("b", 2)] }], [{ put: [placed("b", 3), placed("a", 3)] }]],
    atLeast: 2,
    atMost: 2,
    found: ["a", "b"],
  },
  "many commits that put the same record without a condition all succeed": {
    before: [],
    changes: () => many((number) => ({ put: [placed("a", number)], relaxed: number % 2 === 0 })),
    atLeast: 2 * MANY,
    atMost: 2 * MANY,
    found: ["a"],
  },
};
const ROUNDS = rounds(3, 10);
const WRITES = rounds(40, 100);

/** With a long deadline, because many commits may conflict. @returns the version of the written records. */
async function commit(store: RecordStore, change: Change): Promise<string> {
  const id = randomUUID();
  await store.commit({ id, deadline: clock.now() + 20_000, ...change });
  return id;
}

/** The fewest reads of the other process. */
const LOOKS = 6;

/** Repeats a change in one process until the other one has read a few times. */
async function whileLooking(
  write: (round: number) => Promise<unknown>,
  look: () => Promise<void>,
): Promise<void> {
  const over = new AbortController();
  const enough = new AbortController();
  const looking = (async (): Promise<void> => {
    for (let looks = 1; !over.signal.aborted; looks += 1) {
      await look();
      if (looks === LOOKS) enough.abort();
    }
  })();
  // A failed read ends the writing, too.
  looking.catch(() => enough.abort());
  try {
    for (let round = 0; round < WRITES || !enough.signal.aborted; round += 1) await write(round);
  } finally {
    over.abort();
  }
  await looking;
}

describe.each(BACKENDS)("two processes on $name", ({ name, start }) => {
  describe("at once", () => {
    let ground: Ground;
    let address: string;
    let processes: StoreProcess[];

    beforeAll(async () => {
      processes = [new StoreProcess(), new StoreProcess()];
      ground = closing(await start());
    });
    afterAll(async () => {
      await Promise.all(processes.map((each) => each.kill()));
    });

    describeStorage(
      `${name}, half of it in another process`,
      {
        async open(stageClock) {
          address = await ground.newAddress();
          return openAt(address, stageClock);
        },
        reopen: (stageClock) => processes[0]!.open(address, stageClock),
      },
      runner,
    );

    describe("race", () => {
      let stores: readonly [RecordStore, RecordStore];

      beforeEach(async () => {
        address = await ground.newAddress();
        const [one, other] = await Promise.all(processes.map((each) => each.open(address, clock)));
        stores = [one!, other!];
      });
      afterEach(async () => {
        await Promise.all(stores.map((store) => store.close()));
      });

      it.each(Object.entries(RACES))("%s", async (_title, race) => {
        const [one, other] = stores;
        for (let round = 0; round < ROUNDS; round += 1) {
          const version = await commit(one, { put: race.before });
          const [first, second] = race.changes(version);
          const codes = await outcomes([
            ...first.map((change) => commit(one, change)),
            ...second.map((change) => commit(other, change)),
          ]);
          const done = codes.filter((code) => code === "done").length;
          expect(codes.filter((code) => code !== "done" && code !== "condition_failed")).toEqual([]);
          expect(done).toBeGreaterThanOrEqual(race.atLeast);
          expect(done).toBeLessThanOrEqual(race.atMost);
          for (const store of stores) {
            const [page] = await store.list([query]);
            const scanned = await store.scan("thing", undefined, 100);
            const keys = new Set(keysOf(scanned.records));
            expect(new Set(keysOf(page?.records ?? []))).toEqual(keys);
            if (race.found !== undefined) expect(keys).toEqual(new Set(race.found));
          }
          const { records } = await one.scan("thing", undefined, 100);
          await commit(other, { remove: [...records, ref("service", "shared")] });
        }
      });

      it("a page has a record once while it moves in the index, at the position that its value names", async () => {
        const [one, other] = stores;
        const rest = [2, 4, 6].map((order) => placed(`rest-${order}`, order));
        await commit(one, { put: [...rest, placed("moving", 0)] });
        await whileLooking(
          (round) => commit(one, { put: [placed("moving", (round * 3) % 8)] }),
          async () => {
            const [up, down] = await other.list([query, { ...query, descending: true }]);
            for (const [page, sign] of [
              [up, 1],
              [down, -1],
            ] as const) {
              const records = page?.records ?? [];
              expect(records).toHaveLength(4);
              expect(new Set(keysOf(records))).toEqual(new Set(["moving", "rest-2", "rest-4", "rest-6"]));
              const orders = records.map(({ value }) => Number(value["order"]));
              expect(orders).toEqual(orders.toSorted((a, b) => sign * (a - b)));
            }
          },
        );
      });

      it("a child is read with the parent that it was put with, or not at all", async () => {
        const [one, other] = stores;
        await whileLooking(
          async (round) => {
            await commit(one, { put: [placed("parent", round), placed("child", round, PARENT)] });
            await commit(one, { remove: [ref("parent")] });
          },
          async () => {
            const [child] = await other.get([ref("child")], { withParents: true });
            if (child !== undefined) expect(child.parent?.version).toBe(child.version);
            const [page] = await other.list([query]);
            for (const record of page?.records ?? []) expect(["child", "parent"]).toContain(record.key);
          },
        );
      });

      it("a scan has every record that stays, while others come and go", async () => {
        const [one, other] = stores;
        const rest = Array.from({ length: 40 }, (_, number) => placed(`rest-${number}`, number));
        await commit(one, { put: rest });
        await whileLooking(
          (round) =>
            commit(one, {
              put: [placed(`new-${round}`, round), placed(`rest-${round % 40}`, round)],
              remove: [ref(`new-${round - 5}`)],
            }),
          async () => {
            const seen = new Set<string>();
            let after: string | undefined;
            do {
              const page = await other.scan("thing", after, 7);
              for (const { key } of page.records) seen.add(key);
              after = page.next;
            } while (after !== undefined);
            expect(rest.filter(({ key }) => !seen.has(key))).toEqual([]);
          },
        );
      });

      it("a counter gives each process numbers of its own, in ascending order", async () => {
        const numbers = await Promise.all(
          stores.map(async (store, at) => {
            const own: number[] = [];
            for (let round = 0; round < 50; round += 1) {
              own.push(await store.next("people", round === 25 && at === 1 ? 1_000 : undefined));
            }
            return own;
          }),
        );
        expect(new Set(numbers.flat()).size).toBe(100);
        for (const own of numbers) expect(own).toEqual(own.toSorted((a, b) => a - b));
        expect(Math.max(...numbers.flat())).toBeGreaterThanOrEqual(1_024);
      });

      it("a store is prepared once by processes that open it at once", async () => {
        const fresh = await ground.newAddress();
        const opened = await Promise.all([0, 1, 0, 1].map((at) => processes[at]!.open(fresh, clock)));
        const numbers = await Promise.all(
          opened.flatMap((store) => Array.from({ length: 10 }, () => store.next("people"))),
        );
        expect(numbers.toSorted((a, b) => a - b)).toEqual(
          Array.from({ length: 40 }, (_, index) => index + 1),
        );
        await Promise.all(opened.map((store) => store.close()));
      });

      it("everything acknowledged is stored when its process is killed, and no commit is stored in part", async () => {
        const [, other] = stores;
        const dying = new StoreProcess();
        const store = await dying.open(address, clock);
        const acknowledged: string[] = [];
        let number = 0;
        const write = async (): Promise<void> => {
          for (;;) {
            const key = String((number += 1));
            const put = [placed(key, number), placed(`${key}-child`, number, { parent: ref(key) })];
            if ((await outcomes([commit(store, { put })]))[0] !== "done") return;
            acknowledged.push(key);
            if (acknowledged.length === 200) void dying.kill();
          }
        };
        await Promise.all(Array.from({ length: 8 }, write));
        // The server may still be running the last commands.
        await new Promise((resolve) => void setTimeout(resolve, 500));
        const there = await other.get(acknowledged.map((key) => ref(`${key}-child`)));
        expect(acknowledged.length).toBeGreaterThanOrEqual(200);
        expect(there.filter((record) => record === undefined)).toEqual([]);
        const keys = Array.from({ length: number }, (_, index) => String(index + 1));
        const both = await Promise.all(
          ["", "-child"].map((end) => other.get(keys.map((key) => ref(key + end)))),
        );
        expect(both[0]!.map((record) => record?.version)).toEqual(both[1]!.map((record) => record?.version));
        expect(await find(other, "none")).toBeUndefined();
      });
    });
  });
});
