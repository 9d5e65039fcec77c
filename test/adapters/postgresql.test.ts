import * as runner from "@jest/globals";
import { openPostgres } from "../../adapters/postgresql/store.ts";
import { describeRecordStore } from "../../lib/testing/records/suite.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";

const { afterAll, beforeAll } = runner;
let server: OwnPostgres;
let url: string;

beforeAll(async () => {
  server = await openOwnPostgres();
});
afterAll(() => server.close());

describeRecordStore(
  "PostgreSQL",
  {
    async open(clock) {
      url = await server.newDatabase();
      return openPostgres({ url, clock, announced: ["thing"] });
    },
    reopen: (clock) => openPostgres({ url, clock, announced: ["thing"] }),
  },
  runner,
);
