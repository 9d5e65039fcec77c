/** The contract of keys: what is missing, what is alike, and what no store expects. */
import type { TestRunner } from "./runner.ts";
import { artifact, commit, hostileKeys, type Stage } from "./stage.ts";

/** @param stage the store of the running case. */
export function describeKeys(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("answers undefined, and counts nothing, for what is not there", async () => {
    const { artifacts } = stage.storage;
    await expect(artifacts.find("Session", "none")).resolves.toBeUndefined();
    await expect(artifacts.findByUid("Session", "none")).resolves.toBeUndefined();
    await expect(artifacts.removeByAccount({ accountId: "none" })).resolves.toBe(0);
    await expect(artifacts.removeByClient("none")).resolves.toBe(0);
    await expect(artifacts.purgeExpired(10)).resolves.toBe(0);
    await commit(
      stage,
      { kind: "remove", model: "Session", key: "none", mustExist: false },
      { kind: "revoke", grantKey: "none" },
    );
    await commit(stage);
  });

  it("keeps the same key apart in two models", async () => {
    const [one, two] = ["Session", "Interaction"].map((model) =>
      artifact(stage.clock, model, "k", { payload: { model } }),
    );
    await commit(stage, { kind: "put", artifact: one! }, { kind: "put", artifact: two! });
    await expect(stage.storage.artifacts.find("Session", "k")).resolves.toEqual(one);
    await expect(stage.storage.artifacts.find("Interaction", "k")).resolves.toEqual(two);
  });

  it("takes any string as a key that finds only itself", async () => {
    const samples = hostileKeys.map((key, index) =>
      artifact(stage.clock, "Session", key, {
        uid: key,
        accountId: key,
        clientId: key,
        grantKey: key,
        replay: key,
        payload: { index, [key]: key },
      }),
    );
    await commit(stage, ...samples.map((sample) => ({ kind: "put" as const, artifact: sample })));
    const { artifacts } = stage.storage;
    await expect(Promise.all(hostileKeys.map((key) => artifacts.find("Session", key)))).resolves.toEqual(
      samples,
    );
    await expect(Promise.all(hostileKeys.map((key) => artifacts.findByUid("Session", key)))).resolves.toEqual(
      samples,
    );
    const removals = [
      (key: string) => artifacts.removeByAccount({ accountId: key, clientIds: [key], models: ["Session"] }),
      (key: string) => artifacts.removeByClient(key),
      (key: string) => commit(stage, { kind: "revoke", grantKey: key }),
      (key: string) => commit(stage, { kind: "remove", model: "Session", key, mustExist: true }),
    ];
    for (const [index, key] of hostileKeys.entries()) {
      await removals[index % removals.length]!(key);
      const left = await Promise.all(hostileKeys.map((other) => artifacts.find("Session", other)));
      expect(left.map((one) => one?.key)).toEqual(hostileKeys.map((k, at) => (at <= index ? undefined : k)));
    }
  });

  it("takes any string as the name of a model", async () => {
    const samples = hostileKeys.map((model, index) =>
      artifact(stage.clock, model, "k", { payload: { index } }),
    );
    await commit(stage, ...samples.map((sample) => ({ kind: "put" as const, artifact: sample })));
    const found = await Promise.all(hostileKeys.map((model) => stage.storage.artifacts.find(model, "k")));
    expect(found).toEqual(samples);
  });

  it("keeps copies: what a caller changes afterwards changes nothing", async () => {
    const { artifacts } = stage.storage;
    const payload = { list: [1], inner: { text: "before" } };
    const writes = [
      { kind: "put" as const, artifact: artifact(stage.clock, "Session", "k", { uid: "u", payload }) },
    ];
    const written = artifacts.commit({ id: "copies", deadline: stage.clock.now() + 5000, writes });
    payload.inner.text = "after";
    payload.list.push(2);
    writes.length = 0;
    await written;
    const expected = { list: [1], inner: { text: "before" } };
    for (const find of [() => artifacts.find("Session", "k"), () => artifacts.findByUid("Session", "u")]) {
      const found = await find();
      expect(found?.payload).toEqual(expected);
      Reflect.set(Object(found?.payload["inner"]), "text", "changed");
      Reflect.set(Object(found?.payload["list"]), 0, "changed");
      Reflect.set(Object(found), "uid", "changed");
      expect((await find())?.payload).toEqual(expected);
    }
  });
}
