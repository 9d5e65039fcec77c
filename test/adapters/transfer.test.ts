/** Copying on each backend alone; copies from one to another are in `test/cli`. */
import { afterAll, beforeAll } from "@jest/globals";
import { openSqlite, openSqliteTransfer } from "../../adapters/sqlite/index.ts";
import { describeTransfer } from "./contract/transfer.ts";
import { DatabaseFiles } from "./sqlite/database-files.ts";

const files = new DatabaseFiles();

beforeAll(() => files.create());
afterAll(() => files.remove());

describeTransfer("an SQLite file", {
  async place() {
    const path = files.next();
    return {
      open: (clock) => openSqlite({ path, clock }),
      openTransfer: (clock) => openSqliteTransfer({ path, clock, mustExist: false }),
    };
  },
});
