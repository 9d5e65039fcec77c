/** Faults of a MongoDB and a Redis that begin in the middle of every request and last until all of them are answered. */
import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { describeOwnMongo, type OwnMongo, startOwnMongo } from "../servers/mongodb.ts";
import { openOwnRedis, type OwnRedis } from "../servers/redis.ts";
import { Wire as Line } from "../servers/wire.ts";
import { browserSteps } from "./browser-steps.ts";
import { clientSteps } from "./client-steps.ts";
import { send, sendPatiently } from "./person.ts";
import { openStage, type Stage } from "./stage.ts";
import type { Ready, Step } from "./step.ts";
import { expectUnavailable } from "./unavailable.ts";

/** Milliseconds for a test; a busy machine needs most of it. */
const PATIENCE = 300_000;
/** Milliseconds that a slow server is slow: longer than a request may take. */
const SLOW = 6_000;

const steps: readonly Step[] = [...browserSteps, ...clientSteps];

let mongo: OwnMongo;
let mongoLine: Line;
let redis: OwnRedis;
let redisLine: Line;
let stage: Stage;

interface Fault {
  readonly name: string;
  readonly part: "storage" | "artifacts";
  readonly begin: () => unknown;
  readonly end: () => unknown;
  /** Before which of its calls of the store each request is held until the fault has begun. */
  readonly at: readonly number[];
}

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

async function untilHealthy(): Promise<void> {
  while (!(await stage.service.health()).ok) await pause(20);
}

/** Sends one request of each step, and begins the fault when each is at its call number `at`, or is answered. */
async function answersDuring(
  { begin }: Fault,
  all: readonly (readonly [Step, Ready])[],
  at: number,
): Promise<Response[]> {
  const gate = stage.storage.holdRequests(at);
  let answered = 0;
  const asked = all.map(async ([{ page }, { wire }]) => {
    const accept = page ? { accept: "text/html" } : {};
    const response = await send({ ...wire, headers: { ...wire.headers, ...accept } });
    answered += 1;
    return response;
  });
  while (gate.held + answered < all.length) await pause(5);
  await begin();
  gate.open();
  return Promise.all(asked);
}

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

  const rounds = FAULTS.flatMap((fault) => fault.at.map((at) => [fault.name, at, fault] as const));

  it.each(rounds)(
    "%s from call %i of every request on: 503, and the same request sent again succeeds [ERR-9, D-TOKEN-5]",
    async (_name, at, fault) => {
      await untilHealthy();
      const all: (readonly [Step, Ready])[] = [];
      for (const step of steps) all.push([step, await step.prepare(stage)]);
      const answers = await answersDuring(fault, all, at);
      const { parts } = await stage.service.health();
      await fault.end();
      expect(parts).toMatchObject({
        storage: { ok: fault.part !== "storage" },
        artifacts: { ok: fault.part !== "artifacts" },
      });
      await untilHealthy();
      let refused = 0;
      for (const [index, [step, { wire, good }]] of all.entries()) {
        const answer = answers[index]!;
        if (answer.status === 503) {
          refused += 1;
          await expectUnavailable(answer, step.page === true, step.name);
          await good(await sendPatiently(wire));
        } else await good(answer);
      }
      expect(refused).toBeGreaterThan(0);
    },
    PATIENCE,
  );
});
