/** The contract under `node --test`: run by contract.test.ts, as a team without Jest would run it. */
import * as runner from "node:test";
import { expect } from "expect";
import { openSqlite } from "../../../adapters/sqlite/index.ts";
import { describeStorage } from "../../../lib/testing.ts";

describeStorage(
  "SQLite in memory",
  {
    open: (clock) => openSqlite({ path: ":memory:", clock }),
    restart: { impossible: "a database in memory ends with its connection" },
    differences: {
      "accounts > lets one of 50 accounts that are created at once have a name": "to see a case left out",
    },
  },
  { ...runner, expect },
);
