/** `storage check` on every storage: it finds planted damage, shows it without personal data, and repairs it. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { ENTRIES } from "../../../records/directory/directory-kinds.ts";
import {
  CURRENT_INDEX,
  SEARCH_WORDS,
  type StoredSearchWords,
} from "../../../records/directory/search-kinds.ts";
import { createSignInService, type SignInService } from "../../../lib/service.ts";
import { ROOT } from "../../examples/documents.ts";
import { type MongoServer, openMongoServer } from "../../servers/mongodb.ts";
import { openOwnPostgres, type OwnPostgres } from "../../servers/postgresql.ts";
import { openOwnRedis, type OwnRedis } from "../../servers/redis.ts";
import {
  type Addresses,
  type Everything,
  everythingIn,
  lostEntries,
  type Outcome,
  runHere,
  withStores,
  Workshop,
} from "../stage.ts";
import { fillWith } from "../samples.ts";
import { addFamily, alter, type Damage, damages, find, force, ofStores, withValue } from "./damages.ts";
import { closing } from "../../closing.ts";

const workshop = new Workshop();

function openService(place: Addresses): Promise<SignInService> {
  return createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
    ...place,
    notifications: { worker: false },
    keys: { secrets: [Buffer.alloc(32, 7).toString("base64")] },
  });
}

const MEDIA = {
  url: "https://media.example/notify",
  client_id: "media",
  client_secret: "of the receiver",
  types: ["PROFILE_CHANGED", "DELETE_ACCOUNT"] as const,
};

/** Uses a service as people and operators do. @returns the `sub` of each account. */
async function use(service: SignInService): Promise<string[]> {
  const { directory, clients, accounts } = service;
  await directory.portals.put("main", { name: "Main" });
  await directory.groups.put("media", { name: "Media", receiver: MEDIA });
  await directory.services.put("1", { name: "News", group: "media" });
  await directory.services.put("2", { name: "Shop" });
  await clients.register({
    client_id: "news",
    name: "News",
    service: "1",
    redirect_uris: ["https://news.example/"],
  });
  const made: string[] = [];
  for (const name of ["ada", "bob", "eve"]) {
    const services = { "1": 5, "2": null };
    const { sub } = await accounts.import({
      email: `${name}@example.com`,
      username: name,
      portal: "main",
      services,
    });
    await accounts.update(sub, { surname: "One" });
    await accounts.update(sub, { surname: "Two" });
    made.push(sub);
  }
  return made;
}

function check({ storage, artifacts }: Addresses, ...options: string[]): Promise<Outcome> {
  const away = artifacts === undefined ? [] : ["--artifacts", artifacts];
  return runHere(["storage", "check", storage, ...away, ...options]);
}

/** The cases, on one storage that each case repairs. */
function describeChecks(newPlace: () => Promise<Addresses>, cases: readonly Damage[]): void {
  let place: Addresses;
  let subs: readonly [string, string];
  let sound: Everything;

  beforeAll(async () => {
    place = await newPlace();
    const service = await openService(place);
    const [ada = "", bob = ""] = await use(service);
    subs = [ada, bob];
    const gone = await service.accounts.create({ email: "gone@example.com" });
    await service.accounts.delete(gone.sub);
    await service.close();
    await withStores(place, (stores) => addFamily(stores, ada));
  }, 60_000);
  beforeEach(async () => {
    sound = await everythingIn(place);
  });

  it("finds nothing wrong in the storage of a service, and changes nothing", async () => {
    const { code, said } = await check(place);
    expect([code, said]).toEqual([0, expect.stringMatching(/^No problems found \(\d+ checks\)\.$/m)]);
    await expect(check(place, "--repair")).resolves.toMatchObject({ code: 0 });
    await expect(everythingIn(place)).resolves.toEqual(sound);
  }, 60_000);

  it.each(cases)(
    "reports that %s, changes nothing, and repairs it with --repair",
    async (_, plant, says) => {
      await withStores(place, (stores) => plant(stores, ...subs));
      const damaged = await everythingIn(place);
      const reported = await check(place);
      expect([reported.code, reported.said]).toEqual([1, expect.stringMatching(says)]);
      expect(reported.said).toContain("Run it with --repair to repair what can be repaired.");
      expect(reported.said).not.toMatch(/example\.com|former|'ada'/);
      await expect(everythingIn(place)).resolves.toEqual(damaged);
      const repaired = await check(place, "--repair");
      expect([repaired.code, repaired.said]).toEqual([0, expect.stringMatching(/: repaired$/m)]);
      expect(repaired.said).toContain("All problems are repaired");
      await expect(everythingIn(place)).resolves.toEqual(sound);
      await expect(lostEntries(place)).resolves.toEqual([]);
    },
    60_000,
  );

  it("leaves what it cannot repair to the operator, and a service works with the rest", async () => {
    const service2 = ENTRIES.service.ref("2");
    const entry = await withStores(place, async (stores) => {
      const found = await find(stores, ENTRIES.service, service2);
      await force(stores.storage, { remove: [service2] });
      return found;
    });
    for (const options of [[], ["--repair"]]) {
      const { code, said } = await check(place, ...options);
      expect([code, said]).toEqual([
        1,
        expect.stringMatching(
          /^account: 3 records that refer to missing records \(account \S+ → service 2,/m,
        ),
      ]);
      expect(said).toMatch(/1 of \d+ checks found problems\. .*decision\./);
    }
    await withStores(place, ({ storage }) => force(storage, { put: [ENTRIES.service.restore(entry)] }));
    const service = await openService(place);
    await expect(service.accounts.findByLogin("ada")).resolves.toMatchObject({ sub: subs[0] });
    await service.accounts.update(subs[0], { surname: "Three" });
    await service.accounts.delete(subs[1]);
    await service.close();
    await expect(check(place)).resolves.toMatchObject({ code: 0 });
  }, 60_000);

  it("finds nothing wrong while a service is at work", async () => {
    const service = await openService(place);
    const work = { isDone: false };
    const changing = (async () => {
      for (let number = 0; !work.isDone; number += 1) {
        await service.accounts.update(subs[0], { surname: `Name ${number}`, username: `name${number}` });
        const { sub } = await service.accounts.import({
          email: `new${number}@example.com`,
          services: { "1": null },
        });
        if (number % 2 === 0) await service.accounts.delete(sub);
      }
    })();
    try {
      for (let times = 0; times < 3; times += 1) {
        const { code, said } = await check(place, "--repair");
        expect([code, said]).toEqual([0, expect.stringMatching(/^No problems found \(/m)]);
      }
    } finally {
      work.isDone = true;
      await changing;
      await service.close();
    }
  }, 120_000);
}

/** The rules that a page of the documentation has in this place. */
function rightsIn(page: string, where: RegExp): string[] {
  const text = readFileSync(join(ROOT, "docs", page), "utf8");
  return where.exec(text)?.[1]?.split(" ") ?? [];
}

/** Two services with receivers, whose credentials are sealed. */
async function newSealed(keys?: { readonly secrets: readonly string[] }): Promise<Addresses> {
  const place = workshop.sqlite();
  const service = await createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
    ...place,
    ...(keys && { keys }),
    notifications: { worker: false },
  });
  const receiver = { ...MEDIA, client_secret: "of this receiver" };
  for (const key of ["1", "2"]) await service.directory.services.put(key, { name: key, receiver });
  await service.close();
  return place;
}

