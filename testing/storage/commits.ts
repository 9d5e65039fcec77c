/** The storage contract for writing: conditions, races, deadlines, parents and children. */
import { randomUUID } from "node:crypto";
import type { Commit, Expectation, RecordData, Ref } from "../../adapters/record-store.ts";
import type { TestRunner } from "./runner.ts";
import { commit, find, keysOf, outcomes, ref, type Stage, thing } from "./stage.ts";

/** Commits that break a rule of the interface, by what is wrong with them. */
const WRONG: Readonly<Record<string, Partial<Commit>>> = {
  "an empty id": { id: "" },
  "an id that means something": { id: "absent" },
  "a long id": { id: "x".repeat(65) },
  "no deadline": { deadline: Number.NaN },
  "an empty key": { put: [thing("")] },
  "a space in a key": { put: [thing("a b")] },
  "a letter with a dot": { put: [thing("ż")] },
  "a long key": { remove: [ref("x".repeat(201))] },
  "a kind in capitals": { put: [{ ...thing("a"), kind: "Thing" }] },
  "a broken order": { put: [thing("a", { index: [{ name: "all", at: "x", order: 0.5 }] })] },
  "a broken place": { put: [thing("a", { index: [{ name: "all", at: "", order: 1 }] })] },
  "a place in an index twice": {
    put: [thing("a", { index: [1, 2].map((order) => ({ name: "all", at: "x", order })) })],
  },
  "an end that is no number": { put: [thing("a", { expiresAt: Number.NaN })] },
  "a record twice": { put: [thing("a")], remove: [ref("a")] },
  "nothing to put where nothing is expected": { expect: [{ ref: ref("a"), version: "absent" }] },
};

const failed = (...keys: string[]): object => ({
  code: "condition_failed",
  refs: keys.map((key) => ref(key)),
});

