import type { Adapter, AdapterPayload } from "oidc-provider";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { artifactKey } from "../../provider/adapter.ts";
import type { Unit, UnitsOfWork } from "../../provider/unit-of-work.ts";
import { artifactRef } from "../../records/artifacts/artifact-kinds.ts";
import { ConditionFailed } from "../../core/errors.ts";
import { FAILED_SIGN_INS } from "../../records/people/sign-ins.ts";
import { Changes, type Transaction } from "../../records/records.ts";
import type { Storage } from "../../records/storage.ts";
import type { ManualClock } from "../records/rules/stage.ts";
import { HOUR, openOidcStage, type OidcStage } from "./stage.ts";

let clock: ManualClock;
let storage: Storage;
let units: UnitsOfWork;
let adapter: (model: string) => Adapter;
let request: OidcStage["request"];
let stored: OidcStage["stored"];

beforeEach(async () => {
  ({ clock, storage, units, adapter, request, stored } = await openOidcStage());
});

afterEach(() => storage.close());

/** A session with these clients. */
const session = (ids: readonly string[]): AdapterPayload => ({
  uid: "u",
  authorizations: Object.fromEntries(ids.map((id) => [id, { sid: id }])),
});

/** Counts one more failure. */
function add(tx: Transaction, there: { readonly failures: number } | undefined): void {
  const failures = (there?.failures ?? 0) + 1;
  tx.put(FAILED_SIGN_INS.record({ source: "form", subject: "s", failures, expiresAt: clock.now() + 1_000 }));
}

