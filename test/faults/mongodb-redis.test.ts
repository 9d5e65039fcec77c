/** Faults of a MongoDB and a Redis that begin in the middle of every request and last until all of them are answered. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll } from "@jest/globals";
import { describeOwnMongo, type OwnMongo, startOwnMongo } from "../servers/mongodb.ts";
import { openOwnRedis, type OwnRedis } from "../servers/redis.ts";
import { Wire as Line } from "../servers/wire.ts";
import { type Fault, itSurvives, PATIENCE, SLOW } from "./server-faults.ts";
import { openStage, type Stage } from "./stage.ts";

let mongo: OwnMongo;
let mongoLine: Line;
let redis: OwnRedis;
let redisLine: Line;
let stage: Stage;

const FAULTS: readonly Fault[] = [
  {
    name: "a MongoDB that stands still",
    part: "storage",
    begin: () => mongo.pause(),
    end: () => mongo.resume(),
    at: [1, 4],
  },
  {
    name: "a MongoDB that is killed and started again",
    part: "storage",
    begin: () => mongo.kill(),
    end: () => mongo.start(),
    at: [2, 5],
  },
  {
    name: "a MongoDB that is slow",
    part: "storage",
    begin: () => (mongoLine.lag = SLOW),
    end() {
      mongoLine.lag = 0;
      mongoLine.cut();
    },
    at: [3],
  },
  {
    name: "a Redis that stands still",
    part: "artifacts",
    begin: () => redis.pause(),
    end: () => redis.resume(),
    at: [3],
  },
  {
    name: "a Redis that is killed and started again with what it had written",
    part: "artifacts",
    begin: () => redis.stop(),
    end: () => redis.start(),
    at: [3],
  },
  {
    name: "a Redis that is slow",
    part: "artifacts",
    begin: () => (redisLine.lag = SLOW),
    end() {
      redisLine.lag = 0;
      redisLine.cut();
    },
    at: [3],
  },
];

describeOwnMongo("on MongoDB and Redis", () => {
  beforeAll(async () => {
    // What was acknowledged is there after a kill.
    mongo = await startOwnMongo({ durable: true });
    redis = await openOwnRedis(["--appendonly", "yes", "--appendfsync", "always"]);
    const mongoUrl = new URL(mongo.url("faults"));
    mongoLine = await Line.to(Number(mongoUrl.port));
    redisLine = await Line.to(Number(new URL(redis.url).port));
    mongoUrl.port = String(mongoLine.port);
    stage = await openStage({
      storage: mongoUrl.href,
      artifacts: `redis://127.0.0.1:${redisLine.port}`,
      keys: { secrets: [randomBytes(32).toString("base64")] },
    });
  }, PATIENCE);
  afterAll(async () => {
    await stage.close();
    await mongoLine.close();
    await redisLine.close();
    await mongo.close();
    await redis.close();
  });

  itSurvives(FAULTS, () => stage);
});