export function describeCommits(stage: Stage, { it, expect }: TestRunner): void {
  it("write all or nothing, and name the records of which an expectation does not hold", async () => {
    const version = await commit(stage, { put: [thing("a"), thing("b")] });
    const rows: readonly (readonly [Expectation["version"], string, boolean])[] = [
      [version, "a", true],
      ["other", "a", false],
      ["present", "a", true],
      ["present", "none", false],
      [version, "none", false],
      ["absent", "none", true],
      ["absent", "a", false],
    ];
    for (const [wanted, key, holds] of rows) {
      const expectations = [{ ref: ref(key), version: wanted }];
      const put = wanted === "absent" ? [thing("w"), thing(key)] : [thing("w")];
      const written = commit(stage, { expect: expectations, put, remove: [ref("b")] });
      if (holds) await written;
      else await expect(written).rejects.toMatchObject(failed(key));
      expect((await find(stage.second, "w")) !== undefined).toBe(holds);
      expect((await find(stage.second, "b")) === undefined).toBe(holds);
      await commit(stage, { put: [thing("b")], remove: [ref("w"), ref("none")] });
    }
    const all = [ref("a"), ref("b"), ref("none")].map((one) => ({ ref: one, version: "other" }));
    const [result] = await Promise.allSettled([commit(stage, { expect: all })]);
    const { refs } = Reflect.get(result, "reason") as { readonly refs: readonly Ref[] };
    expect(new Set(keysOf(refs))).toEqual(new Set(["a", "b", "none"]));
  });

  it("give every record that they put the id of the commit as its version", async () => {
    const first = await commit(stage, { put: [thing("a"), thing("b")] });
    const second = await commit(stage, { put: [thing("b")] });
    const found = await stage.second.get([ref("a"), ref("b")]);
    expect(found.map((record) => record?.version)).toEqual([first, second]);
    const old = [{ ref: ref("b"), version: first }];
    await expect(commit(stage, { expect: old, put: [thing("b")] })).rejects.toMatchObject(failed("b"));
  });

  it("take an expired record for none", async () => {
    const version = await commit(stage, { put: [thing("a", { expiresAt: stage.clock.now() + 10 })] });
    stage.clock.advance(10);
    for (const wanted of [version, "present"]) {
      const written = commit(stage, { expect: [{ ref: ref("a"), version: wanted }], put: [thing("b")] });
      await expect(written).rejects.toMatchObject(failed("a"));
    }
    await commit(stage, { expect: [{ ref: ref("a"), version: "absent" }], put: [thing("a")] });
  });

  it("are refused after their deadline, and are not written later", async () => {
    const late = { id: randomUUID(), deadline: stage.clock.now(), put: [thing("a")] };
    await expect(stage.store.commit(late)).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(await find(stage.store, "a")).toBeUndefined();
  });

  it("are a TypeError when they break a rule of the interface, and write nothing", async () => {
    for (const wrong of Object.values(WRONG)) {
      const change: Commit = { id: randomUUID(), deadline: stage.clock.now() + 5_000, ...wrong };
      await expect(stage.store.commit(change)).rejects.toMatchObject({ name: "TypeError" });
    }
    expect((await stage.store.scan("thing", undefined, 9)).records).toEqual([]);
  });

  it("have one winner when many replace the same version, or create the same record", async () => {
    const { store, second } = stage;
    for (let round = 0; round < 20; round += 1) {
      const key = `round-${round}`;
      const wanted = round % 2 === 0 ? "absent" : await commit(stage, { put: [thing(key)] });
      const results = await outcomes(
        Array.from({ length: 20 }, (_, index) =>
          commit(
            { ...stage, store: index % 2 === 0 ? store : second },
            { expect: [{ ref: ref(key), version: wanted }], put: [thing(key, { value: { index } })] },
          ),
        ),
      );
      const counts = ["done", "condition_failed"].map((what) => results.filter((one) => one === what).length);
      expect([round, ...counts]).toEqual([round, 1, 19]);
      expect((await find(second, key))?.value).toEqual({ index: results.indexOf("done") });
    }
  });

  it("let at most one of two succeed that each rely on what the other changes", async () => {
    const { store, second } = stage;
    for (let round = 0; round < 20; round += 1) {
      const version = await commit(stage, { put: [thing("a"), thing("b")] });
      const relying = (other: string, own: string): Omit<Commit, "id" | "deadline"> => ({
        expect: [{ ref: ref(other), version }],
        put: [thing(own, { value: { round } })],
      });
      const results = await outcomes([
        commit(stage, relying("a", "b")),
        commit({ ...stage, store: second }, relying("b", "a")),
      ]);
      expect(results.filter((result) => result === "done").length).toBeLessThanOrEqual(1);
      const removal = await outcomes([
        commit(stage, { expect: [{ ref: ref("a"), version: "present" }], put: [thing("c")] }),
        commit(
          { ...stage, store: second },
          { expect: [{ ref: ref("c"), version: "absent" }], remove: [ref("a")], put: [thing("c")] },
        ),
      ]);
      expect(removal.filter((result) => result === "done").length).toBeLessThanOrEqual(1);
      await commit(stage, { remove: [ref("a"), ref("b"), ref("c")] });
    }
    expect(store).toBeDefined();
  });

  it("that are relaxed are as visible and as conditional as the others", async () => {
    const version = await commit(stage, { put: [thing("a")], relaxed: true });
    expect((await find(stage.second, "a"))?.version).toBe(version);
    const again = { expect: [{ ref: ref("a"), version: "absent" }], put: [thing("a")], relaxed: true };
    await expect(commit(stage, again)).rejects.toMatchObject(failed("a"));
  });
}

const child = (key: string, parts: Partial<RecordData> = {}): RecordData =>
  thing(key, { parent: ref("parent"), index: [{ name: "all", at: "x", order: 1 }], ...parts });

