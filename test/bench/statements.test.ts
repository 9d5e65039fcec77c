/** No operation asks more of a storage than `docs/internals/scale.md` says. */
import { dirname } from "node:path";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { type Counter, countPostgres, countSqlite, type Figures } from "../../bench/statements/counters.ts";
import { type Counts, least, OPERATIONS } from "../../bench/statements/operations.ts";
import { postgresCounts, readCounts, sqliteCounts } from "../../bench/statements/statements.ts";
import { createLogger } from "../../core/logger.ts";
import { createSignInServiceOver } from "../../lib/service.ts";
import { openStorage } from "../../records/storage.ts";
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

/** Accounts of one commit of `accounts import`. */
const IMPORTED = 200;

/** A person with six words, two names and no service. */
const imported = (index: number) => ({
  email: `ada${index}.lovelace@example.com`,
  username: `ada${index}`,
  surname: "King",
});

/** What importing accounts costs, in one commit. */
async function importCounts(
  storage: string,
  counter: Counter,
  begin?: () => Promise<void>,
): Promise<Figures> {
  const service = await createSignInServiceOver(
    {
      deployments: { openid: { url: "http://127.0.0.1:39998/openid" } },
      storage,
      keys: { secrets: [Buffer.alloc(32, 9).toString("base64")] },
      notifications: { worker: false },
      logger: createLogger({ level: "silent" }),
    },
    openStorage,
    { cheapHashes: true },
  );
  try {
    await begin?.();
    const options = { mapSub: false, updates: "none", notify: false, isDry: false } as const;
    // The first import reads what later ones know.
    await service.accounts.importLines([imported(0)], options, {});
    const counts: Figures[] = [];
    // The smallest of several, because a background task may add to one of them.
    for (let round = 0; round < 3; round += 1) {
      await counter.take();
      const lines = Array.from({ length: IMPORTED }, (_each, index) =>
        imported(1 + round * IMPORTED + index),
      );
      const results = await service.accounts.importLines(lines, options, {});
      expect(results.every(({ kind }) => kind === "created")).toBe(true);
      counts.push(await counter.take());
    }
    return least(counts);
  } finally {
    await service.close();
    await counter.close();
  }
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

  /** Of its number, two of the audit, and one for each word that no other begins with. */
  const INDEX_ROWS = 3 + 6;

  it("is a commit for an import of 200 accounts, on SQLite nine statements for each [D-ADM-310]", async () => {
    const { statements, commits, indexRows } = await importCounts(`sqlite:${files.next()}`, countSqlite());
    expect([indexRows, statements <= IMPORTED * 9.2]).toEqual([IMPORTED * INDEX_ROWS, true]);
    // The other two draw the numbers.
    expect(commits).toBeLessThanOrEqual(3);
  });

  it("is a commit for an import of 200 accounts, on PostgreSQL four round trips for all [D-ADM-310]", async () => {
    const counter = await countPostgres(await postgres.newDatabase());
    const counts = await importCounts(counter.url, counter, () => counter.begin());
    expect(counts.indexRows).toBe(IMPORTED * INDEX_ROWS);
    for (const [name, most] of Object.entries({ statements: 4, roundTrips: 4, commits: 3 }))
      expect([name, Number(Reflect.get(counts, name)) <= most]).toEqual([name, true]);
  });
});
