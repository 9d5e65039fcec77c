import * as runner from "@jest/globals";
import { openMongo } from "../../adapters/mongodb/open.ts";
import type { Storage } from "../../adapters/storage.ts";
import { describeConditions } from "../../lib/testing/contract/artifact-conditions.ts";
import { describeArtifacts } from "../../lib/testing/contract/artifacts.ts";
import { describeRateLimits } from "../../lib/testing/contract/rate-limits.ts";
import { ManualClock, type Stage } from "../../lib/testing/contract/stage.ts";
import { openTap, type Tap } from "../servers/mongodb-tap.ts";
import { describeOwnMongo, type MongoServer, startOwnMongo } from "../servers/mongodb.ts";
import { isFoundByIndex, questions, shapeOf } from "./mongodb/plans.ts";

const { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } = runner;

describeOwnMongo("the storage contract on MongoDB", () => {
  const stage = {} as Stage;
  let server: MongoServer;
  let tap: Tap;

  beforeAll(async () => {
    server = await startOwnMongo();
    tap = await openTap(server.url("x"));
  });
  afterAll(async () => {
    await tap.close();
    await server.close();
  });
  beforeEach(async () => {
    stage.clock = new ManualClock();
    stage.storage = (await openMongo({ url: tap.url(server.nextUrl()), clock: stage.clock })) as Storage;
  });
  afterEach(() => stage.storage.close());

  describe("artifacts", () => describeArtifacts(stage, runner));
  describe("artifact batches", () => describeConditions(stage, runner));
  describe("rate limits", () => describeRateLimits(stage, runner));

  it("finds everything by an index", async () => {
    const asked = new Map(tap.commands.flatMap(questions).map((question) => [shapeOf(question), question]));
    expect(asked.size).toBeGreaterThan(15);
    const db = server.client.db(tap.commands.at(-1)!.database);
    const searched: string[] = [];
    for (const [shape, question] of asked) {
      if (!(await isFoundByIndex(db, question))) searched.push(shape);
    }
    expect(searched).toEqual([]);
    await expect(isFoundByIndex(db, { collection: "accounts", filter: { version: 1 } })).resolves.toBe(false);
  });
});
