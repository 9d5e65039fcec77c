/** The contract of the artifact store: what is kept, found, consumed and forgotten. */
import { ANSWERED_WITHIN } from "../../../adapters/artifacts.ts";
import { describeKeys } from "./artifact-keys.ts";
import type { TestRunner } from "./runner.ts";
import { artifact, commit, outcomes, type Stage } from "./stage.ts";

const MODELS = [
  "Session",
  "Grant",
  "AuthorizationCode",
  "AccessToken",
  "RefreshToken",
  "Interaction",
  "PushedAuthorizationRequest",
];

/** @param stage the store of the running case. */
export function describeArtifacts(stage: Stage, runner: TestRunner): void {
  const { describe, expect, it } = runner;
  for (const model of MODELS) {
    const sample = (key: string, parts = {}) => artifact(stage.clock, model, key, parts);
    describe(model, () => {
      it("is found with the grant of its family, as long as each is there", async () => {
        const { artifacts } = stage.storage;
        const grant = artifact(stage.clock, "Grant", "g", { grantKey: "g" });
        const member = sample("k", { grantKey: "g", expiresAt: grant.expiresAt + 1000 });
        await expect(artifacts.findWithGrant(model, "k")).resolves.toBeUndefined();
        await commit(stage, { kind: "put", artifact: member }, { kind: "put", artifact: sample("alone") });
        await expect(artifacts.findWithGrant(model, "k")).resolves.toEqual({
          artifact: member,
          grant: undefined,
        });
        await expect(artifacts.findWithGrant(model, "alone")).resolves.toMatchObject({ grant: undefined });
        await commit(stage, { kind: "put", artifact: grant });
        await expect(artifacts.findWithGrant(model, "k")).resolves.toEqual({ artifact: member, grant });
        stage.clock.advance(grant.expiresAt - stage.clock.now());
        await expect(artifacts.findWithGrant(model, "k")).resolves.toEqual({
          artifact: member,
          grant: undefined,
        });
        stage.clock.advance(1000);
        await expect(artifacts.findWithGrant(model, "k")).resolves.toBeUndefined();
      });

      it("is found as it was put, until the millisecond in which it expires", async () => {
        const { clock } = stage;
        const full = sample("k", {
          grantKey: "g",
          uid: "u",
          accountId: "a",
          clientId: "c",
          expiresAt: clock.now() + 1000.25,
        });
        await commit(stage, { kind: "put", artifact: full }, { kind: "put", artifact: sample("bare") });
        await expect(stage.storage.artifacts.find(model, "k")).resolves.toEqual(full);
        await expect(stage.storage.artifacts.findByUid(model, "u")).resolves.toEqual(full);
        const bare = await stage.storage.artifacts.find(model, "bare");
        expect(Object.keys(bare ?? {}).toSorted()).toEqual(["expiresAt", "key", "model", "payload"]);
        clock.advance(1000);
        await expect(stage.storage.artifacts.find(model, "k")).resolves.toEqual(full);
        clock.advance(0.25);
        await expect(stage.storage.artifacts.find(model, "k")).resolves.toBeUndefined();
        await expect(stage.storage.artifacts.findByUid(model, "u")).resolves.toBeUndefined();
      });

      it("is replaced by a put and by an update", async () => {
        await commit(stage, { kind: "put", artifact: sample("k", { uid: "u", payload: { n: 1 } }) });
        await commit(stage, { kind: "put", artifact: sample("k", { payload: { n: 2 } }) });
        await expect(stage.storage.artifacts.find(model, "k")).resolves.toEqual(
          sample("k", { payload: { n: 2 } }),
        );
        await commit(stage, { kind: "update", artifact: sample("k", { clientId: "c", payload: { n: 3 } }) });
        await expect(stage.storage.artifacts.find(model, "k")).resolves.toEqual(
          sample("k", { clientId: "c", payload: { n: 3 } }),
        );
      });

      it("is consumed by exactly one of 50 that try at once", async () => {
        await commit(stage, { kind: "put", artifact: sample("k") });
        const codes = await outcomes(
          Array.from({ length: 50 }, (_, index) =>
            commit(
              stage,
              { kind: "consume", model, key: "k", at: 1000 + index, replay: `sealed ${index}` },
              { kind: "put", artifact: artifact(stage.clock, "AccessToken", `child ${index}`) },
            ),
          ),
        );
        expect(codes.filter((code) => code === undefined)).toHaveLength(1);
        expect(codes.filter((code) => code === "condition_failed")).toHaveLength(49);
        const winner = codes.indexOf(undefined);
        await expect(stage.storage.artifacts.find(model, "k")).resolves.toEqual(
          sample("k", { consumedAt: 1000 + winner, replay: `sealed ${winner}` }),
        );
        const children = await Promise.all(
          codes.map((_, index) => stage.storage.artifacts.find("AccessToken", `child ${index}`)),
        );
        expect(children.filter((child) => child !== undefined).map(({ key }) => key)).toEqual([
          `child ${winner}`,
        ]);
      });

      it("is gone after a remove, and after its account or its client is removed", async () => {
        await commit(
          stage,
          { kind: "put", artifact: sample("1") },
          { kind: "put", artifact: sample("2", { accountId: "a" }) },
          { kind: "put", artifact: sample("3", { clientId: "c" }) },
          { kind: "put", artifact: sample("4", { accountId: "b", clientId: "d" }) },
        );
        await commit(stage, { kind: "remove", model, key: "1", mustExist: true });
        const listed = await stage.storage.artifacts.listByAccount({ accountId: "a", models: [model] });
        expect(listed.map((one) => [one.model, one.key])).toEqual([[model, "2"]]);
        await expect(
          stage.storage.artifacts.listByAccount({ accountId: "a", models: ["Other"] }),
        ).resolves.toEqual([]);
        await expect(stage.storage.artifacts.listByAccount({ accountId: "none" })).resolves.toEqual([]);
        await expect(stage.storage.artifacts.removeByAccount({ accountId: "a" })).resolves.toBe(1);
        await expect(stage.storage.artifacts.removeByClient("c")).resolves.toBe(1);
        const found = await Promise.all(
          ["1", "2", "3", "4"].map((key) => stage.storage.artifacts.find(model, key)),
        );
        expect(found.map((one) => one?.key)).toEqual([undefined, undefined, undefined, "4"]);
      });
    });
  }

  describeMarks(stage, runner);
  describeIndexes(stage, runner);
  describeKeys(stage, runner);
}

