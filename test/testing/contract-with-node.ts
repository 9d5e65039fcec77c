/** The contract under `node --test`: run by contract.test.ts, as a team without Jest would run it. */
import * as runner from "node:test";
import { expect } from "expect";
import { openSqlite } from "../../adapters/sqlite/record-store.ts";
import { describeStorage } from "../../testing/index.ts";

describeStorage(
  "SQLite in memory",
  {
    open: (clock) => openSqlite({ path: ":memory:", clock }),
    differences: {
      "records > are replaced as a whole, and removed": "to see a case left out",
    },
  },
  { ...runner, expect },
);
