/** The clock of a process beside those of its stores: what is compared, refused, and deleted for its age. */
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { type Clock, createSystemClock } from "../../core/clock.ts";
import { clockProblem, StoreClocks, WrongClock } from "../../records/clocks.ts";
import { sharedClock } from "../../records/artifacts/artifact-store.ts";
import { RATE_LIMIT } from "../../records/rate-limits.ts";
import { openStorage } from "../../records/storage.ts";
import { startService } from "../flows/running-service.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { closing } from "../closing.ts";

const system = createSystemClock();
/** A clock that can be set, as if somebody changed that of the machine. */
function settable(aheadMs = 0) {
  const clock = { aheadMs, now: () => system.now() + clock.aheadMs };
  return clock;
}

describe("clocks are compared", () => {
  /** A store whose clock can be set. */
  const store = { aheadMs: 0, ping: async () => system.now() + store.aheadMs };
  const warnings: string[] = [];
  const clocks = new StoreClocks([{ name: "storage", store }], system, (text) => void warnings.push(text));
  const problemOf = (): string => clockProblem(clocks.differences.get("storage") ?? 0);

  it("from 5 seconds on it is a warning, once, and the process serves [D-CLOCK-2]", async () => {
    for (const aheadMs of [4_000, 0, 30_000, 30_000]) {
      store.aheadMs = aheadMs;
      await clocks.check();
    }
    expect(warnings).toEqual([expect.stringMatching(/^storage: its clock is 30 seconds ahead of .* NTP$/)]);
    expect(() => clocks.require()).not.toThrow();
  });

  it("beyond 60 seconds the process is told that it must not serve, once a minute [D-CLOCK-1]", async () => {
    warnings.length = 0;
    store.aheadMs = -61_000;
    for (let round = 0; round < 3; round += 1) await clocks.check();
    expect(problemOf()).toBe("its clock is 61 seconds behind that of this process");
    expect(() => clocks.require()).toThrow(WrongClock);
    expect(warnings).toEqual([expect.stringContaining("it serves no requests until they agree")]);
    store.aheadMs = 0;
    await clocks.check();
    expect(() => clocks.require()).not.toThrow();
  });

  it("a store that does not answer keeps its last difference", async () => {
    store.aheadMs = 10_000;
    await clocks.check();
    const silent = new StoreClocks(
      [{ name: "storage", store: { ping: () => Promise.reject(new Error()) } }],
      system,
    );
    await silent.check();
    expect([silent.differences.size, problemOf()]).toEqual([0, expect.stringContaining("10 seconds ahead")]);
  });

  it("but not that of a test that skips days", async () => {
    const virtual: Clock = { now: () => system.now() + 1e9, virtual: true };
    const clock = new StoreClocks([{ name: "storage", store }], virtual);
    await clock.check();
    expect(() => clock.require()).not.toThrow();
  });
});

describe("the clock of a store that answers slowly", () => {
  it("is between its bounds, whenever the store read it [D-TOKEN-13]", async () => {
    for (const [before, after] of [
      [0, 50],
      [50, 0],
      [20, 20],
    ] as const) {
      const read = sharedClock({
        async ping() {
          await pause(before);
          const time = performance.now();
          await pause(after);
          return time;
        },
      });
      const { earliest, latest } = await read();
      const [low, now, high] = [earliest(), performance.now(), latest()];
      expect(low).toBeLessThanOrEqual(now);
      expect(high).toBeGreaterThanOrEqual(now);
      expect(high - low).toBeGreaterThan(0);
    }
  });
});

describe("a process whose clock is wrong", () => {
  let postgres: OwnPostgres;
  beforeAll(async () => {
    postgres = closing(await openOwnPostgres());
  });

  it.each([500 * 86_400_000, -120_000])(
    "by %d ms does not start, and deletes nothing [D-CLOCK-1]",
    async (aheadMs) => {
      const storage = await postgres.newDatabase();
      const right = await openStorage({ storage, artifacts: storage, clock: system });
      const bucket = { limit: "mail", key: "k", points: 3, seconds: 3_600 };
      await right.rateLimits.consume([bucket]);
      const wrong = { storage, artifacts: storage, clock: settable(aheadMs) };
      await expect(openStorage(wrong)).rejects.toThrow(WrongClock);
      const stored = (): Promise<unknown[]> => right.records.all(RATE_LIMIT.name);
      await expect(stored()).resolves.toHaveLength(1);
      await right.close();
    },
  );

  it("that was set while it ran answers 503, deletes nothing, and serves again when it is right [D-CLOCK-1]", async () => {
    const redis = closing(await openOwnRedis());
    const clock = settable();
    const running = await startService({
      config: { storage: "sqlite::memory:", artifacts: redis.url, clock },
      logsErrors: true,
    });
    const opened = running.storage;
    const { clocks } = opened;
    const answer = async (): Promise<readonly [number, string | null]> => {
      const { status, headers } = await fetch(`${running.oauth2}/oauth2/token`, {
        method: "POST",
        body: new URLSearchParams({
          grant_type: "refresh_token",
          refresh_token: "x",
          client_id: "a",
          client_secret: "b",
        }),
      });
      return [status, headers.get("retry-after")];
    };
    await expect(answer()).resolves.toEqual([400, null]);
    clock.aheadMs = 2 * 3_600_000;
    await clocks.check();
    await expect(answer()).resolves.toEqual([503, "5"]);
    await expect(opened.sweep(9)).rejects.toThrow(WrongClock);
    const { ok, parts } = await running.service.health();
    expect([ok, parts["artifacts"]]).toEqual([
      false,
      expect.objectContaining({ ok: false, detail: expect.stringContaining("7200 seconds behind") }),
    ]);
    expect(running.log.filter((line) => line.includes("7200 seconds behind"))).toHaveLength(1);
    clock.aheadMs = 0;
    await clocks.check();
    await expect(answer()).resolves.toEqual([400, null]);
    await pause(1_000);
    await expect(running.service.health()).resolves.toMatchObject({ ok: true });
  });

  it("deletes by the clock of the storage, not by its own [D-CLOCK-1]", async () => {
    const storage = await postgres.newDatabase();
    const clock = settable(40_000);
    const opened = await openStorage({ storage, artifacts: storage, clock });
    // It ends in 20 seconds, and by the clock of this process 20 seconds ago.
    const record = RATE_LIMIT.record({ used: 1, ends_at_ms: system.now() + 20_000 }, { key: ["mail", "k"] });
    await opened.records.transact((tx) => tx.overwrite(record));
    await expect(opened.sweep(9)).resolves.toBe(0);
    clock.aheadMs = 0;
    await expect(opened.records.all(RATE_LIMIT.name)).resolves.toHaveLength(1);
    await opened.close();
  });
});
