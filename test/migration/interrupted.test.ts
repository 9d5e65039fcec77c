/** Migrations that are killed or run twice at once, storages of other versions, and what is left of version 0.1. */
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Db } from "mongodb";
import { type OpenedStore, openStores } from "../../adapters/open.ts";
import { openSqlite } from "../../adapters/sqlite/record-store.ts";
import { STORAGE_FORMAT } from "../../lib/migration/format.ts";
import { migrateStorage, removeOld } from "../../lib/migration/migrate.ts";
import { openStorage } from "../../lib/storage.ts";
import { type Running, start } from "../examples/processes.ts";
import { describeMongo, type MongoServer, openMongoServer } from "../servers/mongodb.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { type Fixture, readFixture } from "./fixtures.ts";
import { FixtureClock, type Place, restoreMongo, restoreRedis, restoreSqlite } from "./stage.ts";

const quiet = { signal: new AbortController().signal, onProgress: (): void => undefined };

/** @param last the step at which it stands still. Default: it goes on to its end. */
const startMigration = (place: Place, { manifest }: Fixture, last = 0): Running =>
  start("test/migration/child.ts", { args: [JSON.stringify(place), String(manifest.now), String(last)] });

/** Kills a migration at a step, unless it ends before. @returns whether it was killed. */
async function killAt(step: number, place: Place, fixture: Fixture): Promise<boolean> {
  const running = startMigration(place, fixture, step);
  await running.until(new RegExp(String.raw`(?:\w+ \d+\n){${step}}`, "u")).catch(() => undefined);
  const how = await running.stop("SIGKILL");
  if (how !== 0 && how !== "SIGKILL")
    throw new Error(`the migration ended with ${how}:\n${running.output()}`);
  return how === "SIGKILL";
}

/** Artifacts of the fixtures. */
const MODELS = {
  grant: "Grant",
  session: "Session",
  interaction: "Interaction",
  "authorization-code": "AuthorizationCode",
  "access-token": "AccessToken",
  "refresh-token": "RefreshToken",
} as const;

/** The marks of clients are no accounts. */
async function count({ store }: OpenedStore, kind: string): Promise<number> {
  const { records } = await store.scan(kind, undefined, 1_000);
  return records.filter(({ value }) => kind !== "account" || "sub" in value).length;
}

/** How many accounts, deliveries and audit records a storage has, then how many artifacts of each kind. */
async function counts(
  { storage, artifacts = storage }: Place,
  { manifest }: Fixture,
): Promise<readonly number[]> {
  const clock = new FixtureClock(manifest);
  const opened = await openStores({ storage, artifacts, clock, sharedKinds: [], watchedKinds: [] });
  try {
    const main = await Promise.all(["account", "delivery", "audit"].map((kind) => count(opened.main, kind)));
    const away = opened.artifacts ?? opened.main;
    return [...main, ...(await Promise.all(Object.keys(MODELS).map((kind) => count(away, kind))))];
  } finally {
    await opened.close();
  }
}

/** What version 0.1 has told of the fixture, and what is in it. */
function expectedOf({ manifest, mongodb, redis }: Fixture): readonly number[] {
  const models =
    mongodb === undefined
      ? Object.keys(redis ?? {}).flatMap((key) => /^sign-in:artifact:(\w+):/u.exec(key)?.[1] ?? [])
      : (mongodb["artifacts"] ?? [])
          // What was removed is kept for a while, without an end.
          .filter((artifact) => Reflect.get(artifact, "expires_at") !== 0)
          .map((artifact) => String(Reflect.get(artifact, "model")));
  const { accounts, deliveries, audit } = manifest;
  return [
    accounts.length,
    deliveries.length,
    audit.length,
    ...Object.values(MODELS).map((model) => models.filter((each) => each === model).length),
  ];
}

/** Kills it at every second step, until it comes to its end. @returns how often. */
async function migrateThroughKills(place: Place, fixture: Fixture): Promise<number> {
  let kills = 0;
  while (await killAt(2, place, fixture)) kills += 1;
  return kills;
}

