/** Health: whether each store takes writes, and which parts a process can do without. */
import { join } from "node:path";
import { beforeEach, expect, it } from "@jest/globals";
import { createSystemClock } from "../../core/clock.ts";
import { StoreClocks } from "../../records/clocks.ts";
import { storageHealth } from "../../records/health.ts";
import { openStorage } from "../../records/storage.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { newFolder, closing } from "../closing.ts";

const clock = createSystemClock();
const clocks = new StoreClocks([], clock);
let folder: string;
beforeEach(async () => {
  folder = newFolder();
});

it("reports whether the storage takes writes [D-HEALTH-4]", async () => {
  const storage = `sqlite:${join(folder, "sign-in.db")}`;
  const opened = await openStorage({ storage, artifacts: storage, clock });
  await expect(storageHealth(opened)).resolves.toMatchObject({
    ok: true,
    parts: { storage: { ok: true, required: true, detail: "" } },
  });
  await opened.close();
  const closed = await openStorage({ storage, artifacts: storage, clock });
  await closed.close();
  await expect(storageHealth(closed)).resolves.toMatchObject({
    ok: false,
    parts: { storage: { ok: false, detail: "the database is closed" } },
  });
});

it("times out for a storage that never responds", async () => {
  const silent = { name: "storage", takesWrites: () => new Promise<never>(() => undefined) };
  const other = { name: "artifacts", takesWrites: async () => undefined };
  await expect(storageHealth({ parts: [silent, other], clocks })).resolves.toMatchObject({
    ok: false,
    parts: { storage: { ok: false, detail: "does not answer" }, artifacts: { ok: true, detail: "" } },
  });
});

it("says why, when a server that is gone refuses connections", async () => {
  const [postgres, redis] = await Promise.all([openOwnPostgres(), openOwnRedis()]);
  const opened = await openStorage({ storage: await postgres.newDatabase(), artifacts: redis.url, clock });
  const details = async (): Promise<unknown> => {
    const { parts } = await storageHealth(opened);
    return [parts["storage"]?.detail, parts["artifacts"]?.detail];
  };
  try {
    await Promise.all([postgres.kill(), redis.stop()]);
    const expected = [expect.stringContaining("ECONNREFUSED"), expect.stringContaining("ECONNREFUSED")];
    // The first attempts may still find broken connections.
    while ((await details().then((found) => JSON.stringify(found))).match(/ECONNREFUSED/gu)?.length !== 2);
    await expect(details()).resolves.toEqual(expected);
    await expect(opened.artifacts.find("AccessToken", "none")).rejects.toMatchObject({
      reason: "ECONNREFUSED",
    });
  } finally {
    await opened.close();
    await Promise.all([postgres.close(), redis.close()]);
  }
}, 60_000);

it("is not ok when a full Redis refuses writes but answers reads, and is again when there is room [D-HEALTH-4]", async () => {
  const redis = closing(await openOwnRedis());
  const storage = `sqlite:${join(folder, "sign-in.db")}`;
  const opened = closing(await openStorage({ storage, artifacts: redis.url, clock }));
  const health = async (): Promise<unknown> => {
    const { ok, parts } = await storageHealth(opened);
    return [ok, parts["artifacts"]?.detail];
  };
  await redis.client.config("SET", "maxmemory", "1");
  const bucket = { limit: "mail", key: "k", points: 1, seconds: 60 };
  await expect(opened.rateLimits.consume([bucket])).rejects.toMatchObject({ code: "storage_unavailable" });
  await expect(opened.rateLimits.look([bucket])).resolves.toMatchObject([{ allowed: true, retryAfter: 0 }]);
  await expect(health()).resolves.toEqual([false, expect.stringContaining("OOM")]);
  await redis.client.config("SET", "maxmemory", "0");
  await opened.rateLimits.consume([bucket]);
  await expect(health()).resolves.toEqual([true, ""]);
});

it("is ok without a part that is not required [D-HEALTH-5]", async () => {
  const lost = { ask: () => Promise.reject(new Error("lost")) };
  const others = { notifications: { required: false, ...lost } };
  await expect(storageHealth({ parts: [], clocks }, others)).resolves.toMatchObject({
    ok: true,
    parts: { notifications: { ok: false, required: false, detail: "unavailable" } },
  });
  const needed = { notifications: { required: true, ...lost } };
  await expect(storageHealth({ parts: [], clocks }, needed)).resolves.toMatchObject({ ok: false });
});
