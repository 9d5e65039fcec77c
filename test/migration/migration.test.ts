/** Storages of version 0.1 are carried over with everything in them. */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { AuditRecord } from "../../lib/audit/audit-event.ts";
import type { FirstAuditRecord } from "../../lib/audit/records.ts";
import { readTokens } from "../flows/relying-party.ts";
import { describeMongo, type MongoServer, openMongoServer } from "../servers/mongodb.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { migrateStorage } from "../../lib/migration/migrate.ts";
import { type Manifest, readFixture } from "./fixtures.ts";
import {
  FixtureClock,
  type Migrated,
  openReceivers,
  type Place,
  restoreMongo,
  restoreRedis,
  restoreSqlite,
  serve,
} from "./stage.ts";

const quiet = { signal: new AbortController().signal, onProgress: (): void => undefined };

/** It never answers: what was on its way there failed while the service was closed. */
const SLOW = "service:slow";
const isOther = ({ receiver }: { readonly receiver: string }): boolean => receiver !== SLOW;

/** What both versions say of an audit record. */
const brief = ({ at, action, subject }: FirstAuditRecord | AuditRecord): unknown => [at, action, subject];

/** @param killed whether the process went on for a while after it had said what there is. */
async function expectRecords({ service }: Migrated, manifest: Manifest, killed: boolean): Promise<void> {
  const accounts = await service.accounts.list({ limit: 100 });
  const clients = await service.clients.list();
  const deliveries = await service.notifications.list({ limit: 500 });
  expect(clients).toMatchObject(manifest.clients);
  const sequences = Map.groupBy(deliveries, ({ receiver, sub }) => `${receiver} ${sub}`);
  for (const lane of sequences.values())
    expect(lane.map(({ sequence }) => sequence)).toEqual(lane.map((_each, index) => index + 1));
  expect(await service.accounts.find(manifest.people.gone)).toBeUndefined();
  if (killed) {
    expect(accounts.map(({ sub }) => sub)).toEqual(manifest.accounts.map(({ sub }) => sub));
    expect(deliveries.map(({ id }) => id)).toEqual(
      expect.arrayContaining(manifest.deliveries.map(({ id }) => id)),
    );
    // Six changes were acknowledged, and each told several receivers.
    expect(deliveries.length).toBeGreaterThanOrEqual(manifest.deliveries.length + 6);
    return;
  }
  // Version 0.1 could not disable an account.
  const newer = { disabled: false, locale: null };
  expect(accounts).toEqual(manifest.accounts.map((account) => ({ ...account, ...newer })));
  expect(deliveries.map(({ id, state }) => [id, state])).toEqual(
    manifest.deliveries.map(({ id, state }) => [id, state]),
  );
  for (const [index, delivery] of manifest.deliveries.entries()) {
    if (!isOther(delivery)) continue;
    expect(deliveries[index]).toEqual(delivery);
    expect((await service.notifications.find(delivery.id))?.history).toEqual(manifest.histories[index]);
  }
  expect((await service.notifications.receivers()).filter(isOther)).toEqual(
    manifest.receivers.filter(isOther),
  );
  const { records } = await service.audit.list({ limit: 100 });
  expect(records.map(brief)).toEqual(manifest.audit.map(brief));
}

/** People sign in with their passwords and are still signed in, and what they allowed is known. */
async function expectPeople(migrated: Migrated, { people, cookies }: Manifest): Promise<void> {
  const { service, news, partner } = migrated;
  expect(await service.accounts.verifyPassword(people.zoe, "the password of zoe")).toBe(true);
  expect(await service.accounts.verifyPassword(people.zoe, "another password")).toBe(false);
  const zoe = { username: "zoë@example.com", password: "the password of zoe" };
  expect(await news.password(zoe)).toMatchObject({ status: 200 });
  expect(await news.password({ username: "ada", password: "the password of ada" })).toMatchObject({
    status: 200,
  });
  for (const [party, cookie] of [
    [news, cookies.ada],
    [partner, cookies.zoe],
  ] as const) {
    const browser = migrated.browser(cookie);
    await browser.get(party.authorizeUrl({ prompt: "none", scope: "openid" }));
    expect(browser.location?.searchParams.get("code")).toEqual(expect.any(String));
  }
  const { user_id } = await service.accounts.create({ email: "new@example.com" });
  const given = (await service.accounts.list({ limit: 100 })).map((account) => account.user_id);
  expect(user_id).toBe(Math.max(...given));
  expect(given).toHaveLength(new Set(given).size);
}

