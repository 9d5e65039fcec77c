import * as runner from "@jest/globals";
import { openMongoRecords } from "../../../adapters/mongodb/record-store.ts";
import { describeRecordStore } from "../../../lib/testing/records/suite.ts";
import { type MongoServer, openMongoServer } from "../../servers/mongodb.ts";

const { afterAll, beforeAll } = runner;
let server: MongoServer;
let url: string;

beforeAll(async () => {
  server = await openMongoServer();
});
afterAll(() => server.close());

describeRecordStore(
  "MongoDB",
  {
    open(clock) {
      url = server.nextUrl();
      return openMongoRecords({ url, clock });
    },
    reopen: (clock) => openMongoRecords({ url, clock }),
  },
  runner,
);
