import { randomBytes } from "node:crypto";
import * as runner from "@jest/globals";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { Connection, createClient } from "../../../adapters/redis/connection.ts";
import { createRedisRecords } from "../../../adapters/redis/record-store.ts";
import { readRedisAddress, type RedisAddress } from "../../../config/redis-address.ts";
import type { Clock } from "../../../lib/clock.ts";
import { describeRecordStore } from "../../../lib/testing/records/suite.ts";
import { openOwnRedis, type OwnRedis } from "../../servers/redis.ts";

const { afterAll, beforeAll } = runner;
let server: OwnRedis;
let prefix: string;

beforeAll(async () => {
  server = await openOwnRedis();
});
afterAll(() => server.close());

async function open(clock: Clock): Promise<RecordStore> {
  const client = await createClient(readRedisAddress(server.url) as RedisAddress);
  if (client.status !== "ready") await new Promise((resolve) => client.once("ready", resolve));
  return createRedisRecords({ connection: new Connection(client), prefix, clock });
}

describeRecordStore(
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
