import * as runner from "@jest/globals";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { openMongo } from "../../../adapters/mongodb/record-store.ts";
import type { Clock } from "../../../lib/clock.ts";
import { describeStorage } from "../../../lib/testing/storage/suite.ts";
import { type MongoServer, openMongoServer } from "../../servers/mongodb.ts";

const { afterAll, beforeAll } = runner;
let server: MongoServer;
let url: string;

beforeAll(async () => {
  server = await openMongoServer();
});
afterAll(() => server.close());

const open = async (clock: Clock): Promise<RecordStore> => (await openMongo({ url, clock })).store;

describeStorage(
  "MongoDB",
  {
    open(clock) {
      url = server.nextUrl();
      return open(clock);
    },
    reopen: open,
  },
  runner,
);
