/** `transact`, by two processes at once: two stores that are open on one storage, without a common memory. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../adapters/record-store.ts";
import { openSqlite } from "../../adapters/sqlite/record-store.ts";
import { AlreadyExists } from "../../core/errors.ts";
import { collectKinds, defineKind, type Kind } from "../../records/kinds.ts";
import { Records, type Rider, type Transaction } from "../../records/records.ts";
import { BACKENDS, type Ground } from "../adapters/backends.ts";
import { openAt } from "../adapters/open-at.ts";
import { ManualClock } from "./rules/stage.ts";
import { closing } from "../closing.ts";

interface Counter {
  readonly count: number;
}

const COUNTER: Kind<Counter, "all"> = defineKind<Counter, "all">({
  name: "counter",
  holds: "a number",
  key: "its name",
  index: { all: () => [{ at: "all" }] },
  store: "each",
  exported: false,
  afterRestore: "kept",
  personal: undefined,
});

const KINDS = collectKinds([COUNTER]);
const clock = new ManualClock();
const one = COUNTER.ref("one");
const other = COUNTER.ref("other");
const counter = (key: string, count: number) => COUNTER.record({ count }, { key });

/** Counts one more. */
function increment(records: Records): Promise<number> {
  return records.transact(async (tx) => {
    const { count } = (await tx.get(one)) ?? { count: 0 };
    tx.put(counter("one", count + 1));
    return count + 1;
  });
}

function create(records: Records): Promise<void> {
  return records.transact((tx) => tx.create(counter("new", 1), () => new AlreadyExists("the counter")));
}

function rider(tx: Transaction): void {
  tx.create(counter("rider", 1));
}

/** A store that counts its calls. */
async function counted(): Promise<{ readonly records: Records; readonly calls: string[] }> {
  const store = await openSqlite({ path: ":memory:", clock });
  const calls: string[] = [];
  const through: RecordStore = {
    ...store,
    get: (refs) => {
      calls.push(`get ${refs.map(({ key }) => key).join(",")}`);
      return store.get(refs);
    },
    commit: (change) => {
      calls.push("commit");
      return store.commit(change);
    },
  };
  return { records: new Records(through, clock, KINDS), calls };
}

for (const backend of BACKENDS)
  describe(`transactions in ${backend.name}`, () => {
    let ground: Ground;
    let stores: readonly RecordStore[];
    let records: readonly [Records, Records];

    beforeAll(async () => {
      ground = closing(await backend.start());
      const address = await ground.newAddress();
      stores = [await openAt(address, clock), await openAt(address, clock)];
      const [first, second] = stores.map((store) => new Records(store, clock, KINDS));
      records = [first!, second!];
    });
    afterAll(async () => {
      await Promise.all(stores.map((store) => store.close()));
    });

    const countOf = async (key: string): Promise<number | undefined> =>
      (await records[0].find<Counter>(COUNTER.ref(key)))?.value.count;

    it("lose no update", async () => {
      const counts = await Promise.all(
        Array.from({ length: 10 }, (_, index) => increment(records[index % 2]!)),
      );
      expect(counts.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 10 }, (_, index) => index + 1));
      await expect(countOf("one")).resolves.toBe(10);
    });

    it("rely on what they have only read, too: of two that each change what the other reads, one decides again", async () => {
      for (let round = 0; round < 10; round += 1) {
        await records[0].transact((tx) => {
          tx.overwrite(counter("one", 1));
          tx.overwrite(counter("other", 1));
        });
        // At most one of the two may be taken.
        const take = (each: Records, key: string) =>
          each.transact(async (tx) => {
            const [first, second] = await tx.getAll([one, other]);
            if (first!.count + second!.count > 1) tx.put(counter(key, 0));
          });
        await Promise.all([take(records[0], "one"), take(records[1], "other")]);
        expect((await countOf("one"))! + (await countOf("other"))!).toBe(1);
      }
    });

    it("create a record once: the others get their own error, or decide again", async () => {
      const outcomes = await Promise.allSettled([create(records[0]), create(records[1]), create(records[0])]);
      expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      expect(outcomes.filter(({ status }) => status === "rejected")).toMatchObject([
        { reason: { code: "already_exists" } },
        { reason: { code: "already_exists" } },
      ]);
      let tries = 0;
      await records[1].transact((tx) => {
        tries += 1;
        tx.create(counter(tries === 1 ? "new" : "newer", 1));
      });
      expect(tries).toBe(2);
    });

    it("decide again where what they have read has changed, too, instead of refusing what is there already", async () => {
      await records[0].transact((tx) => {
        tx.overwrite(counter("one", 1));
        tx.overwrite(counter("taken", 1));
      });
      const made = await records[1].transact(async (tx) => {
        const { count = 0 } = (await tx.get(one)) ?? {};
        if (count === 1) await records[0].transact((meanwhile) => meanwhile.overwrite(counter("one", 2)));
        const key = count === 1 ? "taken" : "free";
        tx.create(counter(key, 1), () => new AlreadyExists("the counter"));
        return key;
      });
      expect(made).toBe("free");
    });

    it("don't rely on what they have peeked at", async () => {
      await records[0].transact((tx) => tx.overwrite(counter("one", 1)));
      let tries = 0;
      await records[0].transact(async (tx) => {
        tries += 1;
        await tx.peekAll([one]);
        await records[1].transact((late) => late.overwrite(counter("one", 2)));
        tx.overwrite(counter("other", 5));
      });
      expect(tries).toBe(1);
      await expect(countOf("other")).resolves.toBe(5);
    });

    it("replace what they have listed, on condition that it is the same", async () => {
      await records[0].transact((tx) => tx.overwrite(counter("one", 1)));
      let tries = 0;
      await records[0].transact(async (tx) => {
        tries += 1;
        const [found = []] = await tx.list<Counter>([{ ...COUNTER.where("all", "all"), limit: 10 }]);
        expect(found).toContainEqual({ count: tries });
        if (tries === 1) await records[1].transact((late) => late.overwrite(counter("one", 2)));
        tx.put(counter("one", 7));
      });
      expect(tries).toBe(2);
      await expect(countOf("one")).resolves.toBe(7);
    });
  });

