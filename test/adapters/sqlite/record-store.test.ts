import * as runner from "@jest/globals";
import { openSqliteRecords } from "../../../adapters/sqlite/record-store.ts";
import { describeRecordStore } from "../../../lib/testing/records/suite.ts";
import { DatabaseFiles } from "./database-files.ts";

const { afterAll, beforeAll } = runner;
const files = new DatabaseFiles();

beforeAll(() => files.create());
afterAll(() => files.remove());

describeRecordStore(
  "an SQLite file",
  {
    open: (clock) => openSqliteRecords({ path: files.next(), clock }),
    reopen: (clock) => openSqliteRecords({ path: files.path, clock }),
  },
  runner,
);
describeRecordStore(
  "SQLite in memory",
  { open: (clock) => openSqliteRecords({ path: ":memory:", clock }) },
  runner,
);
