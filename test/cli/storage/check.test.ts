/** `storage check` on every storage: it finds planted damage, shows it without personal data, and repairs it. */
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Commit, Found, RecordData, RecordStore, Ref } from "../../../adapters/record-store.ts";
import { artifactKind, artifactRecord } from "../../../records/artifacts/artifact-kinds.ts";
import { DELIVERY, type StoredDelivery, LANE, RECEIVER } from "../../../records/deliveries/delivery-kinds.ts";
import {
  ACCOUNT,
  ENTRIES,
  IDENTIFIER,
  SIGN_IN_NAME,
  USER_ID,
} from "../../../records/directory/directory-kinds.ts";
import { PASSKEY, type StoredPasskey } from "../../../records/factors/factor-kinds.ts";
import { type AnyKind, storeOf, type Stores } from "../../../records/kinds.ts";
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

const workshop = new Workshop();
afterAll(() => workshop.remove());

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

/** Writes without any checks. */
async function force(store: RecordStore, change: Pick<Commit, "put" | "remove">): Promise<void> {
  await store.commit({ id: randomUUID(), deadline: Date.now() + 5_000, ...change });
}

async function find(stores: Stores, kind: AnyKind, ref: Ref): Promise<Found> {
  const [found] = await storeOf(stores, kind).get([ref]);
  if (found === undefined) throw new Error(`there is no ${ref.kind}`);
  return found;
}

/** Changes a record: its value, its index entries, its expiry. */
async function alter(
  stores: Stores,
  kind: AnyKind,
  ref: Ref,
  change: (record: RecordData) => RecordData,
): Promise<void> {
  await force(storeOf(stores, kind), { put: [change(kind.restore(await find(stores, kind, ref)))] });
}

const withoutEntries = ({ index: _index, ...record }: RecordData): RecordData => record;
const withValue =
  (parts: object) =>
  (record: RecordData): RecordData => ({ ...record, value: { ...record.value, ...parts } });

/** The deliveries of an account's lane, in their order. */
async function laneOf({ storage }: Stores, sub: string): Promise<StoredDelivery[]> {
  const { records } = await storage.scan(DELIVERY.name, undefined, 1_000);
  const all = records.map(({ value }) => value as unknown as StoredDelivery);
  return all
    .filter((delivery) => delivery.sub === sub)
    .toSorted((one, other) => one.sequence - other.sequence);
}

/** A kind of damage, and how it is reported. */
type Damage = readonly [
  name: string,
  plant: (stores: Stores, ada: string, bob: string) => Promise<unknown>,
  says: RegExp,
];

const LANE_OF = (sub: string): Ref => LANE.ref(["group:media", sub]);

