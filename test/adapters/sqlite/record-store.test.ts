import * as runner from "@jest/globals";
import { openSqlite } from "../../../adapters/sqlite/record-store.ts";
import { describeStorage } from "../../../lib/testing/storage/suite.ts";
import { DatabaseFiles } from "./database-files.ts";

const { afterAll, beforeAll } = runner;
const files = new DatabaseFiles();

beforeAll(() => files.create());
afterAll(() => files.remove());

describeStorage(
  "an SQLite file",
  {
    open: (clock) => openSqlite({ path: files.next(), clock }),
    reopen: (clock) => openSqlite({ path: files.path, clock }),
  },
  runner,
);
describeStorage("SQLite in memory", { open: (clock) => openSqlite({ path: ":memory:", clock }) }, runner);