describe("a database file of version 0.1", () => {
  const fixture = readFixture("sqlite-closed");
  const clock = new FixtureClock(fixture.manifest);

  it("that two processes open at once is carried over once", async () => {
    const place = { storage: `sqlite:${restoreSqlite(fixture)}` };
    const both = [startMigration(place, fixture), startMigration(place, fixture)];
    expect(await Promise.all(both.map(({ ended }) => ended))).toEqual([0, 0]);
    const said = both.map((each) => /migrated: (\w+)/u.exec(each.output())?.[1]);
    expect(new Set(said)).toEqual(new Set(["true", "false"]));
    expect((await counts(place, fixture)).slice(0, 3)).toEqual(expectedOf(fixture).slice(0, 3));
  }, 60_000);

  it("is as it was when its process is killed in the middle", async () => {
    const place = { storage: `sqlite:${restoreSqlite(fixture)}` };
    expect(await killAt(6, place, fixture)).toBe(true);
    const database = new DatabaseSync(place.storage.slice("sqlite:".length));
    expect(database.prepare("PRAGMA user_version").get()?.["user_version"]).toBe(2);
    expect(database.prepare("SELECT count(*) AS n FROM accounts").get()?.["n"]).toBe(3);
    database.close();
    await (await openStorage({ ...place, artifacts: place.storage, clock })).close();
    expect((await counts(place, fixture)).slice(0, 3)).toEqual(expectedOf(fixture).slice(0, 3));
  }, 60_000);

  it("is out of the reach of version 0.1 from then on, and its tables are kept until they are removed", async () => {
    const path = restoreSqlite(fixture);
    const place = { storage: `sqlite:${path}`, artifacts: undefined };
    const running = new DatabaseSync(path);
    const select = running.prepare("SELECT record FROM accounts WHERE sub = ?");
    const entries = running.prepare("SELECT record FROM entries WHERE kind = ? AND key = ?");
    const next = running.prepare("UPDATE counters SET value = value + 1 WHERE name = 'user_id'");
    expect(select.get(fixture.manifest.people.ada)).toBeDefined();
    await expect(removeOld(place, clock)).rejects.toThrow("run sign-in-service migrate");
    expect(select.get(fixture.manifest.people.ada)).toBeDefined();
    expect(await migrateStorage(place, clock, quiet)).toBe(true);
    expect(() => select.get(fixture.manifest.people.ada)).toThrow("no such table");
    expect(() => entries.get("service", "news")).toThrow("no such column");
    expect(() => next.run()).toThrow("no such table");
    // Version 0.1 refuses what is above its own number.
    expect(Number(running.prepare("PRAGMA user_version").get()?.["user_version"])).toBeGreaterThan(3);
    const tables = running.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE name GLOB 'v01_*'");
    expect(tables.get()?.["n"]).toBe(13);
    expect(await removeOld(place, clock)).toBe(true);
    expect(tables.get()?.["n"]).toBe(0);
    expect(await removeOld(place, clock)).toBe(false);
    running.close();
    expect((await counts({ storage: place.storage }, fixture)).slice(0, 3)).toEqual(
      expectedOf(fixture).slice(0, 3),
    );
  });

  it("is distinguished from one of a later version", async () => {
    const path = restoreSqlite(fixture);
    const place = { storage: `sqlite:${path}`, artifacts: `sqlite:${path}`, clock };
    await (await openStorage(place)).close();
    const store = await openSqlite({ path, clock });
    const later = STORAGE_FORMAT.record({ format: 3 }, { key: "current" });
    await store.commit({ id: "later", deadline: clock.now() + 1_000, put: [later] });
    await store.close();
    await expect(openStorage(place)).rejects.toThrow("written by a later version");
    const database = new DatabaseSync(path);
    database.exec("PRAGMA user_version = 5");
    database.close();
    await expect(openStorage(place)).rejects.toThrow("written by a later version");
  });
});

