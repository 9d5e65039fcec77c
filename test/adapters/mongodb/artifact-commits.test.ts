import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { ArtifactStore, ArtifactWrite } from "../../../adapters/artifacts.ts";
import { createArtifactStore } from "../../../adapters/mongodb/artifacts.ts";
import { type Connection, connect } from "../../../adapters/mongodb/connection.ts";
import { prepareDatabase } from "../../../adapters/mongodb/indexes.ts";
import { artifact, ManualClock } from "../../../lib/testing/contract/stage.ts";
import { describeMongo, type MongoServer, openMongoServer } from "../../servers/mongodb.ts";

const clock = new ManualClock();
let server: MongoServer;
let connection: Connection;
let artifacts: ArtifactStore;

const put = (key: string, parts = {}): ArtifactWrite => ({
  kind: "put",
  artifact: artifact(clock, "AccessToken", key, parts),
});
const consume = (key: string, at = 1): ArtifactWrite => ({ kind: "consume", model: "AccessToken", key, at });
const remove = (key: string): ArtifactWrite => ({
  kind: "remove",
  model: "AccessToken",
  key,
  mustExist: true,
});
const batch = (id: string, ...writes: ArtifactWrite[]) => ({ id, deadline: clock.now() + 4000, writes });
const find = (key: string) => artifacts.find("AccessToken", key);

/** Batches whose conditions hold while "k" is there. */
const batches: Readonly<Record<string, ArtifactWrite[]>> = {
  "one put": [put("k", { payload: { n: 1 } })],
  "one update": [{ kind: "update", artifact: artifact(clock, "AccessToken", "k", { payload: { n: 1 } }) }],
  "one consumption": [consume("k")],
  "one removal": [remove("k")],
  "one condition": [{ kind: "require", model: "AccessToken", key: "k" }],
  "a family": [{ kind: "revoke", grantKey: "g" }],
  "a consumption and what it gives": [consume("k"), put("child")],
  "a removal and a put": [remove("k"), put("child")],
};

describeMongo("a batch of artifacts in MongoDB", () => {
  beforeAll(async () => {
    server = await openMongoServer();
    connection = await connect(server.nextUrl(), clock);
    await prepareDatabase(connection.db);
    artifacts = createArtifactStore(connection);
  });
  afterAll(async () => {
    await connection.close();
    await server.close();
  });
  beforeEach(async () => {
    await connection.collection("artifacts").deleteMany({});
    await artifacts.commit(batch("first", put("k", { grantKey: "g" })));
  });

  describe.each(Object.keys(batches))("of %s", (name) => {
    const writes = batches[name]!;

    it("is written once when it is sent again", async () => {
      await artifacts.commit(batch("same", ...writes));
      const after = [await find("k"), await find("child")];
      await artifacts.commit(batch("same", ...writes));
      await expect(Promise.all([find("k"), find("child")])).resolves.toEqual(after);
    });

    it("is written once when it is sent twice at the same time", async () => {
      await Promise.all([
        artifacts.commit(batch("same", ...writes)),
        artifacts.commit(batch("same", ...writes)),
      ]);
    });

    it("is refused by the server when it comes late, and stands in nobody's way", async () => {
      const before = [await find("k"), await find("child")];
      const late = { ...connection, serverTimeIn: (wait: number) => connection.serverTimeIn(wait - 60_000) };
      const refused = createArtifactStore(late).commit(batch("late", ...writes));
      await expect(refused).rejects.toMatchObject({ code: "storage_unavailable" });
      await expect(Promise.all([find("k"), find("child")])).resolves.toEqual(before);
      await artifacts.commit(batch("late", ...writes));
    });
  });

  it("is refused when another one was first", async () => {
    await artifacts.commit(batch("one", consume("k"), put("child")));
    const other = artifacts.commit(batch("two", consume("k"), put("other child")));
    await expect(other).rejects.toMatchObject({ code: "condition_failed" });
    await expect(artifacts.commit(batch("three", consume("k")))).rejects.toMatchObject({
      code: "condition_failed",
    });
    await expect(find("other child")).resolves.toBeUndefined();
  });

  it("leaves nothing that the server would not delete by itself", async () => {
    await artifacts.commit(batch("all", put("a"), consume("a"), put("b"), remove("b")));
    const kept = connection.collection<{ _id: string; forget_at?: Date }>("artifacts");
    const stored = await kept.find().toArray();
    expect(stored.length).toBeGreaterThan(2);
    expect(stored.every(({ forget_at }) => forget_at instanceof Date)).toBe(true);
    const indexes = await kept.indexes();
    expect(indexes).toContainEqual(expect.objectContaining({ key: { forget_at: 1 }, expireAfterSeconds: 0 }));
  });
});