describe("a request", () => {
  it("writes nothing before its commit, but reads its own writes", async () => {
    await request(async () => {
      await adapter("Session").upsert("id", { uid: "u" }, HOUR);
      await expect(adapter("Session").find("id")).resolves.toMatchObject({ uid: "u" });
      await expect(adapter("Session").findByUid("u")).resolves.toMatchObject({ uid: "u" });
      await expect(stored("Session", "id")).resolves.toBeUndefined();
      await adapter("Session").destroy("id");
      await expect(adapter("Session").find("id")).resolves.toBeUndefined();
      await adapter("Session").upsert("id", { uid: "v" }, HOUR);
    });
    await expect(stored("Session", "id")).resolves.toMatchObject({ uid: "v" });
    // The same for an artifact that existed before the request.
    await request(async () => {
      await adapter("Session").find("id");
      await adapter("Session").destroy("id");
      await adapter("Session").upsert("id", { uid: "w" }, HOUR);
    });
    await expect(stored("Session", "id")).resolves.toMatchObject({ uid: "w" });
  });

  it("that fails writes nothing and keeps its error", async () => {
    await adapter("Grant").upsert("g", {}, HOUR);
    await adapter("AuthorizationCode").upsert("code", { grantId: "g" }, HOUR);
    const failed = request(async (unit) => {
      await adapter("AuthorizationCode").find("code");
      await adapter("AuthorizationCode").consume("code");
      await storage.close();
      await expect(adapter("AccessToken").find("any")).rejects.toMatchObject({ code: "storage_unavailable" });
      expect(unit.failure).toMatchObject({ code: "storage_unavailable" });
      throw unit.failure;
    });
    await expect(failed).rejects.toMatchObject({ code: "storage_unavailable" });
  });

  it("reads an artifact as consumed after consuming it, and stores the time of the commit", async () => {
    await adapter("Grant").upsert("g", {}, HOUR);
    await request(async () => adapter("AuthorizationCode").upsert("code", { grantId: "g" }, HOUR));
    const read = clock.now();
    await request(async () => {
      await adapter("AuthorizationCode").find("code");
      await adapter("AuthorizationCode").consume("code");
      await expect(adapter("AuthorizationCode").find("code")).resolves.toMatchObject({
        consumed: Math.floor(read / 1000),
      });
      clock.advance(700);
    });
    await expect(stored("AuthorizationCode", "code")).resolves.toMatchObject({ consumedAt: read + 700 });
  });

  it("writes other records with its own: both or neither, decided anew after a conflict about them", async () => {
    const { records } = storage;
    const ref = FAILED_SIGN_INS.ref(["form", "s"]);
    await request(async () => adapter("Session").upsert("id", { uid: "u" }, HOUR));
    let tries = 0;
    await request(async (unit) => {
      await adapter("Session").find("id");
      await adapter("Session").upsert("id", { uid: "v" }, HOUR);
      unit.alongside(async (tx) => {
        const there = await tx.get(ref);
        tries += 1;
        // Another process has written it meanwhile.
        if (tries === 1) await records.transact(async (other) => add(other, await other.get(ref)));
        add(tx, there);
      });
    });
    expect(tries).toBe(2);
    expect((await records.find(ref))?.value.failures).toBe(2);
    await expect(stored("Session", "id")).resolves.toMatchObject({ uid: "v" });
    const late = request(async (unit) => {
      await adapter("Session").find("id");
      await adapter("Session").upsert("id", { uid: "w" }, HOUR);
      unit.alongside(async (tx) => add(tx, await tx.get(ref)));
      await storage.artifacts.remove([{ model: "Session", key: artifactKey("id") }]);
    });
    await expect(late).rejects.toThrow(ConditionFailed);
    expect((await records.find(ref))?.value.failures).toBe(2);
  });

  it("stores the store's time of the commit, however long the request takes after consuming [D-TOKEN-13]", async () => {
    await adapter("Grant").upsert("g", {}, HOUR);
    await request(async () => adapter("AuthorizationCode").upsert("code", { grantId: "g" }, HOUR));
    let consumed = Infinity;
    await request(async () => {
      await adapter("AuthorizationCode").find("code");
      await adapter("AuthorizationCode").consume("code");
      const { earliest } = await storage.artifacts.clock();
      consumed = earliest();
      while (earliest() < consumed + 20);
    });
    const { spentAt = 0 } = (await stored("AuthorizationCode", "code")) ?? {};
    expect(spentAt).toBeGreaterThan(consumed + 10);
  });

  it("fails and writes nothing if another request has consumed the same artifact [D-TOKEN-13]", async () => {
    await adapter("Grant").upsert("g", {}, HOUR);
    await request(async () => adapter("AuthorizationCode").upsert("code", { grantId: "g" }, HOUR));
    const late = request(async () => {
      await adapter("AuthorizationCode").find("code");
      await adapter("AuthorizationCode").consume("code");
      await adapter("AccessToken").upsert("late", { grantId: "g" }, HOUR);
      await units.run({ receivedAt: performance.now(), deadline: clock.now() + 4_500 }, async (other) => {
        await adapter("AuthorizationCode").consume("code");
        await other.commit();
      });
    });
    await expect(late).rejects.toMatchObject({ code: "condition_failed" });
    await expect(stored("AccessToken", "late")).resolves.toBeUndefined();
  });

  it("stores no token without its grant, which can be in the same commit [D-ACCOUNT-9]", async () => {
    const token = request(async () => adapter("AccessToken").upsert("orphan", { grantId: "gone" }, HOUR));
    await expect(token).rejects.toMatchObject({ code: "condition_failed" });
    await request(async () => {
      await adapter("AccessToken").upsert("child", { grantId: "own" }, HOUR);
      await adapter("Grant").upsert("own", { generations: { tokens: 1 } }, HOUR);
    });
    await expect(stored("AccessToken", "child")).resolves.toBeDefined();
  });

  it("copies the generations of the grant to codes and tokens [D-ACCOUNT-9]", async () => {
    const generations = { tokens: 3, service: 2, client: 1 };
    await adapter("Grant").upsert("g", { generations }, HOUR);
    await request(async () => {
      await adapter("Grant").find("g");
      await adapter("AccessToken").upsert("token", { grantId: "g" }, HOUR);
    });
    await expect(stored("AccessToken", "token")).resolves.toMatchObject({ payload: { generations } });
  });

  it.each(["Session", "Interaction"])(
    "does not restore a %s that was removed after it was read",
    async (model) => {
      await adapter(model).upsert("id", { uid: "u" }, HOUR);
      const late = request(async () => {
        await adapter(model).find("id");
        await adapter(model).upsert("id", { uid: "u", accountId: "a" }, HOUR);
        const changes = new Changes();
        changes.drop(artifactRef(model, artifactKey("id")));
        await storage.artifacts.commit(changes, clock.now() + 1_000);
      });
      await expect(late).rejects.toMatchObject({ code: "condition_failed" });
      await expect(stored(model, "id")).resolves.toBeUndefined();
    },
  );

  it("keeps the result of an interaction that another request has finished, and what the person does at a step", async () => {
    await adapter("Interaction").upsert("id", { uid: "u" }, HOUR);
    const times = { receivedAt: performance.now(), deadline: clock.now() + 4_500 };
    await request(async (unit) => {
      await adapter("Interaction").find("id");
      const read = unit.known("Interaction", artifactKey("id"));
      if (read === undefined) throw new Error("the interaction is not there");
      unit.save({ ...read, state: { step: "register" } });
      await units.run(times, async (other) => {
        await adapter("Interaction").find("id");
        await adapter("Interaction").upsert("id", { uid: "u", result: { login: { accountId: "a" } } }, HOUR);
        await other.commit();
      });
    });
    await expect(stored("Interaction", "id")).resolves.toMatchObject({
      payload: { result: { login: { accountId: "a" } } },
      state: { step: "register" },
    });
  });

  it("fails if another request has removed the same artifact", async () => {
    await adapter("Interaction").upsert("id", {}, HOUR);
    const end = async (unit: Unit, meanwhile: () => Promise<void>): Promise<void> => {
      await adapter("Interaction").find("id");
      await adapter("Interaction").destroy("id");
      await meanwhile();
      await unit.commit();
    };
    const times = { receivedAt: performance.now(), deadline: clock.now() + 4_500 };
    const outer = units.run(times, (unit) =>
      end(unit, () => units.run(times, (other) => end(other, () => Promise.resolve()))),
    );
    await expect(outer).rejects.toMatchObject({ code: "condition_failed" });
  });

  it("removes a grant with all its tokens", async () => {
    await adapter("Grant").upsert("g", {}, HOUR);
    await request(async () => {
      await adapter("AccessToken").upsert("one", { grantId: "g" }, HOUR);
      await adapter("RefreshToken").upsert("two", { grantId: "g" }, HOUR);
    });
    await request(async () => {
      await adapter("AccessToken").revokeByGrantId("g");
      await adapter("RefreshToken").revokeByGrantId("g");
      await adapter("Grant").destroy("g");
    });
    const left = [stored("Grant", "g"), stored("AccessToken", "one"), stored("RefreshToken", "two")];
    await expect(Promise.all(left)).resolves.toEqual([undefined, undefined, undefined]);
  });

  it("stores a response beside the token that it consumes, and reports when it consumes none [D-TOKEN-12]", async () => {
    await adapter("RefreshToken")
      .upsert("token", {}, HOUR)
      .catch(() => undefined);
    await request(async (unit) => {
      expect(unit.attachReplay("RefreshToken", "sealed", clock.now() + 10_000)).toBe(false);
      await adapter("RefreshToken").find("token");
      await adapter("RefreshToken").consume("token");
      expect(unit.attachReplay("RefreshToken", "sealed", clock.now() + 10_000)).toBe(true);
    });
    await expect(stored("RefreshToken", "token")).resolves.toMatchObject({ replay: "sealed" });
    clock.advance(10_001);
    expect((await stored("RefreshToken", "token"))?.replay).toBeUndefined();
  });

  it("runs its callbacks after the commit, and not if that fails", async () => {
    const calls: string[] = [];
    await request(async (unit) => {
      unit.whenCommitted(() => calls.push("read only"));
    });
    await request(async (unit) => {
      unit.whenCommitted(() => calls.push("written"));
      await adapter("Session").upsert("id", {}, HOUR);
      expect(calls).toEqual(["read only"]);
    });
    const failing = request(async (unit) => {
      unit.whenCommitted(() => calls.push("never"));
      await adapter("AccessToken").upsert("orphan", { grantId: "gone" }, HOUR);
    });
    await expect(failing).rejects.toMatchObject({ code: "condition_failed" });
    expect(calls).toEqual(["read only", "written"]);
  });

  it("commits nothing after its deadline [D-TOKEN-5]", async () => {
    const late = request(async () => {
      await adapter("Session").upsert("id", {}, HOUR);
      clock.advance(4_501);
    });
    await expect(late).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(stored("Session", "id")).resolves.toBeUndefined();
  });

  it("does not read the uncommitted writes of a parallel request", async () => {
    await Promise.all([
      request(async () => adapter("Session").upsert("mine", {}, HOUR)),
      request(async (unit) => {
        await expect(adapter("Session").find("mine")).resolves.toBeUndefined();
        expect(units.current()).toBe(unit);
      }),
    ]);
    expect(units.current()).toBeUndefined();
  });

  it("keeps the higher generation of a session: a request that began earlier does not end it [D-ACCOUNT-7]", async () => {
    const [first, second] = [
      { ...session(["a"]), generation: 1 },
      { ...session(["a"]), generation: 2 },
    ];
    await adapter("Session").upsert("id", first, HOUR);
    const times = { receivedAt: performance.now(), deadline: clock.now() + 4_500 };
    await request(async () => {
      await adapter("Session").find("id");
      await units.run(times, async (other) => {
        await adapter("Session").find("id");
        await adapter("Session").upsert("id", second, HOUR);
        await other.commit();
      });
      await adapter("Session").upsert("id", { ...first, acr: "x" }, HOUR);
    });
    await expect(adapter("Session").find("id")).resolves.toMatchObject({ ...second, acr: "x" });
  });

  it("merges the clients that parallel requests add to one session", async () => {
    await adapter("Session").upsert("id", session(["a"]), HOUR);
    const times = { receivedAt: performance.now(), deadline: clock.now() + 4_500 };
    await request(async () => {
      await adapter("Session").find("id");
      await units.run(times, async (other) => {
        await adapter("Session").find("id");
        await adapter("Session").upsert("id", session(["a", "b"]), HOUR);
        await other.commit();
      });
      await adapter("Session").upsert("id", session(["a", "c"]), HOUR);
    });
    await expect(adapter("Session").find("id")).resolves.toMatchObject(session(["a", "b", "c"]));
  });
});