/** Somebody who can write gives one receiver the credentials of the other. */
const moveSealed = (place: Addresses): Promise<void> =>
  withStores(place, async (stores) => {
    const { receiver } = (await find(stores, ENTRIES.service, ENTRIES.service.ref("1"))).value;
    await alter(stores, ENTRIES.service, ENTRIES.service.ref("2"), withValue({ receiver }));
  });

describe("storage check with the keys of the storage", () => {
  const SEALED =
    /^service: 1 records with a sealed value that can't be opened: it was changed, belongs to another record/mu;

  it("finds a sealed value that was moved, with the key file of a database", async () => {
    const place = await newSealed();
    await expect(check(place)).resolves.toMatchObject({ code: 0 });
    await moveSealed(place);
    const { code, said } = await check(place, "--repair");
    expect([code, said]).toEqual([1, expect.stringMatching(SEALED)]);
  });

  it("finds accounts that the search does not find by their names, and repairs its index [D-ADM-272]", async () => {
    const place = await newSealed();
    const options = { deployments: { oauth2: { url: "http://127.0.0.1:3000" } }, ...place };
    const service = closing(await createSignInService({ ...options, notifications: { worker: false } }));
    const subs: string[] = [];
    for (const surname of ["Hopper", "Lovelace", "Murray"])
      subs.push((await service.accounts.create({ email: `${surname}@example.com`, surname })).sub);
    const [hopper = "", lovelace = "", murray = ""] = subs;
    const found = async (search: string): Promise<string[]> =>
      (await service.accounts.list({ search })).items.map(({ sub }) => sub);
    await withStores(place, async (stores) => {
      const { words } = (await find(stores, SEARCH_WORDS, SEARCH_WORDS.ref(murray))).value;
      await force(stores.storage, {
        put: [SEARCH_WORDS.record({ sub: lovelace, user_id: 2, words: words as StoredSearchWords["words"] })],
        remove: [SEARCH_WORDS.ref(hopper)],
      });
    });
    expect([await found("hopp"), await found("lovel")]).toEqual([[], []]);
    const damaged = await check(place);
    expect([damaged.code, damaged.said]).toEqual([
      1,
      expect.stringMatching(
        /^account: 2 accounts that the search for people does not find by their names \(account \S+, account \S+\)$/mu,
      ),
    ]);
    const { code, said } = await check(place, "--repair");
    expect([code, said]).toEqual([0, expect.stringContaining("All problems are repaired")]);
    expect([await found("hopp"), await found("lovel"), await found("murr")]).toEqual([
      [hopper],
      [lovelace],
      [murray],
    ]);
    // An index that lacks accounts is the work of storage reindex.
    await withStores(place, ({ storage }) =>
      force(storage, { remove: [CURRENT_INDEX, SEARCH_WORDS.ref(hopper)] }),
    );
    await expect(check(place)).resolves.toMatchObject({ code: 0 });
  });

  it("finds it with the keys of a configuration, and says when it has none", async () => {
    const keys = { secrets: [Buffer.alloc(32, 9).toString("base64")] };
    const place = await newSealed(keys);
    await moveSealed(place);
    const without = await check(place);
    expect([without.code, without.said]).toEqual([
      0,
      expect.stringContaining("Sealed values are not opened"),
    ]);
    const config = join(workshop.folder, "check.json");
    writeFileSync(config, JSON.stringify({ ...place, keys }), { mode: 0o600 });
    const { code, said } = await runHere(["storage", "check", "--config", config]);
    expect([code, said]).toEqual([1, expect.stringMatching(SEALED)]);
    expect(said).not.toContain(keys.secrets[0]);
  });
});

