/** Connections that are lost again before they are ready: nobody waits for what will not come. */
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { readRedisAddress, type RedisAddress } from "../../../config/value-forms.ts";
import { openRedis } from "../../../notifier/bullmq/connection.ts";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { Wire } from "../../servers/wire.ts";

let redis: OwnRedis;
let wire: Wire;
beforeEach(async () => {
  redis = await openOwnRedis();
  wire = await Wire.to(Number(new URL(redis.url).port));
});
afterEach(async () => {
  await wire.close();
  await redis.close();
});

it("refuses what was not answered, when it is ended before the next connection is ready", async () => {
  const address = readRedisAddress(`redis://127.0.0.1:${wire.port}`) as RedisAddress;
  const opened = await openRedis({ address, patience: 5000, onWarning: () => undefined });
  const worker = opened.forWorker();
  await worker.ping();
  wire.delay = 60_000;
  const asked = worker.ping();
  const connects = new Promise((resolve) => void worker.once("connect", resolve));
  wire.cut();
  await connects;
  expect(worker.status).toBe("connect");
  opened.disconnect();
  await expect(asked).rejects.toThrow("closed");
});
