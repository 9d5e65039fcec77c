import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it, jest } from "@jest/globals";
import { readOptions } from "./options.ts";
import { wrongCounts } from "./report.ts";
import type { Counts, QueueKind } from "./round.ts";

/** The campaign has two minutes; a machine that is busy with other tests has this much more. */
const TIME_OUT = 5 * 60_000;
jest.setTimeout(TIME_OUT + 30_000);

interface Printed {
  readonly ok: boolean;
  readonly wrong: readonly string[];
  readonly counts: Readonly<Record<QueueKind, Counts>>;
}

/** Where this run keeps things. */
const STORAGE = process.env["TEST_STORAGE"] ?? "sqlite";

/** `npm run test:faults`, as it is without other options. */
function run(): Promise<{ printed: Printed; code: unknown; said: string }> {
  const script = join(import.meta.dirname, "main.ts");
  return new Promise((resolve) => {
    // What hangs is ended with everything that it has started.
    execFile(
      process.execPath,
      [script, "--storage", STORAGE, "--json"],
      { timeout: TIME_OUT },
      (error, stdout, stderr) => {
        const printed = JSON.parse(stdout === "" ? "{}" : stdout) as Printed;
        resolve({ printed, code: error?.code ?? 0, said: stderr });
      },
    );
  });
}

/** Counts in which there must be none. */
const NONE = {
  forgotten: 0,
  unasked: 0,
  contradictions: 0,
  surprises: 0,
  lost: 0,
  unexpected: 0,
  outOfOrder: 0,
  unfinished: 0,
  falselyFinished: 0,
  changedRepeats: 0,
  badRequests: 0,
  crashes: 0,
  badEndings: 0,
};

describe("the fault campaign", () => {
  it("loses nothing, tells nobody what is not theirs and keeps the order, whatever is killed [D-NOTIFY-10, D-NOTIFY-11, D-NOTIFY-16]", async () => {
    const { printed, code, said } = await run();
    // What it said is worth reading when it failed.
    expect({ code, wrong: printed.wrong, said }).toEqual({ code: 0, wrong: [], said });
    for (const counts of Object.values(printed.counts)) {
      expect(counts).toMatchObject({ ...NONE, asked: 2000, taken: counts.expected });
      for (const fault of ["unanswered", "repeats", "workerKills", "appKills"] as const) {
        expect([fault, counts[fault]]).toEqual([fault, expect.any(Number)]);
        expect(counts[fault]).toBeGreaterThan(0);
      }
      // SQLite has no server that could be killed.
      const hasServers = STORAGE !== "sqlite";
      expect([counts.storageKills > 0, counts.storageStops > 0]).toEqual([hasServers, hasServers]);
    }
    expect(Object.keys(printed.counts)).toEqual(["embedded", "redis"]);
    expect(printed.counts.redis.redisRestarts + printed.counts.redis.redisFlushes).toBeGreaterThan(0);
  });

  it("has counts that must be zero, and others that must not", () => {
    const good = { ...NONE, asked: 1, unanswered: 1, committed: 1, expected: 1, taken: 1, posts: 2 };
    const faults = { repeats: 1, workerKills: 1, appKills: 1 };
    const servers = { redisRestarts: 0, redisFlushes: 0, storageKills: 0, storageStops: 0 };
    const rest = { unansweredCommitted: 0, refused: 0, ...servers };
    const counts: Counts = { ...good, ...faults, ...rest };
    expect(wrongCounts(counts)).toEqual([]);
    for (const key of Object.keys(NONE)) expect(wrongCounts({ ...counts, [key]: 1 })).toHaveLength(1);
    for (const key of Object.keys({ ...good, ...faults })) {
      if (!(key in NONE)) expect(wrongCounts({ ...counts, [key]: 0 })).toHaveLength(1);
    }
  });

  it("takes its options, and refuses others in one sentence", () => {
    expect(readOptions([])).toMatchObject({
      storage: "sqlite",
      queues: ["embedded", "redis"],
      users: 200,
      changes: 2000,
      milliseconds: 120_000,
    });
    expect(readOptions(["--minutes", "10", "--seed", "7"])).toMatchObject({ seed: 7, changes: 10_000 });
    expect(readOptions(["--changes", "50", "--queue", "redis"])).toMatchObject({
      queues: ["redis"],
      changes: 50,
    });
    expect(readOptions(["--storage", "mongodb+redis"])).toMatchObject({ storage: "mongodb+redis" });
    expect(readOptions(["--help"])).toBe("help");
    expect(() => readOptions(["--minutes", "1"])).toThrow("--minutes must be a number from 1.5 to 600");
    expect(() => readOptions(["--changes", "x"])).toThrow("--changes must be a number from 1 to 900000");
    expect(() => readOptions(["--storage", "redis"])).toThrow("--storage must be one of sqlite, postgresql,");
    expect(() => readOptions(["--queue", "kafka"])).toThrow("--queue must be embedded or redis");
    expect(() => readOptions(["--mintues", "3"])).toThrow("--mintues");
  });
});
