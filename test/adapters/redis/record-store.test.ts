import { randomBytes } from "node:crypto";
import * as runner from "@jest/globals";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { openRedis } from "../../../adapters/redis/index.ts";
import type { Clock } from "../../../lib/clock.ts";
import { describeStorage } from "../../../lib/testing/storage/suite.ts";
import { openOwnRedis, type OwnRedis } from "../../servers/redis.ts";

const { afterAll, beforeAll } = runner;
let server: OwnRedis;
let prefix: string;

beforeAll(async () => {
  server = await openOwnRedis();
});
afterAll(() => server.close());

async function open(clock: Clock): Promise<RecordStore> {
  const { store } = await openRedis({ url: `${server.url}?prefix=${prefix}`, clock });
  return store;
}

describeStorage(
  "Redis",
  {
    open(clock) {
      prefix = `${randomBytes(6).toString("hex")}:`;
      return open(clock);
    },
    reopen: open,
  },
  runner,
);
