import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { ArtifactWrite } from "../../../adapters/artifacts.ts";
import { openMongo } from "../../../adapters/mongodb/open.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import {
  account,
  artifact,
  change,
  client,
  creation,
  entry,
  outcomes,
} from "../../../lib/testing/contract/stage.ts";
import { describeOwnMongo, type OwnMongo, startOwnMongo } from "../../servers/mongodb.ts";

type Opened = Awaited<ReturnType<typeof openMongo>>;

const clock = createSystemClock();
/** Milliseconds for what has to come to an end some time. */
const PATIENCE = 30_000;

const put = (model: string, key: string): ArtifactWrite => ({
  kind: "put",
  artifact: artifact(clock, model, key),
});

/** A call of each kind: reads, single writes, transactions, rate limits. */
function calls({ directory, artifacts, rateLimits, parts }: Opened): (() => Promise<unknown>)[] {
  const commit = (...writes: ArtifactWrite[]) =>
    artifacts.commit({ id: randomUUID(), deadline: clock.now() + 4500, writes });
  return [
    () => parts[0]!.ping(),
    () => artifacts.find("Session", "s"),
    () => artifacts.listByAccount({ accountId: "a" }),
    () => artifacts.purgeExpired(9),
    () => commit(put("Session", "one")),
    () => commit(put("Session", "two"), put("Session", "three")),
    () => directory.findAccountByName("ada"),
    () => directory.nextUserId(),
    () => directory.keep("name", "value"),
    () => directory.putEntry("service", entry("1")),
    () => directory.appendAudit({ at: 1, action: "a", subject: "s" }),
    () => rateLimits("name", { points: 1000, seconds: 60 }).take("key"),
  ];
}

/** All of the calls, again and again, until they succeed. */
async function untilHealed(opened: Opened): Promise<void> {
  const end = performance.now() + PATIENCE;
  for (;;) {
    const codes = await outcomes(calls(opened).map((call) => call()));
    if (codes.every((code) => code === undefined)) return;
    expect(codes.filter((code) => code !== undefined && code !== "storage_unavailable")).toEqual([]);
    if (performance.now() > end) throw new Error(`not healed: ${codes.join(", ")}`);
    await pause(100);
  }
}

describeOwnMongo("a storage in a MongoDB that fails", () => {
  let server: OwnMongo;
  let opened: Opened;

  beforeEach(async () => {
    server = await startOwnMongo({ durable: true });
    opened = await openMongo({ url: server.url("faults"), clock });
    await untilHealed(opened);
  });
  afterEach(async () => {
    server.resume();
    await opened.close();
    await server.close();
  });

  async function expectRefused(): Promise<void> {
    const asked = calls(opened).map((call) => call());
    const codes = await outcomes(asked);
    expect(codes).toEqual(asked.map(() => "storage_unavailable"));
  }

  it("refuses every call while the server is gone, and goes on when it is back", async () => {
    await opened.directory.keep("before", "kept");
    await server.kill();
    await expectRefused();
    await expectRefused();
    await server.start();
    await untilHealed(opened);
    await expect(opened.directory.kept("before")).resolves.toBe("kept");
  });

  it("refuses every call while the server is paused, and goes on when it wakes up", async () => {
    server.pause();
    await expectRefused();
    server.resume();
    await untilHealed(opened);
  });

  it("has not written what was refused while it was paused, and the repeat succeeds", async () => {
    const commit = (...writes: ArtifactWrite[]) =>
      opened.artifacts.commit({ id: randomUUID(), deadline: clock.now() + 1500, writes });
    const exchange = () =>
      commit(
        { kind: "consume", model: "AuthorizationCode", key: "code", at: clock.now() },
        put("AccessToken", "token"),
      );
    const spend = () =>
      commit({ kind: "consume", model: "AuthorizationCode", key: "other", at: clock.now() });
    const ada = account(7);
    const rename = () => opened.directory.commitAccount(change(ada, { name: "Augusta" }));
    await opened.directory.commitAccount(creation(ada));
    await commit(put("AuthorizationCode", "code"), put("AuthorizationCode", "other"));
    server.pause();
    await expect(outcomes([exchange(), spend(), rename()])).resolves.toEqual(
      Array(3).fill("storage_unavailable"),
    );
    server.resume();
    const end = performance.now() + PATIENCE;
    for (const repeat of [exchange, spend, rename]) {
      for (;;) {
        const [code] = await outcomes([repeat()]);
        if (code === undefined) break;
        expect(code).toBe("storage_unavailable");
        if (performance.now() > end) throw new Error("the repeat does not succeed");
      }
    }
    await expect(opened.directory.findAccount(ada.sub)).resolves.toMatchObject({
      name: "Augusta",
      version: 2,
    });
  });

  it("waits for a server that is back in time", async () => {
    await server.kill();
    const asked = calls(opened).map((call) => call());
    await server.start();
    const codes = await outcomes(asked);
    expect(codes.filter((code) => code !== undefined && code !== "storage_unavailable")).toEqual([]);
    await untilHealed(opened);
  });

  it("is closed while the server does not answer", async () => {
    server.pause();
    const asked = outcomes(calls(opened).map((call) => call()));
    await opened.close();
    await asked;
    await expect(opened.directory.findClient(client("c").client_id)).rejects.toMatchObject({
      code: "storage_unavailable",
    });
  });
});
