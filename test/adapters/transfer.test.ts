/** Copying on each backend alone; copies from one to another are in `test/cli`. */
import { afterAll, beforeAll } from "@jest/globals";
import { openTransfer } from "../../adapters/open-transfer.ts";
import { openStorage } from "../../lib/storage.ts";
import { describeMongo, type MongoServer, openMongoServer } from "../servers/mongodb.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { describeTransfer, type Place } from "./contract/transfer.ts";
import { DatabaseFiles } from "./sqlite/database-files.ts";

const files = new DatabaseFiles();
let redis: OwnRedis;
let prefixes = 0;

beforeAll(async () => {
  await files.create();
  redis = await openOwnRedis();
});
afterAll(async () => {
  await redis.close();
  await files.remove();
});

function place(storage: string, artifacts: string): Place {
  return {
    open: (clock) => openStorage({ storage, artifacts, clock }),
    openTransfer: (clock) => openTransfer({ storage, artifacts, clock, mustExist: false }),
  };
}

describeTransfer("an SQLite file", {
  async place() {
    const storage = `sqlite:${files.next()}`;
    return place(storage, storage);
  },
});

describeTransfer("SQLite with artifacts in Redis", {
  async place() {
    prefixes += 1;
    return place(`sqlite:${files.next()}`, `${redis.url}?prefix=p${prefixes}:`);
  },
});

describeMongo("with a MongoDB", () => {
  let server: MongoServer;

  beforeAll(async () => {
    server = await openMongoServer();
  });
  afterAll(() => server.close());

  describeTransfer("MongoDB", {
    async place() {
      const url = server.nextUrl();
      return place(url, url);
    },
  });
});