describe("what rides along with an operation", () => {
  it("is in its first commit, whatever else it commits, and in none that writes nothing", async () => {
    const { records, calls } = await counted();
    const result = await records.along(rider, async () => {
      await records.transact((tx) => tx.get(one));
      await records.transact((tx) => tx.overwrite(counter("one", 1)));
      await records.transact((tx) => tx.overwrite(counter("other", 1)));
      return "done";
    });
    expect([result, calls]).toEqual(["done", ["get one", "commit", "commit"]]);
    expect((await records.find(COUNTER.ref("rider")))?.version).toBe((await records.find(one))?.version);
    expect((await records.find(COUNTER.ref("rider")))?.version).not.toBe(
      (await records.find(other))?.version,
    );
  });

  it("is called again at each attempt, and what it has read is a condition of the commit", async () => {
    const { records } = await counted();
    await records.transact((tx) => tx.overwrite(counter("one", 1)));
    const seen: (number | undefined)[] = [];
    await records.along(
      async (tx) => {
        seen.push((await tx.get(one))?.count);
        if (seen.length === 1) await records.transact((late) => late.overwrite(counter("one", 2)));
        tx.overwrite(counter("rider", seen.length));
      },
      () => records.transact((tx) => tx.overwrite(counter("other", 1))),
    );
    expect(seen).toEqual([1, 2]);
    expect((await records.find<Counter>(COUNTER.ref("rider")))?.value).toEqual({ count: 2 });
  });

  it("refuses the operation by throwing: nothing is written, and nothing is tried again", async () => {
    const { records, calls } = await counted();
    const refused = records.along(
      () => Promise.reject(new AlreadyExists("the counter")),
      () => records.transact((tx) => tx.overwrite(counter("one", 1))),
    );
    await expect(refused).rejects.toThrow(AlreadyExists);
    expect(calls).toEqual([]);
    // A commit that failed has carried nothing: the next one does.
    await records.along(rider, async () => {
      await expect(
        records.transact((tx) => {
          tx.overwrite(counter("one", 1));
          throw new TypeError("not today");
        }),
      ).rejects.toThrow("not today");
      await records.transact((tx) => tx.overwrite(counter("other", 1)));
    });
    await expect(records.find(COUNTER.ref("rider"))).resolves.toBeDefined();
  });

  it("does not get into the commits of other operations, beside it, inside it or after it", async () => {
    const { records } = await counted();
    const write = (key: string) => records.transact((tx) => tx.overwrite(counter(key, 1)));
    const rides: string[] = [];
    const noting =
      (name: string): Rider =>
      (tx) =>
        void rides.push(
          `${name}: ${tx.changes
            .parts()
            .put.map(({ key }) => key)
            .join()}`,
        );
    const later: Promise<void>[] = [];
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    await Promise.all([
      records.along(noting("first"), async () => {
        await records.along(noting("inner"), () => write("inside"));
        await write("one");
        // The operation does not wait for this.
        later.push(isOver.then(() => write("later")));
      }),
      records.along(noting("second"), () => write("other")),
      records.along(noting("idle"), async () => {
        later.push(isOver.then(() => write("late")));
      }),
      write("beside"),
    ]);
    end();
    await Promise.all(later);
    expect(rides.toSorted()).toEqual(["first: one", "inner: inside", "second: other"]);
  });
});

describe("a transaction", () => {
  it("asks for nothing twice, and sees what it has written", async () => {
    const { records, calls } = await counted();
    await records.transact(async (tx) => {
      await tx.getAll([one, other]);
      await expect(tx.get(one)).resolves.toBeUndefined();
      tx.put(counter("one", 1));
      await expect(tx.get(one)).resolves.toEqual({ count: 1 });
      tx.put(counter("one", 2));
      tx.create(counter("new", 3));
      await expect(tx.getAll([COUNTER.ref("new"), one])).resolves.toEqual([{ count: 3 }, { count: 2 }]);
      tx.remove(other);
    });
    expect(calls).toEqual(["get one,other", "commit"]);
    await records.transact(async (tx) => {
      await tx.get(one);
      tx.remove(one);
      await expect(tx.get(one)).resolves.toBeUndefined();
    });
    await expect(records.find(one)).resolves.toBeUndefined();
  });

  it("that writes nothing commits nothing", async () => {
    const { records, calls } = await counted();
    await expect(records.transact((tx) => tx.get(one))).resolves.toBeUndefined();
    expect(calls).toEqual(["get one"]);
  });

  it("refuses to put what it has not read, and to remove what it has put", async () => {
    const { records } = await counted();
    await expect(records.transact((tx) => tx.put(counter("one", 1)))).rejects.toThrow(
      "put without being read",
    );
    await expect(
      records.transact((tx) => {
        tx.create(counter("one", 1));
        tx.remove(one);
      }),
    ).rejects.toThrow("put and removed");
    await expect(records.find(one)).resolves.toBeUndefined();
  });

  it("passes on what its work throws, and writes nothing", async () => {
    const { records, calls } = await counted();
    await expect(
      records.transact((tx) => {
        tx.create(counter("one", 1));
        throw new TypeError("not today");
      }),
    ).rejects.toThrow("not today");
    expect(calls).toEqual([]);
  });
});
