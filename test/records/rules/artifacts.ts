/** Artifacts over a record store: how they are found, and how they end. What one request writes: `unit-of-work.test.ts`. */
import type { Artifact } from "../../../records/artifacts/artifact.ts";
import { ANSWERED_AFTER_MS } from "../../../records/artifacts/artifact.ts";
import { artifactRef } from "../../../records/artifacts/artifact-kinds.ts";
import { Changes } from "../../../records/records.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import { artifact, hostileKeys, put, type Stage } from "./stage.ts";

/** Milliseconds of tolerance for a coarse clock. */
const TICKS = 2;

const DESCENDANTS = ["AuthorizationCode", "AccessToken", "RefreshToken"];

/** @param stage the store of the running case. */
export function describeArtifacts(stage: Stage, { describe, expect, it }: TestRunner): void {
  const look = async (model: string, key: string): Promise<Artifact | undefined> =>
    (await stage.storage.artifacts.find(model, key))?.artifact;
  const left = async (...names: (readonly [model: string, key: string])[]): Promise<string[]> => {
    const all = await Promise.all(names.map(([model, key]) => look(model, key)));
    return all.flatMap((one) => (one === undefined ? [] : [one.key]));
  };
  const grant = (key: string, parts: Partial<Artifact> = {}): Artifact =>
    artifact(stage.clock, "Grant", key, { grantKey: key, ...parts });

  const own = (key: string, accountId: string, clientId: string): Artifact[] => [
    grant(key, { accountId, clientId }),
    artifact(stage.clock, "AccessToken", key, { grantKey: key, accountId, clientId }),
  ];

  for (const model of [...DESCENDANTS, "Session", "Interaction", "Grant"]) {
    it(`finds a ${model} by its model and key until the millisecond it expires`, async () => {
      const sample = artifact(stage.clock, model, "k", { uid: "u", accountId: "a", clientId: "c" });
      await put(stage, sample);
      expect(await look(model, "k")).toMatchObject(sample);
      expect(await look("PushedAuthorizationRequest", "k")).toBeUndefined();
      expect(await look(model, "K")).toBeUndefined();
      stage.clock.advance(59_999);
      expect(await look(model, "k")).toBeDefined();
      stage.clock.advance(1);
      expect(await look(model, "k")).toBeUndefined();
    });
  }

  for (const model of DESCENDANTS) {
    it(`finds a ${model} only with the grant of its family`, async () => {
      const member = artifact(stage.clock, model, "k", { grantKey: "g" });
      await expect(put(stage, member)).rejects.toMatchObject({ code: "condition_failed" });
      await put(stage, grant("g"), member);
      const family = await stage.storage.artifacts.find(model, "k");
      expect(family).toMatchObject({ artifact: member, grant: { model: "Grant", key: "g" } });
      await put(stage, grant("g", { payload: { n: 2 } }));
      expect(await stage.storage.artifacts.find(model, "k")).toMatchObject({ grant: { payload: { n: 2 } } });
      const changes = new Changes();
      changes.drop(artifactRef("Grant", "g"));
      await stage.storage.artifacts.commit(changes, stage.clock.now() + 1_000);
      await put(stage, grant("g"));
      expect(await look(model, "k")).toBeUndefined();
    });
  }

  it("accepts any string as a distinct key", async () => {
    await put(
      stage,
      ...hostileKeys.map((key, index) => artifact(stage.clock, "Session", key, { payload: { index } })),
    );
    for (const [index, key] of hostileKeys.entries()) {
      expect((await look("Session", key))?.payload).toEqual({ index });
    }
    for (const at of hostileKeys) {
      expect(await stage.storage.artifacts.sessionsOf(at)).toEqual([]);
      expect(await stage.storage.artifacts.removeByClient(at)).toBe(0);
    }
  });

  it("finds a session by its uid, whatever its account", async () => {
    const { artifacts } = stage.storage;
    expect(await artifacts.findByUid("Session", "u")).toBeUndefined();
    await put(stage, artifact(stage.clock, "Session", "s", { uid: "u" }));
    await put(stage, artifact(stage.clock, "Session", "s", { uid: "u", accountId: "a" }));
    expect(await artifacts.findByUid("Session", "u")).toMatchObject({ key: "s", accountId: "a" });
    await put(stage, artifact(stage.clock, "Session", "s", { uid: "v" }));
    expect(await artifacts.findByUid("Session", "u")).toBeUndefined();
    expect(await artifacts.sessionsOf("a")).toEqual([]);
  });

  describe("the end of families", () => {
    it("removes only the named models and clients of an account", async () => {
      const { artifacts } = stage.storage;
      await put(
        stage,
        ...own("1", "a", "x"),
        ...own("2", "a", "y"),
        ...own("3", "b", "x"),
        artifact(stage.clock, "Session", "4", { accountId: "a" }),
      );
      const all = [
        ["AccessToken", "1"],
        ["AccessToken", "2"],
        ["AccessToken", "3"],
        ["Session", "4"],
      ] as const;
      expect(await artifacts.removeByAccount({ accountId: "a", clientIds: ["y", "z"] })).toBe(1);
      expect(await left(...all)).toEqual(["1", "3", "4"]);
      expect(await artifacts.removeByAccount({ accountId: "a", models: ["Grant"] })).toBe(1);
      expect(await left(...all)).toEqual(["3", "4"]);
      await put(stage, ...own("5", "a", "x"));
      expect(await artifacts.removeByAccount({ accountId: "a" })).toBe(2);
      expect(await left(...all)).toEqual(["3"]);
      expect(await artifacts.removeByAccount({ accountId: "a" })).toBe(0);
    });

    it("removes all families of a client, and none of another", async () => {
      for (let first = 0; first < 250; first += 50) {
        const keys = Array.from({ length: 50 }, (_, index) => String(first + index));
        await put(stage, ...keys.flatMap((key) => own(key, `a${key}`, "many")));
      }
      await put(stage, ...own("other", "a", "other"));
      expect(await stage.storage.artifacts.removeByClient("many")).toBe(250);
      expect(await left(["AccessToken", "0"], ["AccessToken", "249"], ["AccessToken", "other"])).toEqual([
        "other",
      ]);
    });
  });

  it("keeps a replayable response until its end, and the mark of consumption longer", async () => {
    const replayUntil = stage.clock.now() + 10_000;
    await put(
      stage,
      artifact(stage.clock, "RefreshToken", "k", { consumedAt: 5, replay: "sealed", replayUntil }),
    );
    stage.clock.advance(9_999);
    expect(await look("RefreshToken", "k")).toMatchObject({ replay: "sealed" });
    stage.clock.advance(1);
    expect(await look("RefreshToken", "k")).not.toHaveProperty("replay");
    expect(await look("RefreshToken", "k")).toMatchObject({ consumedAt: 5 });
  });

  it("measures with the store's clock the time since the response of the consuming request", async () => {
    const { artifacts } = stage.storage;
    const since = () => artifacts.sinceAnswer("AuthorizationCode", "k");
    expect(await since()).toBeUndefined();
    const code = artifact(stage.clock, "AuthorizationCode", "k");
    await put(stage, code);
    expect(await since()).toBeUndefined();

    const before = performance.now();
    await put(stage, { ...code, consumedAt: 5, answeredAt: (await artifacts.time()) + ANSWERED_AFTER_MS });
    const consumed = Number(await since());
    expect(consumed).toBeGreaterThan(-ANSWERED_AFTER_MS - TICKS);
    expect(performance.now() - before + TICKS - ANSWERED_AFTER_MS).toBeGreaterThan(consumed);
    // It is independent of the service's clock.
    stage.clock.advance(50_000);
    const found = (await artifacts.find("AuthorizationCode", "k"))!.artifact;
    await artifacts.markAnswered(found);
    const noted = performance.now();
    // So is a later mark.
    await expect(artifacts.markAnswered(found)).rejects.toMatchObject({ code: "condition_failed" });
    const read = performance.now();
    const answered = Number(await since());
    expect(answered).toBeGreaterThan(read - noted - TICKS);
    expect(performance.now() - before + TICKS).toBeGreaterThan(answered);
  });

  it("sweeps at most the given number of expired artifacts, and no others", async () => {
    await put(stage, artifact(stage.clock, "Session", "lives", { expiresAt: stage.clock.now() + 600_000 }));
    for (const key of ["1", "2", "3", "4", "5"]) await put(stage, artifact(stage.clock, "Session", key));
    stage.clock.advance(60_000);
    for (let swept = -1; swept !== 0;) {
      swept = await stage.storage.sweep(2);
      expect(2).toBeGreaterThan(swept - 1);
    }
    expect(await left(["Session", "lives"], ["Session", "1"])).toEqual(["lives"]);
  });
}