/** Tokens go on, and what was used is known as used. */
async function expectTokens({ news, partner }: Migrated, { tokens }: Manifest): Promise<void> {
  const { kept, spent, consented, spentCode, unusedCode } = tokens;
  for (const [party, token] of [
    [news, kept.access_token],
    [news, kept.refreshed.access_token],
    [news, spent.refreshed.access_token],
    [news, spentCode.tokens.access_token],
    [partner, consented.access_token],
  ] as const)
    expect(await party.userinfo(token)).toMatchObject({ status: 200 });
  const again = readTokens(await news.refresh(kept.refresh_token));
  expect(again).toMatchObject(kept.refreshed);
  expect(await news.refresh(spent.refresh_token)).toMatchObject({
    status: 400,
    body: { error: "invalid_grant" },
  });
  expect(await news.userinfo(spent.refreshed.access_token)).not.toMatchObject({ status: 200 });
  expect(await news.exchange(spentCode.code)).toMatchObject({
    status: 400,
    body: { error: "invalid_grant" },
  });
  expect(await news.userinfo(spentCode.tokens.access_token)).not.toMatchObject({ status: 200 });
  expect(await news.exchange(unusedCode)).toMatchObject({ status: 200 });
  expect(await partner.refresh(consented.refresh_token)).toMatchObject({ status: 200 });
  readTokens(await news.refresh(kept.refreshed.refresh_token));
}

/** What was waiting is sent in order; what is paused waits, and what is held waits for its probe. */
async function expectDeliveries(manifest: Manifest, place: Place): Promise<void> {
  const receivers = await openReceivers();
  const migrated = await serve(manifest, place, true);
  const { notifications } = migrated.service;
  const waiting = await notifications.list({ state: "waiting", limit: 500 });
  const { length: parked } = await notifications.list({ state: "parked", limit: 500 });
  const to = (name: string): string[] => waiting.filter((each) => each.receiver === name).map(({ id }) => id);
  try {
    await pause(200);
    for (const id of [...to("service:shop"), ...to("service:quiet")])
      expect(receivers.arrived).not.toContain(id);
    // The leases and the hold are over.
    migrated.clock.advance(3_600);
    const expected = waiting.filter(({ receiver }) => receiver !== "service:quiet").length;
    for (let tries = 0; tries < 500; tries += 1) {
      const left = await notifications.list({ state: "waiting", limit: 500 });
      if (left.length === waiting.length - expected) break;
      await pause(20);
    }
    for (const lane of Map.groupBy(waiting, ({ receiver, sub }) => `${receiver} ${sub}`).values()) {
      const ids = lane.map(({ id }) => id);
      const came = receivers.arrived.filter((id) => ids.includes(id));
      expect(came).toEqual(lane[0]?.receiver === "service:quiet" ? [] : ids);
    }
    expect(await notifications.receivers()).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ receiver: "service:quiet", paused: true, reason: "out of order" }),
        expect.objectContaining({ receiver: "service:shop", heldUntil: null, parked }),
      ]),
    );
  } finally {
    await migrated.close();
    await receivers.close();
  }
}

/** Looks at everything. @param killed whether the process of the fixture was killed. */
async function expectEverything(manifest: Manifest, place: Place, killed: boolean): Promise<void> {
  const migrated = await serve(manifest, place);
  try {
    await expectRecords(migrated, manifest, killed);
    await expectPeople(migrated, manifest);
    await expectTokens(migrated, manifest);
  } finally {
    await migrated.close();
  }
  await expectDeliveries(manifest, place);
}

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