/** Milliseconds that a store may add because its clock ticks in whole ones. */
const TICKS = 2;

function describeMarks(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const token = (parts = {}) => artifact(stage.clock, "RefreshToken", "k", parts);
  const consume = { kind: "consume", model: "RefreshToken", key: "k", at: 5, replay: "sealed" } as const;

  it("keeps the mark of consumption and the replay through a put and an update", async () => {
    await commit(stage, { kind: "put", artifact: token() }, consume);
    await commit(stage, { kind: "put", artifact: token({ payload: { n: 1 } }) });
    await commit(stage, { kind: "update", artifact: token({ payload: { n: 2 } }) });
    await expect(stage.storage.artifacts.find("RefreshToken", "k")).resolves.toEqual(
      token({ payload: { n: 2 }, consumedAt: 5, replay: "sealed" }),
    );
    await expect(commit(stage, consume)).rejects.toMatchObject({ code: "condition_failed" });
  });

  it("keeps a replay until its time, and the mark longer", async () => {
    const until = stage.clock.now() + 10_000;
    await commit(stage, { kind: "put", artifact: token() }, { ...consume, replayUntil: until });
    stage.clock.advance(9_999);
    const { artifacts } = stage.storage;
    await expect(artifacts.find("RefreshToken", "k")).resolves.toMatchObject({ replay: "sealed" });
    stage.clock.advance(1);
    await expect(artifacts.find("RefreshToken", "k")).resolves.not.toHaveProperty("replay");
    await artifacts.purgeExpired(10);
    await expect(artifacts.find("RefreshToken", "k")).resolves.toMatchObject({ consumedAt: 5 });
  });

  it("tells by its own clock how long ago the request was answered that consumed it", async () => {
    const { artifacts } = stage.storage;
    const since = () => artifacts.sinceAnswer("RefreshToken", "k");
    await expect(since()).resolves.toBeUndefined();
    await artifacts.markAnswered("RefreshToken", "k");
    await commit(stage, { kind: "put", artifact: token() });
    await artifacts.markAnswered("RefreshToken", "k");
    await expect(since()).resolves.toBeUndefined();
    const before = performance.now();
    await commit(stage, consume);
    const consumed = Number(await since());
    expect(consumed).toBeGreaterThan(-ANSWERED_WITHIN - TICKS);
    expect(performance.now() - before + TICKS - ANSWERED_WITHIN).toBeGreaterThan(consumed);
    // The clock of the service has no part in it.
    stage.clock.advance(50_000);
    await artifacts.markAnswered("RefreshToken", "k");
    const noted = performance.now();
    // Neither does a note that comes later, or what else is written.
    await artifacts.markAnswered("RefreshToken", "k");
    await commit(stage, { kind: "update", artifact: token({ payload: { n: 1 } }) });
    const asking = performance.now();
    const answered = Number(await since());
    expect(answered).toBeGreaterThan(asking - noted - TICKS);
    expect(performance.now() - before + TICKS).toBeGreaterThan(answered);
  });

  it("forgets when the request was answered with the mark of consumption", async () => {
    await commit(stage, { kind: "put", artifact: token() }, consume);
    await stage.storage.artifacts.markAnswered("RefreshToken", "k");
    stage.clock.advance(60_000);
    await commit(stage, { kind: "put", artifact: token() }, consume);
    const since = await stage.storage.artifacts.sinceAnswer("RefreshToken", "k");
    expect(0).toBeGreaterThan(Number(since));
  });

  it("merges the entries that two updates add to one member", async () => {
    const session = (entries: object) =>
      artifact(stage.clock, "Session", "s", { payload: { n: entries, other: Object.keys(entries) } });
    await commit(stage, { kind: "put", artifact: session({ a: 1 }) });
    await Promise.all(
      ["b", "c"].map((name) =>
        commit(stage, { kind: "update", artifact: session({ a: 2, [name]: 1 }), merge: "n" }),
      ),
    );
    const found = await stage.storage.artifacts.find("Session", "s");
    expect(found?.payload["n"]).toEqual({ a: 2, b: 1, c: 1 });
    await expect(
      commit(stage, { kind: "update", artifact: artifact(stage.clock, "Session", "none"), merge: "n" }),
    ).rejects.toMatchObject({ code: "condition_failed" });
  });

  it("starts without a mark when the artifact is put anew after it expired", async () => {
    await commit(stage, { kind: "put", artifact: token() }, consume);
    stage.clock.advance(60_000);
    await commit(stage, { kind: "put", artifact: token() });
    await expect(stage.storage.artifacts.find("RefreshToken", "k")).resolves.toEqual(token());
  });
}

