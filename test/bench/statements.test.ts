/** No operation asks more of a storage than `docs/scale.md` says. */
import { dirname } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { Figures } from "../../bench/statements/counters.ts";
import { type Counts, OPERATIONS } from "../../bench/statements/operations.ts";
import { postgresCounts, readCounts, sqliteCounts } from "../../bench/statements/statements.ts";
import { type OwnPostgres, openOwnPostgres } from "../servers/postgresql.ts";
import { DatabaseFiles } from "../adapters/sqlite/database-files.ts";
import { closing } from "../closing.ts";

/** Ids and times differ in length from run to run. */
const BYTES_SLACK = 1.05;

function overruns(counted: Counts, bounds: Counts): string[] {
  return OPERATIONS.flatMap((operation) => {
    const names = Object.keys(bounds[operation]) as (keyof Figures)[];
    return names.flatMap((name) => {
      const bound = (bounds[operation][name] ?? 0) * (name === "bytes" ? BYTES_SLACK : 1);
      const is = counted[operation][name] ?? 0;
      return is <= bound ? [] : [`${operation}: ${is} ${name}, at most ${bound}`];
    });
  });
}

describe("what an operation asks of a storage", () => {
  const files = new DatabaseFiles();
  let postgres: OwnPostgres;

  beforeAll(async () => {
    postgres = closing(await openOwnPostgres());
  });

  it("is no more than the bounds on SQLite", async () => {
    expect(overruns(await sqliteCounts(dirname(files.next())), readCounts().SQLite)).toEqual([]);
  });

  it("is no more than the bounds on PostgreSQL", async () => {
    const counted = await postgresCounts(await postgres.newDatabase());
    expect(overruns(counted, readCounts().PostgreSQL)).toEqual([]);
  });
});
