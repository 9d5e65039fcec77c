import * as runner from "@jest/globals";
import { openMongo } from "../../adapters/mongodb/open.ts";
import type { Storage } from "../../adapters/storage.ts";
import { describeConditions } from "../../lib/testing/contract/artifact-conditions.ts";
import { describeArtifacts } from "../../lib/testing/contract/artifacts.ts";
import { describeRateLimits } from "../../lib/testing/contract/rate-limits.ts";
import { ManualClock, type Stage } from "../../lib/testing/contract/stage.ts";
import { describeMongo, type MongoServer, openMongoServer } from "../servers/mongodb.ts";

const { afterAll, afterEach, beforeAll, beforeEach, describe } = runner;

describeMongo("the storage contract on MongoDB", () => {
  const stage = {} as Stage;
  let server: MongoServer;

  beforeAll(async () => {
    server = await openMongoServer();
  });
  afterAll(() => server.close());
  beforeEach(async () => {
    stage.clock = new ManualClock();
    stage.storage = (await openMongo({ url: server.nextUrl(), clock: stage.clock })) as Storage;
  });
  afterEach(() => stage.storage.close());

  describe("artifacts", () => describeArtifacts(stage, runner));
  describe("artifact batches", () => describeConditions(stage, runner));
  describe("rate limits", () => describeRateLimits(stage, runner));
});