function describeIndexes(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const put = (key: string, parts = {}, model = "AccessToken") =>
    commit(stage, { kind: "put", artifact: artifact(stage.clock, model, key, parts) });
  const remaining = async (keys: readonly string[], model = "AccessToken") => {
    const found = await Promise.all(keys.map((key) => stage.storage.artifacts.find(model, key)));
    return found.flatMap((one) => (one === undefined ? [] : [one.key]));
  };

  it("follows an account, a client, a family and a uid that an update changes", async () => {
    const { artifacts } = stage.storage;
    await put("k", { uid: "u1", accountId: "a1", clientId: "c1", grantKey: "g1" });
    await commit(stage, {
      kind: "update",
      artifact: artifact(stage.clock, "AccessToken", "k", {
        uid: "u2",
        accountId: "a2",
        clientId: "c2",
        grantKey: "g2",
      }),
    });
    await expect(artifacts.findByUid("AccessToken", "u1")).resolves.toBeUndefined();
    await expect(artifacts.findByUid("AccessToken", "u2")).resolves.toMatchObject({ key: "k" });
    await expect(artifacts.removeByAccount({ accountId: "a1" })).resolves.toBe(0);
    await expect(artifacts.removeByClient("c1")).resolves.toBe(0);
    await commit(stage, { kind: "revoke", grantKey: "g1" });
    await expect(remaining(["k"])).resolves.toEqual(["k"]);
    await commit(stage, { kind: "revoke", grantKey: "g2" });
    await expect(remaining(["k"])).resolves.toEqual([]);
  });

  it("forgets a uid that a put takes away", async () => {
    await put("k", { uid: "u", accountId: "a" }, "Session");
    await put("k", {}, "Session");
    await expect(stage.storage.artifacts.findByUid("Session", "u")).resolves.toBeUndefined();
    await expect(stage.storage.artifacts.removeByAccount({ accountId: "a" })).resolves.toBe(0);
  });

  it("finds by the uid of one model only, and the session whose key was changed under it", async () => {
    await put("old", { uid: "u" }, "Session");
    await put("other", { uid: "u" }, "Interaction");
    await commit(
      stage,
      { kind: "remove", model: "Session", key: "old", mustExist: true },
      { kind: "put", artifact: artifact(stage.clock, "Session", "new", { uid: "u" }) },
    );
    await expect(stage.storage.artifacts.findByUid("Session", "u")).resolves.toMatchObject({ key: "new" });
  });

  it("revokes a family with its grant, and nothing else", async () => {
    await put("g", {}, "Grant");
    await put("h", {}, "Grant");
    await put("g", { grantKey: "h" });
    await put("1", { grantKey: "g" });
    await put("2", { grantKey: "g" }, "RefreshToken");
    await put("3", { grantKey: "h" });
    await put("4");
    await commit(stage, { kind: "revoke", grantKey: "g" });
    await expect(remaining(["g", "h"], "Grant")).resolves.toEqual(["h"]);
    await expect(remaining(["2"], "RefreshToken")).resolves.toEqual([]);
    await expect(remaining(["g", "1", "3", "4"])).resolves.toEqual(["g", "3", "4"]);
  });

  it("removes of an account only the models and clients that are named", async () => {
    const { artifacts } = stage.storage;
    await put("1", { accountId: "a", clientId: "c" });
    await put("2", { accountId: "a", clientId: "d" });
    await put("3", { accountId: "a" });
    await put("4", { accountId: "a", clientId: "c" }, "RefreshToken");
    await put("5", { accountId: "b", clientId: "c" });
    const all = ["1", "2", "3", "5"];
    await expect(artifacts.removeByAccount({ accountId: "a", clientIds: [] })).resolves.toBe(0);
    await expect(artifacts.removeByAccount({ accountId: "a", models: [] })).resolves.toBe(0);
    await expect(
      artifacts.removeByAccount({ accountId: "a", clientIds: ["c", "x"], models: ["AccessToken"] }),
    ).resolves.toBe(1);
    await expect(remaining(all)).resolves.toEqual(["2", "3", "5"]);
    await expect(remaining(["4"], "RefreshToken")).resolves.toEqual(["4"]);
    await expect(artifacts.removeByAccount({ accountId: "a", clientIds: ["c"] })).resolves.toBe(1);
    await expect(artifacts.removeByAccount({ accountId: "a", models: ["AccessToken"] })).resolves.toBe(2);
    await expect(remaining(all)).resolves.toEqual(["5"]);
  });

  it("removes all of the many artifacts of a client", async () => {
    const keys = Array.from({ length: 1201 }, (_, index) => `k${index}`);
    const puts = keys.map((key) => ({
      kind: "put" as const,
      artifact: artifact(stage.clock, "AccessToken", key, { clientId: "c", accountId: key }),
    }));
    // No request writes so many at once.
    for (let first = 0; first < puts.length; first += 50) {
      await commit(stage, ...puts.slice(first, first + 50));
    }
    await put("other", { clientId: "d" });
    await expect(stage.storage.artifacts.removeByClient("c")).resolves.toBe(1201);
    await expect(remaining([...keys, "other"])).resolves.toEqual(["other"]);
  });

  it("purges at most as many expired artifacts as it is told, and no living one", async () => {
    await Promise.all(["1", "2", "3"].map((key) => put(key)));
    await put("4", { expiresAt: stage.clock.now() + 90_000 });
    await expect(stage.storage.artifacts.purgeExpired(10)).resolves.toBe(0);
    stage.clock.advance(60_000);
    let purged = 0;
    for (let round = 0; round < 4; round += 1) {
      const count = await stage.storage.artifacts.purgeExpired(2);
      expect(count).toBeLessThanOrEqual(2);
      purged += count;
    }
    // A store that forgets by itself has nothing to purge.
    expect([0, 3]).toContain(purged);
    await expect(remaining(["1", "2", "3", "4"])).resolves.toEqual(["4"]);
  });
}