const damages: readonly Damage[] = [
  [
    "a record is in none of its indexes",
    (stores, ada) => alter(stores, ACCOUNT, ACCOUNT.ref(ada), withoutEntries),
    /^account: 1 records with wrong index entries, a wrong parent or a wrong expiry \(account [\w-]+\)/m,
  ],
  [
    "a delivery is due at another time",
    async (stores, ada) => {
      const [head] = await laneOf(stores, ada);
      const other = DELIVERY.record({ ...(head as StoredDelivery), nextAttemptAt: Date.now() + 1e9 });
      await alter(stores, DELIVERY, other, (record) => ({ ...record, index: other.index ?? [] }));
    },
    /^delivery: 1 records with wrong index entries/m,
  ],
  [
    "a sign-in name is gone",
    ({ storage }) => force(storage, { remove: [SIGN_IN_NAME.ref("ada")] }),
    /^account: 1 accounts that one of their sign-in names does not lead to \(account [\w-]+\)/m,
  ],
  [
    "a name leads nowhere",
    ({ storage }) =>
      force(storage, { put: [SIGN_IN_NAME.record({ sub: "nobody" }, { key: "x@example.com" })] }),
    /^sign-in-name: 1 sign-in names that lead to no account \(account nobody\)/m,
  ],
  [
    "an account has a former name",
    ({ storage }, ada) => force(storage, { put: [SIGN_IN_NAME.record({ sub: ada }, { key: "former" })] }),
    /^sign-in-name: 1 accounts with a sign-in name that is not theirs/m,
  ],
  [
    "a name leads to somebody else",
    ({ storage }, _ada, bob) => force(storage, { put: [SIGN_IN_NAME.record({ sub: bob }, { key: "ada" })] }),
    /^sign-in-name: 1 accounts with a sign-in name that is not theirs/m,
  ],
  [
    "a user_id leads nowhere",
    ({ storage }) => force(storage, { put: [USER_ID.record({ sub: "nobody" }, { key: "77" })] }),
    /^user-id: 1 user_ids of nobody \(user-id 77\)/m,
  ],
  [
    "a user_id is gone",
    ({ storage }) => force(storage, { remove: [USER_ID.ref("1")] }),
    /^account: 1 accounts that their user_id does not lead to/m,
  ],
  [
    "a user_id leads to another account",
    ({ storage }, ada) => force(storage, { put: [USER_ID.record({ sub: ada }, { key: "77" })] }),
    /^user-id: 1 user_ids that lead to no account of theirs \(user-id 77\)/m,
  ],
  [
    "the identifier of an account is gone",
    ({ storage }, ada) => force(storage, { remove: [IDENTIFIER.ref(ada)] }),
    /^account: 1 accounts with an identifier that a client has or could get/m,
  ],
  [
    "the mark of a client is gone",
    ({ storage }) => force(storage, { remove: [IDENTIFIER.ref("news")] }),
    /^client: 1 clients with an identifier that an account has or could get \(client news\)/m,
  ],
  [
    "there is a mark of no client",
    ({ storage }) => force(storage, { put: [IDENTIFIER.record({ client_id: "gone" })] }),
    /^identifier: 1 reserved identifiers of clients that do not exist \(identifier gone\)/m,
  ],
  [
    "a passkey is of an account that has none",
    ({ storage }, ada) => force(storage, { put: [PASSKEY.record(passkeyOf(ada))] }),
    /^passkey: 1 passkeys that their account does not list \(account [\w-]+\)/m,
  ],
  [
    "a lane is missing",
    async ({ storage }, ada) => force(storage, { remove: [LANE_OF(ada)] }),
    /^lane: [12] deliveries missing from their lane/m,
  ],
  [
    "a lane has forgotten its places",
    (stores, ada) => alter(stores, LANE, LANE_OF(ada), withValue({ lastSequence: 1 })),
    /^lane: 1 deliveries missing from their lane/m,
  ],
  [
    "a lane has no head",
    async (stores, ada) => {
      const [head] = await laneOf(stores, ada);
      await force(stores.storage, { put: [DELIVERY.record({ ...(head as StoredDelivery), isHead: false })] });
    },
    /^lane: 1 lanes whose head is not their first waiting delivery/m,
  ],
  [
    "a lane has two heads",
    async (stores, ada) => {
      const [, second] = await laneOf(stores, ada);
      await force(stores.storage, {
        put: [DELIVERY.record({ ...(second as StoredDelivery), isHead: true })],
      });
    },
    /^lane: 1 lanes whose head is not their first waiting delivery/m,
  ],
  [
    "a receiver is forgotten",
    ({ storage }) => force(storage, { remove: [RECEIVER.ref("group:media")] }),
    /^receiver: [1-9] deliveries for an unknown receiver/m,
  ],
  [
    "a grant is in none of its indexes",
    (stores) => alter(stores, GRANT, GRANT.ref("g"), withoutEntries),
    /^grant: 1 records with wrong index entries, a wrong parent or a wrong expiry \(grant …g\)/m,
  ],
];

function passkeyOf(sub: string): StoredPasskey {
  const times = { added_at: 1_790_000_000, last_used_at: null };
  const backup = { backup_eligible: true, backed_up: true };
  const key = { public_key: "AAAA", counter: 0, transports: [], rp_id: "127.0.0.1" };
  return { id: "cred", sub, name: "Phone", ...key, ...backup, ...times };
}

const GRANT = artifactKind("Grant");

/** A family that a service could have left there. */
async function addFamily({ artifacts }: Stores, accountId: string): Promise<void> {
  const expiresAt = Date.now() + 3_600_000;
  const shared = { payload: { iat: 1 }, accountId, clientId: "news", grantKey: "g", expiresAt };
  const put = [
    artifactRecord({ ...shared, model: "Grant", key: "g" }),
    artifactRecord({ ...shared, model: "AccessToken", key: "t" }),
  ];
  await force(artifacts, { put });
}

/** Those that depend on the store of a record. The others are found in its value, whatever the store. */
const ofStores = damages.filter(([name]) =>
  [
    "a record is in none of its indexes",
    "a sign-in name is gone",
    "a lane has two heads",
    "a grant is in none of its indexes",
  ].includes(name),
);

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
    server = await openOwnPostgres();
  }, 60_000);
  afterAll(() => server.close());

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
    redis = await openOwnRedis();
  });
  afterAll(() => redis.close());

  describeChecks(async () => ({ ...workshop.sqlite(), artifacts: redis.url }), ofStores);

  describe("with records", () => {
    const place = workshop.sqlite();

    beforeAll(() =>
      withStores({ ...place, artifacts: redis.url }, (stores) => fillWith(stores, 10, Date.now())),
    );

    it("works with a user that has the documented rights", async () => {
      const service = rightsIn("redis.md", /^ACL SETUSER sign-in (.+)$/mu);
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
    mongo = await openMongoServer();
  }, 60_000);
  afterAll(() => mongo.close());

  describeChecks(async () => ({ storage: mongo.nextUrl() }), ofStores);
});