export function describeFamilies(stage: Stage, { it, expect }: TestRunner): void {
  const query = { kind: "thing", index: "all", at: "x", limit: 9 };
  const listed = async (): Promise<unknown> => keysOf((await stage.second.list([query]))[0]?.records ?? []);

  it("are read together", async () => {
    const version = await commit(stage, { put: [child("a"), thing("parent"), thing("alone")] });
    const [found, alone] = await stage.second.get([ref("a"), ref("alone")], { withParents: true });
    expect(found?.parent).toEqual({ kind: "thing", key: "parent", value: { key: "parent" }, version });
    expect(alone).not.toHaveProperty("parent");
    expect(await find(stage.second, "a")).not.toHaveProperty("parent");
  });

  it("need their parent when they are put", async () => {
    await expect(commit(stage, { put: [child("a"), thing("b")] })).rejects.toMatchObject({
      code: "condition_failed",
      refs: [ref("a")],
    });
    await commit(stage, { put: [thing("parent")] });
    await expect(commit(stage, { put: [child("a")], remove: [ref("parent")] })).rejects.toMatchObject({
      refs: [ref("a")],
    });
    expect(await find(stage.store, "a")).toBeUndefined();
    await commit(stage, { put: [child("a")] });
    expect(await listed()).toEqual(["a"]);
  });

  it("are not named when their parent is there, and has changed", async () => {
    await commit(stage, { put: [thing("parent")] });
    const expected = [
      { ref: ref("parent"), version: "other" },
      { ref: ref("a"), version: "absent" },
    ];
    await expect(commit(stage, { expect: expected, put: [child("a")] })).rejects.toMatchObject(
      failed("parent"),
    );
  });

  const endings: Readonly<Record<string, () => Promise<unknown>>> = {
    "is removed": () => commit(stage, { remove: [ref("parent")] }),
    expires: async () => {
      const expiresAt = stage.clock.now() + 10;
      await commit(stage, { put: [thing("parent", { expiresAt })] });
      stage.clock.advance(10);
    },
  };
  for (const [how, end] of Object.entries(endings)) {
    it(`are gone in the instant in which their parent ${how}, and never belong to a later one`, async () => {
      const version = await commit(stage, { put: [thing("parent"), child("a"), child("b")] });
      await stage.second.get([ref("a"), ref("b")]);
      await end();
      expect(keysOf(await stage.second.get([ref("a"), ref("b")]))).toEqual([undefined, undefined]);
      expect(await listed()).toEqual([]);
      expect((await stage.second.scan("thing", undefined, 9)).records).toEqual([]);
      for (const wanted of [version, "present"]) {
        const relying = { expect: [{ ref: ref("a"), version: wanted }], put: [thing("c")] };
        await expect(commit(stage, relying)).rejects.toMatchObject({ refs: [ref("a")] });
      }
      await commit(stage, { put: [thing("parent")] });
      expect(await find(stage.second, "a")).toBeUndefined();
      expect(await listed()).toEqual([]);
      await commit(stage, { expect: [{ ref: ref("a"), version: "absent" }], put: [child("a")] });
      expect(await listed()).toEqual(["a"]);
      for (let swept = 1; swept > 0;) swept = await stage.store.sweep(1, stage.clock.now());
      expect(keysOf(await stage.second.get([ref("parent"), ref("a"), ref("b")]))).toEqual([
        "parent",
        "a",
        undefined,
      ]);
    });
  }

  it("stay when their parent is replaced", async () => {
    await commit(stage, { put: [thing("parent"), child("a")] });
    await find(stage.second, "a");
    const version = await commit(stage, { put: [thing("parent", { value: { second: true } })] });
    const [found] = await stage.second.get([ref("a")], { withParents: true });
    expect(found?.parent).toMatchObject({ version, value: { second: true } });
  });

  it("are never put beside the removal of their parent by somebody else", async () => {
    const { store, second } = stage;
    for (let round = 0; round < 20; round += 1) {
      await commit(stage, { put: [thing("parent")] });
      const key = `child-${round}`;
      await outcomes([
        commit({ ...stage, store: second }, { put: [child(key)] }),
        commit(stage, { remove: [ref("parent")] }),
      ]);
      expect(await find(store, key)).toBeUndefined();
    }
    await commit(stage, { put: [thing("parent")] });
    expect(await listed()).toEqual([]);
  });

  it("are swept away a few at a time, and nothing else is", async () => {
    const keys = Array.from({ length: 10 }, (_, index) => `child-${index}`);
    await commit(stage, { put: [thing("parent"), ...keys.map((key) => child(key)), thing("alone")] });
    await commit(stage, { remove: [ref("parent")] });
    for (let swept = 1; swept > 0;) {
      swept = await stage.store.sweep(3, stage.clock.now());
      expect(swept).toBeLessThanOrEqual(3);
    }
    expect(await stage.store.count([query])).toEqual([0]);
    expect(keysOf((await stage.store.scan("thing", undefined, 99)).records)).toEqual(["alone"]);
  });
}
