/** A Redis that is lost again before the next connection is ready: nobody waits for what will not come. */
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { Wire } from "../../servers/wire.ts";
import { type BullStage, openBullStage } from "./stage.ts";

let redis: OwnRedis;
let wire: Wire;
let stage: BullStage;
beforeEach(async () => {
  redis = await openOwnRedis();
  wire = await Wire.to(Number(new URL(redis.url).port));
  stage = await openBullStage();
});
afterEach(async () => {
  await stage.close();
  await wire.close();
  await redis.close();
});

it("closes a worker whose commands were to be sent again", async () => {
  const worker = await stage.worker(`redis://127.0.0.1:${wire.port}`);
  worker.scheduler.start();
  // It waits for a wake-up when the connection breaks, and the next connection stays silent.
  await pause(300);
  wire.delay = 60_000;
  wire.cut();
  await pause(500);
  const begin = performance.now();
  await worker.end();
  expect(performance.now() - begin).toBeLessThan(20_000);
});
