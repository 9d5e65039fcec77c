/** The storage contract as tests. Every backend passes all of them, or gives a reason for each exception. */
import { describeCommits, describeFamilies } from "./commits.ts";
import { describeIndexes, describeRecords } from "./reads.ts";
import { leavingOut, type TestRunner } from "./runner.ts";
import { commit, ManualClock, outcomes, ref, type Stage, type StorageBackend, thing } from "./stage.ts";

function describeLife(stage: Stage, { expect, it }: TestRunner, backend: StorageBackend): void {
  it("answers a ping with its own time, which only goes on", async () => {
    const before = await stage.store.ping();
    stage.clock.advance(-1_000_000);
    await new Promise((resolve) => void setTimeout(resolve, 20));
    expect(await stage.second.ping()).toBeGreaterThan(before);
  });

  it("refuses every call after it is closed, and can be closed twice", async () => {
    const { store } = stage;
    const query = { kind: "thing", index: "all", at: "x", limit: 1 };
    await store.close();
    await store.close();
    const calls = [
      store.get([ref("a")]),
      store.list([query]),
      store.scan("thing", undefined, 1),
      store.count([query]),
      commit(stage, { put: [thing("a")] }),
      store.next("people"),
      store.sweep(1, stage.clock.now()),
      store.ping(),
    ];
    expect(await outcomes(calls)).toEqual(calls.map(() => "storage_unavailable"));
  });

  it("finishes what was begun before it is closed", async () => {
    const written = commit(stage, { put: [thing("a")] });
    await stage.store.close();
    await expect(written).resolves.toBeDefined();
  });

  if (backend.reopen === undefined) return;
  const reopen = backend.reopen.bind(backend);
  it("keeps everything through a restart", async () => {
    const index = [{ name: "all", at: "x", order: 1 }];
    await commit(stage, {
      put: [
        thing("parent", { expiresAt: stage.clock.now() + 60_000 }),
        thing("child", { parent: ref("parent"), index }),
      ],
    });
    const before = await stage.store.get([ref("child")], { withParents: true });
    const number = await stage.store.next("people");
    await Promise.all([stage.store.close(), stage.second.close()]);
    stage.store = stage.second = await reopen(stage.clock);
    expect(await stage.store.get([ref("child")], { withParents: true })).toEqual(before);
    expect(
      (await stage.store.list([{ kind: "thing", index: "all", at: "x", limit: 9 }]))[0]?.records,
    ).toHaveLength(1);
    expect(await stage.store.next("people")).toBeGreaterThan(number);
  });

  it("tells about what another connection has committed, where it can", async () => {
    const { promise, resolve } = Promise.withResolvers<"told">();
    const end = stage.store.watch?.(["thing"], () => resolve("told"));
    if (end === undefined) return;
    // A hint may be lost while the watch starts, so it is given repeatedly.
    let heard: string = "nothing";
    for (let round = 0; round < 100 && heard !== "told"; round += 1) {
      await commit({ ...stage, store: stage.second }, { put: [thing("a")] });
      const silence = new Promise<"nothing">((done) => void setTimeout(done, 50, "nothing"));
      heard = await Promise.race([promise, silence]);
    }
    end();
    expect(heard).toBe("told");
  });
}

type Cases = (stage: Stage, runner: TestRunner, backend: StorageBackend) => void;

const PARTS: Readonly<Record<string, Cases>> = {
  records: describeRecords,
  commits: describeCommits,
  "parents and children": describeFamilies,
  indexes: describeIndexes,
  "from opening to closing": describeLife,
};

/**
 * The shared suite: every backend passes it, or lists its exceptions with reasons.
 *
 * ```ts
 * import * as runner from "@jest/globals"; // or from "vitest"
 * import { describeStorage } from "sign-in-service/testing";
 *
 * describeStorage("my store", { open: (clock) => openMyStore({ clock }) }, runner);
 * ```
 * @param name of the backend, for the titles of the tests.
 * @param runner the functions of the test runner; see {@link TestRunner}.
 */
export function describeStorage(name: string, backend: StorageBackend, runner: TestRunner): void {
  const { runner: sifted, unmet } = leavingOut(backend.differences ?? {}, runner);
  const { afterEach, beforeEach, expect, it } = runner;
  runner.describe(`the storage contract on ${name}`, () => {
    // Filled in before each case, and read when the case runs.
    const stage = {} as Stage;

    beforeEach(async () => {
      stage.clock = new ManualClock();
      stage.store = await backend.open(stage.clock);
      stage.second = (await backend.reopen?.(stage.clock)) ?? stage.store;
    });
    afterEach(async () => {
      await Promise.all([stage.store.close(), stage.second.close()]);
    });

    for (const [title, cases] of Object.entries(PARTS)) {
      sifted.describe(title, () => cases(stage, sifted, backend));
    }
    it("has all the cases that the backend leaves out", () => {
      expect(unmet()).toEqual([]);
    });
  });
}
