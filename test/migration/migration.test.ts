/** Storages of version 0.1 are carried over with everything in them. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { describeMongo, type MongoServer, openMongoServer } from "../servers/mongodb.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { migrateStorage } from "../../lib/migration/migrate.ts";
import { expectEverything } from "./everything.ts";
import { readFixture } from "./fixtures.ts";
import { FixtureClock, restoreMongo, restoreRedis, restoreSqlite } from "./stage.ts";

const quiet = { signal: new AbortController().signal, onProgress: (): void => undefined };

describe("a database file of version 0.1", () => {
  it.each([
    ["that was closed", "sqlite-closed", false],
    ["whose process was killed", "sqlite-killed", true],
  ] as const)(
    "%s is carried over when a service starts, with everything in it",
    async (_how, name, killed) => {
      const fixture = readFixture(name);
      await expectEverything(fixture.manifest, { storage: `sqlite:${restoreSqlite(fixture)}` }, killed);
    },
    60_000,
  );
});

describe("with a Redis", () => {
  let redis: OwnRedis;

  beforeAll(async () => {
    redis = await openOwnRedis();
  });
  afterAll(() => redis.close());

  it("a database file and the artifacts in Redis are carried over", async () => {
    const fixture = readFixture("sqlite-redis");
    const clock = new FixtureClock(fixture.manifest);
    await restoreRedis(fixture, redis.client, "one:");
    const place = {
      storage: `sqlite:${restoreSqlite(fixture)}`,
      artifacts: `${redis.url}?prefix=one:`,
    };
    expect(await migrateStorage(place, clock, quiet)).toBe(true);
    await expectEverything(fixture.manifest, place, false);
  }, 60_000);

  describeMongo("and a MongoDB", () => {
    let mongo: MongoServer;

    beforeAll(async () => {
      mongo = await openMongoServer();
    });
    afterAll(() => mongo.close());

    it.each([
      ["that was closed", "mongodb-closed", false],
      ["whose process was killed", "mongodb-killed", true],
      ["whose process was killed, with its artifacts in Redis", "mongodb-redis", true],
    ] as const)(
      "a database %s is carried over",
      async (_how, name, killed) => {
        const fixture = readFixture(name);
        const storage = mongo.nextUrl();
        await restoreMongo(fixture, mongo.client.db(new URL(storage).pathname.slice(1)));
        await restoreRedis(fixture, redis.client, "two:");
        const artifacts = fixture.redis === undefined ? storage : `${redis.url}?prefix=two:`;
        const place = { storage, artifacts };
        expect(await migrateStorage(place, new FixtureClock(fixture.manifest), quiet)).toBe(true);
        await expectEverything(fixture.manifest, place, killed);
      },
      120_000,
    );
  });
});
