import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it, jest } from "@jest/globals";
import { rounds } from "../../rounds.ts";
import { type Counts, type QueueKind, VERSIONS, type VersionsKind } from "./round.ts";

/** Milliseconds. The campaign takes two minutes, and longer on a busy machine. */
const TIME_OUT = 5 * 60_000;
jest.setTimeout(TIME_OUT + 30_000);

interface Printed {
  readonly ok: boolean;
  readonly wrong: readonly string[];
  readonly counts: Readonly<Record<QueueKind, Counts>>;
}

/** The storage of this run. */
const STORAGE = process.env["TEST_STORAGE"] ?? "sqlite";
/** Whether another server takes the place of one that is lost. Two versions on it are tested with the same storage alone. */
const IS_REPLACED = /standby|sentinel|cluster/u.test(STORAGE);

/** Runs `npm run test:faults`. */
function run(versions: VersionsKind): Promise<{ printed: Printed; code: unknown; said: string }> {
  const script = join(import.meta.dirname, "main.ts");
  return new Promise((resolve) => {
    // The time-out also ends all processes that it has started.
    execFile(
      process.execPath,
      [script, "--storage", STORAGE, "--versions", versions, "--json"],
      { timeout: TIME_OUT },
      (error, stdout, stderr) => {
        const printed = JSON.parse(stdout === "" ? "{}" : stdout) as Printed;
        resolve({ printed, code: error?.code ?? 0, said: stderr });
      },
    );
  });
}

// With two, processes of one version take the place of those of the other, in both directions.
describe.each(VERSIONS.slice(0, IS_REPLACED ? 1 : rounds(1, VERSIONS.length)))(
  "the fault campaign with %s of two versions",
  (versions) => {
    it("loses nothing, sends nothing to the wrong receiver, and keeps the order, whichever process is killed [D-NOTIFY-10, D-NOTIFY-11, D-NOTIFY-16, D-PG-21, D-UP-1]", async () => {
      const { printed, code, said } = await run(versions);
      // Shows the output when it failed.
      expect({ code, wrong: printed.wrong, said }).toEqual({ code: 0, wrong: [], said });
      for (const counts of Object.values(printed.counts)) {
        // All other counts are in `wrong`.
        expect(counts).toMatchObject({ asked: 2000, taken: counts.expected });
        // SQLite has no server to kill.
        const hasServers = STORAGE !== "sqlite";
        expect([counts.storageKills > 0, counts.storageStops > 0]).toEqual([hasServers, hasServers]);
      }
      const beside = /\+(?:sentinel|cluster)$/u.exec(STORAGE)?.[0].slice(1) ?? "redis";
      expect(Object.keys(printed.counts)).toEqual(["embedded", beside]);
      const { redisRestarts, redisFlushes } = printed.counts[beside as QueueKind];
      expect(redisRestarts + redisFlushes).toBeGreaterThan(0);
      // Otherwise it would prove nothing about a standby that is behind.
      const lost = Object.values(printed.counts).map((counts) => counts.lostWithPrimary > 0);
      expect(lost).toEqual(lost.map(() => STORAGE === "postgresql+late-standby"));
    });
  },
);
