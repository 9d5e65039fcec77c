import { beforeAll, describe, expect, it } from "@jest/globals";
import { UNFINISHED_COPY } from "../../../records/formats/format.ts";
import { rounds } from "../../rounds.ts";
import { type MongoServer, openMongoServer } from "../../servers/mongodb.ts";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { fillWith } from "../samples.ts";
import {
  type Addresses,
  copyThroughKills,
  copyWords,
  copiedFrom,
  lostEntries,
  untilFurther,
  withStores,
  Workshop,
} from "../stage.ts";
import { closing } from "../../closing.ts";

// More than a page of the copy holds of each kind.
const SIZE = rounds(110, 700);

describe("storage copy with MongoDB", () => {
  const workshop = new Workshop();
  const big = workshop.sqlite();
  let server: MongoServer;
  let redis: OwnRedis;

  beforeAll(async () => {
    server = closing(await openMongoServer());
    redis = closing(await openOwnRedis());
    await withStores(big, (stores) => fillWith(stores, SIZE, Date.now()));
  }, 120_000);

  /** The mark in a database that another process writes to. */
  async function markIn({ storage }: Addresses): Promise<string | undefined> {
    const { kind, key } = UNFINISHED_COPY.ref("current");
    const db = server.client.db(new URL(storage).pathname.slice(1));
    const found = await db
      .collection<{ _id: string; value: string }>("records")
      .findOne({ _id: `${kind} ${key}` });
    return found?.value;
  }

  async function copy(from: Addresses, to: Addresses): Promise<void> {
    const { code, said } = await workshop.run(copyWords(from, to));
    expect([code, said]).toEqual([0, expect.stringContaining("both storages hold the same")]);
  }

  it("moves SQLite to MongoDB and Redis through several kills, and back, without a change", async () => {
    let there = { storage: "", artifacts: "" };
    for (let kills = 0, place = 0; kills < 2; place += 1) {
      const to = { storage: server.nextUrl(), artifacts: `${redis.url}?prefix=there${place}:` };
      const mark = (): Promise<string | undefined> => markIn(to);
      kills += await copyThroughKills(
        () => workshop.start(copyWords(big, to)),
        2,
        async (running) => {
          await untilFurther(mark, running);
          await untilFurther(mark, running);
        },
      );
      there = to;
    }
    await expect(markIn(there)).resolves.toBeUndefined();
    const back = workshop.sqlite();
    await copy(there, back);
    await expect(copiedFrom(back)).resolves.toEqual(await copiedFrom(big));
    await expect(lostEntries(there)).resolves.toEqual([]);
  }, 600_000);

  it("moves everything to MongoDB, from there to another database, and back", async () => {
    const [from, one, other, back] = [
      workshop.sqlite(),
      { storage: server.nextUrl() },
      { storage: server.nextUrl() },
      workshop.sqlite(),
    ];
    await withStores(from, (stores) => fillWith(stores, 12, Date.now()));
    await copy(from, one);
    await copy(one, other);
    await copy(other, back);
    await expect(copiedFrom(back)).resolves.toEqual(await copiedFrom(from));
    await expect(workshop.run(copyWords(from, one))).resolves.toMatchObject({
      code: 1,
      said: expect.stringContaining("TO must be empty, but it already contains group,"),
    });
  }, 300_000);

  it("refuses an empty database, and creates none", async () => {
    const url = server.nextUrl();
    const outcome = await workshop.run(copyWords({ storage: url }, workshop.sqlite()));
    expect(outcome).toMatchObject({
      code: 3,
      said: expect.stringContaining("FROM: there is no storage in that database of MongoDB."),
    });
    const db = server.client.db(new URL(url).pathname.slice(1));
    await expect(db.listCollections().toArray()).resolves.toEqual([]);
  }, 60_000);

  it("prints no password when MongoDB is unavailable or refuses", async () => {
    const url = "mongodb://ada:pass%2Fword@127.0.0.1:1/x?serverSelectionTimeoutMS=100";
    const { code, said } = await workshop.run(copyWords({ storage: "env:URL" }, workshop.sqlite()), {
      URL: url,
    });
    expect([code, said]).toEqual([3, expect.stringContaining("MongoDB at 127.0.0.1:1 does not answer")]);
    expect(said).not.toMatch(/pass/);
    expect(said).toContain("from mongodb://127.0.0.1:1/x\n");
  }, 60_000);
});
