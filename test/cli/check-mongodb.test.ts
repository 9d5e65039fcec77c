import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { Db, Document } from "mongodb";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import { describeMongo, type MongoServer, openMongoServer } from "../servers/mongodb.ts";
import { type Outcome, runHere } from "./stage.ts";
import { use } from "./used-service.ts";

function openService(url: string): Promise<SignInService> {
  return createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
    storage: url,
    notifications: { worker: false },
    keys: { secrets: [Buffer.alloc(32, 7).toString("base64")] },
  });
}

const check = (url: string, ...options: string[]): Promise<Outcome> =>
  runHere(["storage", "check", url, ...options]);

/** What is done to the database, and what is said of it. */
type Damage = readonly [name: string, plant: (db: Db, sub: string) => Promise<unknown>, says: RegExp];

const own = (db: Db, name: string) => db.collection<{ _id: string } & Document>(name);

const damages: readonly Damage[] = [
  [
    "an index is missing",
    (db) => db.collection("lanes").dropIndex("due.receiver_1_due.at_1"),
    /schema: 1 indexes that are missing.*\(lanes: due\.receiver, due\.at\)/,
  ],
  [
    "an index is another one",
    async (db) => {
      await db.collection("accounts").dropIndex("user_id_1");
      await db.collection("accounts").createIndexes([{ key: { user_id: 1 } }]);
    },
    /schema: 1 indexes.*\(accounts: user_id\)/,
  ],
  ["a collection is missing", (db) => db.dropCollection("receivers"), /schema: 1 collections.*\(receivers\)/],
  [
    "a sign-in name is gone",
    (db) => own(db, "names").deleteOne({ _id: "ada" }),
    /accounts: 1 accounts that one of/,
  ],
  [
    "a name leads nowhere",
    (db) => own(db, "names").insertOne({ _id: "x@example.com", sub: "nobody" }),
    /accounts: 1 sign-in names that lead to no account \(account nobody\)/,
  ],
  [
    "an account has a former name",
    (db, sub) => own(db, "names").insertOne({ _id: "former", sub }),
    /accounts: 1 accounts with a sign-in name that is not theirs/,
  ],
  [
    "the version of an account is wrong",
    (db, sub) => own(db, "accounts").updateOne({ _id: sub }, { $set: { version: 77 } }),
    /accounts: 1 accounts whose version, portal or assignments/,
  ],
  [
    "assignments and portals are forgotten",
    (db) => own(db, "accounts").updateMany({}, { $unset: { services: "", portal: "" } }),
    /accounts: 3 accounts whose version, portal or assignments/,
  ],
  [
    "the service of a client is wrong",
    (db) => own(db, "clients").updateOne({ _id: "news" }, { $set: { service: "2" } }),
    /clients: 1 clients.*\(client news\)/,
  ],
  [
    "the group of a service is wrong",
    (db) => own(db, "entries").updateOne({ _id: "service 1" }, { $unset: { group: "" } }),
    /directory: 1 entries whose group.*\(service 1\)/,
  ],
  [
    "guards are gone",
    (db) => own(db, "entry_guards").deleteMany({ _id: { $in: ["service 1 0", "service 1 7"] } }),
    /directory: 1 entries without all of their guards \(service 1\)/,
  ],
  [
    "the counter is behind",
    (db) => own(db, "counters").updateOne({ _id: "user_id" }, { $set: { value: 1 } }),
    /counters: 1 counters below/,
  ],
  [
    "a lane is missing",
    (db, sub) => own(db, "lanes").deleteOne({ _id: `group:media ${sub}` }),
    /notifications: 1 lanes.*\(group:media \/ /,
  ],
  [
    "a lane is not due",
    (db, sub) => own(db, "lanes").updateOne({ _id: `group:media ${sub}` }, { $unset: { due: "" } }),
    /notifications: 1 lanes/,
  ],
  [
    "the places of lanes are forgotten",
    (db) => own(db, "lanes").updateMany({}, { $set: { last_sequence: 1 } }),
    /notifications: 3 lanes/,
  ],
  [
    "attempts are left over",
    (db) => own(db, "attempts").insertOne({ _id: "gone 1", delivery: "gone", number: 1 }),
    /notifications: 1 attempts of no delivery \(gone\/1\)/,
  ],
];

describeMongo("storage check with MongoDB", () => {
  let server: MongoServer;
  let url: string;
  let db: Db;
  let subs: string[];

  beforeAll(async () => {
    server = await openMongoServer();
    url = server.nextUrl();
    db = server.client.db(new URL(url).pathname.slice(1));
    const service = await openService(url);
    subs = await use(service);
    await service.close();
  }, 60_000);
  afterAll(() => server.close());

  /** Every document and index, but for what a repair may leave behind: counts of writes, and a zero. */
  async function contents(): Promise<unknown> {
    const names = (await db.listCollections().toArray()).map(({ name }) => name).toSorted();
    return Promise.all(
      names.map(async (name) => {
        const documents = await db.collection(name).find().sort({ _id: 1 }).toArray();
        const indexes = await db.collection(name).listIndexes().toArray();
        for (const document of documents) {
          delete document["holds"];
          if (name === "lanes") delete document["version"];
          if (name === "entry_guards") delete document["writes"];
          if (document["last_delivered"] === 0) delete document["last_delivered"];
        }
        return [name, documents, indexes.map(({ key, unique }) => JSON.stringify([key, unique])).toSorted()];
      }),
    );
  }

  let sound: unknown;
  beforeEach(async () => {
    sound = await contents();
  });

  it("finds nothing wrong with what a service has used", async () => {
    const { code, said } = await check(url);
    expect([code, said]).toEqual([0, expect.stringMatching(/^Nothing is wrong \(\d+ checks\)\.$/m)]);
    await expect(check(url, "--repair")).resolves.toMatchObject({ code: 0 });
    await expect(contents()).resolves.toEqual(sound);
  }, 60_000);

  it.each(damages)(
    "reports that %s, changes nothing, and puts it right when it is told to",
    async (_, plant, says) => {
      await plant(db, subs[0] ?? "");
      const damaged = await contents();
      expect(damaged).not.toEqual(sound);
      const reported = await check(url);
      expect([reported.code, reported.said]).toEqual([1, expect.stringMatching(says)]);
      expect(reported.said).not.toMatch(/example\.com|former|'ada'/);
      await expect(contents()).resolves.toEqual(damaged);
      const repaired = await check(url, "--repair");
      expect([repaired.code, repaired.said]).toEqual([0, expect.stringMatching(/: repaired$/m)]);
      await expect(contents()).resolves.toEqual(sound);
    },
    60_000,
  );

  it("leaves to a person what only a person can decide, and a service works on what was repaired", async () => {
    const entry = await own(db, "entries").findOneAndDelete({ _id: "service 2" });
    const { code, said } = await check(url, "--repair");
    expect([code, said]).toEqual([
      1,
      expect.stringContaining(
        "directory: 1 services with accounts that are not in the directory (service 2)\n",
      ),
    ]);
    await own(db, "entries").insertOne(entry!);
    const service = await openService(url);
    await expect(service.accounts.findByLogin("ada")).resolves.toMatchObject({ sub: subs[0] });
    await service.accounts.update(subs[0] ?? "", { surname: "Three" });
    await expect(service.accounts.create({ email: "new@example.com" })).resolves.toMatchObject({
      user_id: 4,
    });
    await service.close();
    await expect(check(url)).resolves.toMatchObject({ code: 0 });
  }, 60_000);

  it("finds nothing wrong while a service is at work, and refuses a database of which nothing is there", async () => {
    const service = await openService(url);
    const work = { isDone: false };
    const changing = (async () => {
      for (let number = 0; !work.isDone; number += 1) {
        await service.accounts.update(subs[number % 3] ?? "", { username: `name${number}` });
        const { sub } = await service.accounts.import({
          email: `x${number}@example.com`,
          services: { "1": null },
        });
        if (number % 2 === 0) await service.accounts.delete(sub);
      }
    })();
    for (let times = 0; times < 3; times += 1) {
      const { code, said } = await check(url, "--repair");
      expect([code, said]).toEqual([0, expect.stringMatching(/^Nothing is wrong \(/m)]);
    }
    work.isDone = true;
    await changing;
    await service.close();
    await expect(check(server.nextUrl())).resolves.toMatchObject({
      code: 1,
      said: expect.stringContaining("ADDRESS: there is no storage in that database of MongoDB."),
    });
  }, 120_000);
});
