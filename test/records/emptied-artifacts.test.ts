/** A Redis that has lost everything: each server notices it, says it once, and goes on. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { createSystemClock } from "../../core/clock.ts";
import { keptSessions } from "../../records/health.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import { createStorageFaults } from "../../testing/storage-faults.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { configFile } from "../cli/backup-stage.ts";
import { here } from "../cli/here.ts";
import { openOwnRedis, type OwnRedis } from "../servers/redis.ts";
import { newFolder, closing } from "../closing.ts";

const clock = createSystemClock();
let redis: OwnRedis;
let folder: string;
let place: { readonly storage: string; readonly artifacts: string };
beforeAll(async () => {
  redis = closing(await openOwnRedis());
});
beforeEach(() => {
  folder = newFolder();
  place = {
    storage: `sqlite:${join(folder, "sign-in.db")}`,
    artifacts: `${redis.url}?prefix=${randomBytes(4).toString("hex")}:`,
  };
});

/** The loss is an error in the log. */
const start = (): Promise<RunningService> => startService({ config: place, logsErrors: true });

async function open(through?: Parameters<typeof openStorage>[2]): Promise<Storage> {
  return closing(await openStorage({ ...place, clock }, undefined, through));
}

interface Line {
  readonly level: number;
  readonly msg: string;
}

/** The lines about it. */
const said = ({ log }: RunningService): readonly Line[] =>
  log.map((line) => JSON.parse(line) as Line).filter(({ msg }) => msg.includes("has lost everything"));

async function untilSaid(running: RunningService): Promise<void> {
  while (said(running).length === 0) await pause(20);
}

async function shownBy({ service }: RunningService): Promise<{ sessions: unknown; lostAt: number }> {
  const { ok, parts } = await service.health();
  const [, lostAt] = /^sign_in_artifacts_lost_timestamp_seconds (\d+)/m.exec(await service.metrics()) ?? [];
  return { sessions: [ok, parts["sessions"]?.ok, parts["sessions"]?.detail], lostAt: Number(lostAt) };
}

const FINE = { sessions: [true, true, ""], lostAt: 0 };

describe("Redis is emptied", () => {
  it("by FLUSHALL under two servers: each says it once, in its log, health and metrics, and people sign in again [D-LOSS-1, D-LOSS-2]", async () => {
    const [one, other] = [await start(), await start()];
    const party = clientAt(one, "oauth2", NEWS);
    const tokens = await party.signIn(ADA);
    expect([await shownBy(one), await shownBy(other)]).toEqual([FINE, FINE]);
    await redis.client.flushall();
    await Promise.all([untilSaid(one), untilSaid(other)]);
    for (const running of [one, other]) {
      expect(said(running)).toMatchObject([
        {
          level: 50,
          msg: expect.stringMatching(
            /everybody is signed out.*tokens are void.*device codes and pushed requests.*accounts.* are not affected/,
          ),
        },
      ]);
      const { sessions, lostAt } = await shownBy(running);
      expect(sessions).toEqual([true, false, expect.stringContaining("all sessions, codes and tokens")]);
      expect(Math.abs(Date.now() / 1000 - lostAt)).toBeLessThan(120);
    }
    expect((await shownBy(one)).lostAt).toBe((await shownBy(other)).lostAt);
    await expect(party.refresh(tokens.refresh_token)).resolves.toMatchObject({
      body: { error: "invalid_grant" },
    });
    await expect(party.signIn(ADA)).resolves.toMatchObject({ token_type: "bearer" });
    for (const running of [one, other]) {
      expect(said(running)).toHaveLength(1);
      expect(running.log.join("")).not.toMatch(/ada@example|lovelace/i);
    }
  }, 60_000);

  it("by a restart without persistence while no server runs: the next start says it", async () => {
    const own = closing(await openOwnRedis());
    place = { ...place, artifacts: own.url };
    const before = await startService({ config: place });
    await before.close();
    await own.stop();
    await own.start();
    const running = await start();
    expect(said(running)).toHaveLength(1);
    const again = await start();
    expect(said(again)).toHaveLength(0);
    const { lostAt } = await shownBy(again);
    expect(lostAt).toBeGreaterThan(0);
    expect(await shownBy(running)).toMatchObject({ lostAt, sessions: [true, false, expect.any(String)] });
    const file = configFile(folder, place);
    const { out } = await here(["doctor", "--json", "--config", file]);
    expect(out).toMatch(
      /"check":"history","code":"redis_emptied","level":"warning","what":"The Redis of config\.artifacts was found empty at 20/,
    );
  }, 60_000);

  it("is noted once, however many processes look at the same moment, and each of them learns it [D-LOSS-1]", async () => {
    const all = [await open(), await open(), await open(), await open()];
    const look = (): Promise<unknown[]> =>
      Promise.all(all.map(async ({ watch }) => (await watch.look())?.how));
    expect(await look()).toEqual(all.map(() => undefined));
    for (let round = 0; round < 5; round += 1) {
      await redis.client.flushall();
      expect(await Promise.all(all.map(({ watch }) => watch.hasMarker()))).toEqual(all.map(() => false));
      expect(await look()).toEqual(all.map(() => "emptied"));
      expect(await look()).toEqual(all.map(() => undefined));
      expect(new Set(all.map(({ watch }) => watch.artifactsLostAt)).size).toBe(1);
      expect(await Promise.all(all.map(({ watch }) => watch.hasMarker()))).toEqual(all.map(() => true));
    }
  });

  it("is noticed by the next process if one dies between the new marker and its note", async () => {
    await (await open()).watch.look();
    const planted = createStorageFaults();
    const stores: unknown[] = [];
    // Only the first store, that of the note.
    const dying = await open((store) => (stores.push(store) === 1 ? planted.through(store) : store));
    await dying.watch.look();
    await redis.client.flushall();
    planted.faults.failCommits();
    await expect(dying.watch.look()).rejects.toMatchObject({ code: "storage_unavailable" });
    const next = await open();
    expect(next.watch.artifactsLostAt).toBeUndefined();
    expect((await next.watch.look())?.how).toBe("emptied");
    expect(next.watch.artifactsLostAt).toBeGreaterThan(0);
  });

  it("is known to a worker, which does not open it, and forgotten by a storage that was restored", async () => {
    const server = await open();
    await server.watch.look();
    await redis.client.flushall();
    expect((await server.watch.look())?.how).toBe("emptied");
    const worker = closing(await openStorage({ storage: place.storage, artifacts: place.storage, clock }));
    expect(await worker.watch.look()).toBeUndefined();
    expect(worker.watch.artifactsLostAt).toBe(server.watch.artifactsLostAt);
    expect(await server.watch.look()).toBeUndefined();
    const audit = worker.audit.recordOf({ actor: { kind: "command_line" }, action: "storage.restored" });
    await worker.watch.accept({ isRestored: true, audit });
    // It has another id, under which Redis has nothing.
    const restored = await open();
    expect(await restored.watch.look()).toBeUndefined();
    expect(restored.watch.artifactsLostAt).toBeUndefined();
  });

  it("is shown by the health for an hour, as by the alert [D-LOSS-2]", () => {
    const at = Math.floor(clock.now() / 1000);
    const shown = (ago: number): boolean => keptSessions({ artifactsLostAt: at - ago }, clock).ok;
    expect([shown(0), shown(3_590), shown(3_600)]).toEqual([false, false, true]);
  });
});