describe("with a Redis", () => {
  let redis: OwnRedis;

  beforeAll(async () => {
    redis = await openOwnRedis();
  });
  afterAll(() => redis.close());

  it("a service over a storage of version 0.1 says what to run, and changes nothing", async () => {
    const fixture = readFixture("sqlite-redis");
    const clock = new FixtureClock(fixture.manifest);
    await restoreRedis(fixture, redis.client, "said:");
    const storage = `sqlite:${restoreSqlite(fixture)}`;
    const artifacts = `${redis.url}?prefix=said:`;
    await expect(openStorage({ storage, artifacts, clock })).rejects.toThrow("run sign-in-service migrate");
    const fresh = `sqlite:${storage.slice(7)}.new`;
    await expect(openStorage({ storage: fresh, artifacts, clock })).rejects.toThrow(
      "run sign-in-service migrate",
    );
    expect(await migrateStorage({ storage, artifacts }, clock, quiet)).toBe(true);
    await (await openStorage({ storage, artifacts, clock })).close();
  });

  it("artifacts are carried over through kills, and version 0.1 can't read or write them any more", async () => {
    const fixture = readFixture("sqlite-redis");
    const clock = new FixtureClock(fixture.manifest);
    await restoreRedis(fixture, redis.client, "kills:");
    const place = { storage: `sqlite:${restoreSqlite(fixture)}`, artifacts: `${redis.url}?prefix=kills:` };
    // The file is carried over in ten steps; then each process goes through the keys from the beginning.
    for (const step of [11, 1, 2]) expect(await killAt(step, place, fixture)).toBe(true);
    expect(await startMigration(place, fixture).ended).toBe(0);
    expect(await counts(place, fixture)).toEqual(expectedOf(fixture));
    const [taken = ""] = await redis.client.keys("kills:artifact:*");
    await expect(redis.client.hgetall(taken)).rejects.toThrow("WRONGTYPE");
    await expect(redis.client.hset(taken, "p", "x")).rejects.toThrow("WRONGTYPE");
    expect(await removeOld(place, clock)).toBe(true);
    expect(await redis.client.keys("kills:artifact:*")).toEqual([]);
    expect(await redis.client.keys("kills:v01:*")).toEqual([]);
    expect(await counts(place, fixture)).toEqual(expectedOf(fixture));
  }, 60_000);

  describeMongo("and a MongoDB", () => {
    let mongo: MongoServer;

    beforeAll(async () => {
      mongo = await openMongoServer();
    });
    afterAll(() => mongo.close());

    const databaseOf = (url: string): Db => mongo.client.db(new URL(url).pathname.slice(1));

    it("a database is carried over through kills, and version 0.1 can't read it any more", async () => {
      const fixture = readFixture("mongodb-closed");
      const clock = new FixtureClock(fixture.manifest);
      const storage = mongo.nextUrl();
      const db = databaseOf(storage);
      await restoreMongo(fixture, db);
      await expect(openStorage({ storage, artifacts: storage, clock })).rejects.toThrow(
        "run sign-in-service migrate",
      );
      await expect(removeOld({ storage, artifacts: undefined }, clock)).rejects.toThrow(
        "run sign-in-service migrate",
      );
      expect(await db.collection("accounts").countDocuments()).toBe(fixture.manifest.accounts.length);

      expect(await killAt(4, { storage }, fixture)).toBe(true);
      await expect(openStorage({ storage, artifacts: storage, clock })).rejects.toThrow("migrate again");
      expect(await migrateThroughKills({ storage }, fixture)).toBeGreaterThan(3);
      expect(await counts({ storage }, fixture)).toEqual(expectedOf(fixture));

      for (const name of ["accounts", "clients", "artifacts", "deliveries"])
        await expect(db.collection(name).findOne({})).rejects.toThrow();
      expect(await db.collection("counters").findOne({ _id: "schema" as never })).toMatchObject({ value: 2 });
      expect(await removeOld({ storage, artifacts: undefined }, clock)).toBe(true);
      const left = (await db.listCollections({}, { nameOnly: true }).toArray()).map(({ name }) => name);
      expect(left.filter((name) => !name.startsWith("record")).toSorted()).toEqual(["counters"]);
      expect(await counts({ storage }, fixture)).toEqual(expectedOf(fixture));
    }, 120_000);

    it("an empty database is given the format, and version 0.1 does not start over it", async () => {
      const storage = mongo.nextUrl();
      const clock = new FixtureClock(readFixture("mongodb-closed").manifest);
      await (await openStorage({ storage, artifacts: storage, clock })).close();
      const schema = await databaseOf(storage)
        .collection("counters")
        .findOne({ _id: "schema" as never });
      expect(schema).toMatchObject({ value: 2 });
      await databaseOf(storage)
        .collection("counters")
        .updateOne({ _id: "schema" as never }, { $set: { value: 3 } });
      await expect(openStorage({ storage, artifacts: storage, clock })).rejects.toThrow("a later version");
    });
  });
});
