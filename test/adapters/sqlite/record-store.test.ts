/** On a file, with two processes, the same suite is in `processes.test.ts`. */
import * as runner from "@jest/globals";
import { openSqlite } from "../../../adapters/sqlite/record-store.ts";
import { describeStorage } from "../../../testing/storage/suite.ts";

describeStorage("SQLite in memory", { open: (clock) => openSqlite({ path: ":memory:", clock }) }, runner);