describe("a storage check of many records", () => {
  it("counts them first, and says how long it will take", async () => {
    const place = workshop.sqlite();
    const { storage } = place;
    await withStores(place, async (stores) => {
      for (let first = 0; first < 20_000; first += 1_000) {
        const put = Array.from({ length: 1_000 }, (_each, index) => ({
          kind: "sign-in-name",
          key: `name-${first + index}`,
          value: { sub: `nobody-${first + index}` },
        }));
        await stores.storage.commit({ id: `filled-${first}`, deadline: Date.now() + 30_000, put });
      }
    });
    const { said } = await runHere(["storage", "check", storage]);
    expect(said).toMatch(
      /^20,\d{3} records; checking them takes (?:less than a minute|about \d+ minutes)\.$/mu,
    );
  }, 60_000);

  it("does not for few", async () => {
    const place = workshop.sqlite();
    await withStores(place, (stores) => fillWith(stores, 10, Date.now()));
    expect((await check(place)).said).not.toContain("checking them takes");
  });
});

describe("an interrupted storage check", () => {
  it("ends with 130", async () => {
    const place = workshop.sqlite();
    await withStores(place, (stores) => fillWith(stores, 10, Date.now()));
    const outcome = await runHere(["storage", "check", place.storage], /checking/u);
    expect(outcome).toEqual({ code: 130, said: expect.stringMatching(/Stopped\.\n$/u) });
  });
});

describe("storage check on SQLite", () => describeChecks(() => Promise.resolve(workshop.sqlite()), damages));

describe("storage check on PostgreSQL", () => {
  let server: OwnPostgres;
  beforeAll(async () => {
    server = closing(await openOwnPostgres());
  }, 60_000);

  it("refuses an empty database, and creates nothing in it", async () => {
    const place = { storage: await server.newDatabase() };
    const said = expect.stringContaining("ADDRESS: there is no storage in that database of PostgreSQL.");
    await expect(check(place)).resolves.toMatchObject({ code: 3, said });
    await expect(check(place)).resolves.toMatchObject({ code: 3, said });
  }, 60_000);

  describeChecks(async () => ({ storage: await server.newDatabase() }), ofStores);
});

describe("storage check on SQLite and Redis", () => {
  let redis: OwnRedis;
  beforeAll(async () => {
    redis = closing(await openOwnRedis());
  });

  describeChecks(async () => ({ ...workshop.sqlite(), artifacts: redis.url }), ofStores);

  describe("with records", () => {
    const place = workshop.sqlite();

    beforeAll(() =>
      withStores({ ...place, artifacts: redis.url }, (stores) => fillWith(stores, 10, Date.now())),
    );

    it("works with a user that has the documented rights", async () => {
      const service = rightsIn("operate/set-up/redis.md", /^ACL SETUSER sign-in (.+)$/mu);
      const allow = (...rules: string[]) => redis.client.call("ACL", "SETUSER", "sign-in", ...rules);
      await allow(...service);
      const artifacts = redis.url.replace("//", "//sign-in:password@");
      const words = ["storage", "check", place.storage, "--artifacts", "env:ARTIFACTS"];
      const inVariable = { ARTIFACTS: artifacts };
      expect((await runHere(words, undefined, inVariable)).said).not.toContain("NOPERM");
      await allow("-scan");
      const { code, said } = await runHere(words, undefined, inVariable);
      expect([code, said]).toEqual([3, expect.stringContaining("Redis does not let this user SCAN")]);
      expect(said).not.toContain("password");
    });

    it("reports a Redis that may evict keys", async () => {
      await redis.client.config("SET", "maxmemory-policy", "allkeys-lru");
      const words = ["storage", "check", place.storage, "--artifacts", redis.url, "--repair"];
      const { code, said } = await runHere(words);
      await redis.client.config("SET", "maxmemory-policy", "noeviction");
      expect(code).toBe(1);
      expect(said).toMatch(/artifacts: 1 unsuitable settings \(.*maxmemory-policy allkeys-lru/);
    });
  });
});

describe("storage check on MongoDB", () => {
  let mongo: MongoServer;
  beforeAll(async () => {
    mongo = closing(await openMongoServer());
  }, 60_000);

  describeChecks(async () => ({ storage: mongo.nextUrl() }), ofStores);
});
