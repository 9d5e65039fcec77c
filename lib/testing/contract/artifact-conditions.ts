/** The contract of an artifact batch: all of it, or nothing when a condition fails. */
import type { ArtifactWrite } from "../../../adapters/artifacts.ts";
import type { TestRunner } from "./runner.ts";
import { artifact, commit, outcomes, type Stage } from "./stage.ts";

/** @param stage the store of the running case. */
export function describeConditions(stage: Stage, runner: TestRunner): void {
  const { describe, expect, it } = runner;
  const put = (model: string, key: string, parts = {}): ArtifactWrite => ({
    kind: "put",
    artifact: artifact(stage.clock, model, key, parts),
  });
  const failing: Readonly<Record<string, () => ArtifactWrite>> = {
    update: () => ({ kind: "update", artifact: artifact(stage.clock, "Session", "k") }),
    consume: () => ({ kind: "consume", model: "Session", key: "k", at: 1 }),
    remove: () => ({ kind: "remove", model: "Session", key: "k", mustExist: true }),
    require: () => ({ kind: "require", model: "Session", key: "k" }),
  };

  for (const kind of Object.keys(failing)) {
    const write = (): ArtifactWrite => failing[kind]!();
    describe(`a batch with a condition of kind ${kind}`, () => {
      it("is written when it holds", async () => {
        await commit(stage, put("Session", "k"));
        await commit(stage, write(), put("AccessToken", "with it"));
        await expect(stage.storage.artifacts.find("AccessToken", "with it")).resolves.toBeDefined();
      });

      it("writes nothing when the artifact is missing", async () => {
        await commit(stage, put("Grant", "g"), put("AccessToken", "kept", { grantKey: "g" }));
        const batch = commit(
          stage,
          put("AccessToken", "before"),
          { kind: "revoke", grantKey: "g" },
          write(),
          put("AccessToken", "after"),
        );
        await expect(batch).rejects.toMatchObject({ code: "condition_failed" });
        const { artifacts } = stage.storage;
        await expect(artifacts.find("AccessToken", "before")).resolves.toBeUndefined();
        await expect(artifacts.find("AccessToken", "after")).resolves.toBeUndefined();
        await expect(artifacts.find("AccessToken", "kept")).resolves.toBeDefined();
        await expect(artifacts.find("Grant", "g")).resolves.toBeDefined();
      });

      it("writes nothing when the artifact has just expired", async () => {
        await commit(stage, put("Session", "k"));
        stage.clock.advance(60_000);
        const batch = commit(stage, put("AccessToken", "new"), write());
        await expect(batch).rejects.toMatchObject({ code: "condition_failed" });
        await expect(stage.storage.artifacts.find("AccessToken", "new")).resolves.toBeUndefined();
        await expect(stage.storage.artifacts.find("Session", "k")).resolves.toBeUndefined();
      });

      it("fails alone among the batches of one turn", async () => {
        const codes = await outcomes(
          Array.from({ length: 30 }, (_, index) =>
            index === 14
              ? commit(stage, put("AccessToken", "14"), write())
              : commit(stage, put("AccessToken", String(index))),
          ),
        );
        expect(codes).toEqual(codes.map((_, index) => (index === 14 ? "condition_failed" : undefined)));
        const found = await Promise.all(
          codes.map((_, index) => stage.storage.artifacts.find("AccessToken", String(index))),
        );
        expect(found.map((one) => one !== undefined)).toEqual(codes.map((code) => code === undefined));
      });
    });
  }

  it("lets a later write of a batch see the earlier ones", async () => {
    await commit(stage, put("Grant", "g"), { kind: "require", model: "Grant", key: "g" });
    const consume = { kind: "consume", model: "RefreshToken", key: "r", at: 1 } as const;
    const refused: ArtifactWrite[][] = [
      [put("RefreshToken", "r"), consume, consume],
      [
        { kind: "remove", model: "Grant", key: "g", mustExist: true },
        { kind: "require", model: "Grant", key: "g" },
      ],
      [
        { kind: "revoke", grantKey: "g" },
        { kind: "require", model: "Grant", key: "g" },
      ],
      [
        put("Session", "s", { expiresAt: stage.clock.now() }),
        { kind: "require", model: "Session", key: "s" },
      ],
    ];
    for (const writes of refused) {
      await expect(commit(stage, ...writes)).rejects.toMatchObject({ code: "condition_failed" });
    }
    await expect(stage.storage.artifacts.find("RefreshToken", "r")).resolves.toBeUndefined();
    await expect(stage.storage.artifacts.find("Grant", "g")).resolves.toBeDefined();
    await commit(
      stage,
      put("RefreshToken", "r"),
      consume,
      { kind: "revoke", grantKey: "g" },
      put("Grant", "g"),
    );
    await expect(stage.storage.artifacts.find("RefreshToken", "r")).resolves.toMatchObject({ consumedAt: 1 });
    await expect(stage.storage.artifacts.find("Grant", "g")).resolves.toBeDefined();
  });

  it("leaves no token of a family that is revoked at the same time", async () => {
    await commit(stage, put("Grant", "g"));
    const issue = (key: string) =>
      commit(
        stage,
        { kind: "require", model: "Grant", key: "g" },
        put("AccessToken", key, { grantKey: "g" }),
      );
    const keys = Array.from({ length: 40 }, (_, index) => String(index));
    const codes = await outcomes(
      keys.map((key, index) =>
        index === 20 ? commit(stage, { kind: "revoke", grantKey: "g" }) : issue(key),
      ),
    );
    expect(codes[20]).toBeUndefined();
    const found = await Promise.all(keys.map((key) => stage.storage.artifacts.find("AccessToken", key)));
    expect(found.every((one) => one === undefined)).toBe(true);
    await expect(issue("late")).rejects.toMatchObject({ code: "condition_failed" });
  });

  it("refuses a batch whose deadline has passed, and the same batch can be sent again", async () => {
    const writes = [put("Session", "k")];
    const late = { id: "late", deadline: stage.clock.now(), writes };
    await expect(stage.storage.artifacts.commit(late)).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(stage.storage.artifacts.find("Session", "k")).resolves.toBeUndefined();
    await stage.storage.artifacts.commit({ ...late, deadline: stage.clock.now() + 1000 });
    await expect(stage.storage.artifacts.find("Session", "k")).resolves.toBeDefined();
  });
}
