/** Artifacts over a record store: how they are found, and how they end. What one request writes: `unit-of-work.test.ts`. */
import type { Artifact, ArtifactQuery, PageOptions } from "../../../records/artifacts/artifact.ts";
import { artifactRef } from "../../../records/artifacts/artifact-kinds.ts";
import { Changes } from "../../../records/records.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import { artifact, hostileKeys, put, type Stage } from "./stage.ts";

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
      expect(await stage.storage.artifacts.page({ model: "Session", account: at })).toEqual({
        artifacts: [],
      });
      const holder = { account: at, client: at };
      expect(await stage.storage.artifacts.count({ model: "Grant", holder }, 9)).toBe(0);
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
    expect((await artifacts.page({ model: "Session", account: "a" })).artifacts).toEqual([]);
  });

  const keysOf = async (query: ArtifactQuery, options?: PageOptions): Promise<string[]> =>
    (await stage.storage.artifacts.page(query, options)).artifacts.map(({ key }) => key);

  describe("lists", () => {
    it("have the grants of an account, of a client, and of both once a code was exchanged", async () => {
      await put(
        stage,
        ...own("1", "a", "x"),
        ...own("2", "a", "y"),
        ...own("3", "b", "x"),
        grant("4", { accountId: "a", clientId: "x", usedAt: 7 }),
      );
      const holder = { account: "a", client: "x" };
      expect((await keysOf({ model: "Grant", account: "a" })).toSorted()).toEqual(["1", "2", "4"]);
      expect((await keysOf({ model: "Grant", client: "x" })).toSorted()).toEqual(["1", "3", "4"]);
      expect(await keysOf({ model: "Grant", holder })).toEqual(["4"]);
      expect(await stage.storage.artifacts.count({ model: "Grant", holder }, 9)).toBe(1);
      expect(await stage.storage.artifacts.count({ model: "Grant", account: "a" }, 9)).toBe(3);
      expect(await stage.storage.artifacts.count({ model: "Grant", account: "a" }, 2)).toBe(2);
    });

    it("order sessions by their last use, and end with the last page", async () => {
      const session = (key: string, payload: object): Artifact =>
        artifact(stage.clock, "Session", key, { accountId: "a", payload: { ...payload } });
      await put(
        stage,
        session("1", { iat: 9 }),
        session("2", { iat: 1, use: { at: 20 } }),
        session("3", { iat: 8, use: { at: 15 } }),
      );
      const query = { model: "Session", account: "a" } as const;
      expect(await keysOf(query)).toEqual(["2", "3", "1"]);
      expect(await keysOf(query, { oldestFirst: true, limit: 2 })).toEqual(["1", "3"]);
      const { next } = await stage.storage.artifacts.page(query, { limit: 2 });
      expect(await keysOf(query, { after: next, limit: 2 })).toEqual(["1"]);
    });

    it("find a running sign-in by every account that it names", async () => {
      const named: readonly Partial<Artifact>[] = [
        { accountId: "a" },
        { payload: { session: { accountId: "a" } } },
        { payload: { result: { login: { accountId: "a" } } } },
        { state: { proven: { sub: "a" } } },
        { state: { codeFor: "a", proven: { sub: "a" } } },
        { state: { proven: { sub: "b" } } },
        {},
      ];
      await put(
        stage,
        ...named.map((parts, index) => artifact(stage.clock, "Interaction", String(index), parts)),
      );
      const found = await keysOf({ model: "Interaction", account: "a" });
      expect(found.toSorted()).toEqual(["0", "1", "2", "3", "4"]);
    });

    it("lose what is removed, grants with their codes and tokens", async () => {
      const { artifacts } = stage.storage;
      await put(stage, ...own("1", "a", "x"), ...own("2", "a", "x"), artifact(stage.clock, "Session", "3"));
      await artifacts.remove([
        { model: "Grant", key: "1" },
        { model: "Session", key: "3" },
        { model: "Session", key: "missing" },
      ]);
      await artifacts.remove([]);
      const all = [
        ["AccessToken", "1"],
        ["AccessToken", "2"],
        ["Session", "3"],
      ] as const;
      expect(await left(...all)).toEqual(["2"]);
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
