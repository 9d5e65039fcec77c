import * as runner from "@jest/globals";
import { openStorage } from "../../lib/storage.ts";
import { describeStorage, type StorageBackend } from "../../lib/testing.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { DatabaseFiles } from "./sqlite/database-files.ts";

const { afterAll, beforeAll } = runner;
const files = new DatabaseFiles();
let redis: OwnRedis;

beforeAll(async () => {
  await files.create();
  redis = await openOwnRedis();
});
afterAll(async () => {
  await redis.close();
  await files.remove();
});

const backend: StorageBackend = {
  async open(clock) {
    await redis.client.flushall();
    return openStorage({ storage: `sqlite:${files.next()}`, artifacts: redis.url, clock });
  },
  restart: {
    reopen: (clock) => openStorage({ storage: `sqlite:${files.path}`, artifacts: redis.url, clock }),
  },
};

describeStorage("SQLite with artifacts in Redis", backend, runner);
