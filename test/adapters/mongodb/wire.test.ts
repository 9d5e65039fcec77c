import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { ArtifactWrite } from "../../../adapters/artifacts.ts";
import { openMongo } from "../../../adapters/mongodb/open.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import { account, artifact, change, creation, delivery, entry } from "../../../lib/testing/contract/stage.ts";
import { openTap, type Tap } from "../../servers/mongodb-tap.ts";
import { describeOwnMongo, type OwnMongo, startOwnMongo } from "../../servers/mongodb.ts";

const clock = createSystemClock();
const ada = account(1);

const put = (model: string, key: string): ArtifactWrite => ({
  kind: "put",
  artifact: artifact(clock, model, key, { grantKey: "g", accountId: "a", uid: key }),
});
const consume = (key: string): ArtifactWrite => ({ kind: "consume", model: "AuthorizationCode", key, at: 1 });

describeOwnMongo("what goes over the wire to MongoDB", () => {
  let server: OwnMongo;
  let tap: Tap;
  let opened: Awaited<ReturnType<typeof openMongo>>;

  const commit = (...writes: ArtifactWrite[]) =>
    opened.artifacts.commit({ id: randomUUID(), deadline: clock.now() + 4500, writes });

  beforeAll(async () => {
    server = await startOwnMongo();
    tap = await openTap(server.url("wire"));
    opened = await openMongo({ url: tap.url(server.url("wire")), clock });
    await opened.directory.putEntry("service", entry("1"));
    await opened.directory.commitAccount(creation(ada, { claimNames: ["ada"] }));
  });
  afterAll(async () => {
    await opened.close();
    await tap.close();
    await server.close();
  });
  beforeEach(async () => {
    // What was consumed stays so, whatever is put in its place.
    await commit({ kind: "remove", model: "AuthorizationCode", key: "code", mustExist: false });
    await commit(put("AuthorizationCode", "code"), put("Session", "s"), put("Grant", "g"));
    tap.commands.length = 0;
  });

  /** One after the other: each is a way to the server and back. */
  const rounds: Readonly<
    Record<string, readonly [call: () => Promise<unknown>, commands: readonly string[]]>
  > = {
    "find an artifact": [() => opened.artifacts.find("Session", "s"), ["find"]],
    "find it with its grant": [() => opened.artifacts.findWithGrant("Session", "s"), ["aggregate"]],
    "find it by its uid": [() => opened.artifacts.findByUid("Session", "s"), ["find"]],
    "list those of an account": [() => opened.artifacts.listByAccount({ accountId: "a" }), ["find"]],
    "write one artifact": [() => commit(put("Session", "new")), ["update"]],
    "consume one": [() => commit(consume("code")), ["update"]],
    "exchange a code": [
      () =>
        commit(
          { kind: "require", model: "Grant", key: "g" },
          consume("code"),
          put("AccessToken", "t"),
          put("RefreshToken", "r"),
          { kind: "update", artifact: artifact(clock, "Session", "s"), merge: "authorizations" },
        ),
      ["update", "commitTransaction"],
    ],
    "revoke a family": [() => commit({ kind: "revoke", grantKey: "g" }), ["update", "commitTransaction"]],
    "find an account": [() => opened.directory.findAccount(ada.sub), ["find"]],
    "find an account by its name": [() => opened.directory.findAccountByName("ada"), ["aggregate"]],
    "find a client": [() => opened.directory.findClient("news"), ["find"]],
    "assign an account": [
      () =>
        opened.directory.commitAccount(
          change({ ...ada, version: 1 }, { services: { "1": null } }, { requireServices: ["1"] }),
        ),
      ["update", "update", "commitTransaction"],
    ],
    "take a point": [() => opened.rateLimits("n", { points: 9, seconds: 60 }).take("k"), ["findAndModify"]],
  };

  it.each(Object.keys(rounds))("to %s", async (name) => {
    const [call, commands] = rounds[name]!;
    await call();
    expect(tap.commands.map((command) => command.name)).toEqual(commands);
  });

  it("takes one way for all points that are asked for while another is under way", async () => {
    const limiter = opened.rateLimits("m", { points: 50, seconds: 60 });
    const taken = await Promise.all(Array.from({ length: 100 }, () => limiter.take("k")));
    expect(taken.filter(({ allowed }) => allowed)).toHaveLength(50);
    expect(tap.commands).toHaveLength(2);
  });

  it("a transaction whose commit was not answered is asked about again, and counts once", async () => {
    tap.cutAnswerTo("commitTransaction");
    await commit(consume("code"), put("AccessToken", "child"));
    await expect(commit(consume("code"), put("AccessToken", "other"))).rejects.toMatchObject({
      code: "condition_failed",
    });
    await expect(opened.artifacts.find("AccessToken", "child")).resolves.toBeDefined();
    const bob = account(2);
    tap.cutAnswerTo("commitTransaction");
    await opened.directory.commitAccount(creation(bob, { deliveries: [delivery("d", bob.sub)] }));
    await expect(opened.directory.findAccount(bob.sub)).resolves.toEqual(bob);
  });

  it.each(["update", "findAndModify", "find", "aggregate"])(
    "an unanswered %s is repeated, and counts once",
    async (name) => {
      tap.cutAnswerTo(name);
      await commit(consume("code"));
      const before = await opened.directory.nextUserId();
      await expect(opened.directory.findAccountByName("ada")).resolves.toMatchObject({ sub: ada.sub });
      await expect(opened.artifacts.find("AuthorizationCode", "code")).resolves.toMatchObject({
        consumedAt: 1,
      });
      await expect(opened.directory.nextUserId()).resolves.toBe(before + 1);
    },
  );

  it("a transaction that is cut off before its commit is done again, and counts once", async () => {
    tap.cutAnswerTo("update");
    await commit(consume("code"), put("AccessToken", "child"));
    await expect(opened.artifacts.find("AccessToken", "child")).resolves.toBeDefined();
    await expect(opened.artifacts.find("AuthorizationCode", "code")).resolves.toMatchObject({
      consumedAt: 1,
    });
  });
});
