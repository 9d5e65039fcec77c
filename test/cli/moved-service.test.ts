/** A service that moves to another storage: people stay signed in, and tokens and notifications are kept. */
import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { SignInServiceConfig } from "../../config/input.ts";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import { readTokens, type TestClient } from "../../testing/test-client.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { type MongoServer, openMongoServer } from "../servers/mongodb.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { type Addresses, copyWords, Workshop } from "./stage.ts";
import { closing } from "../closing.ts";
import { storedDeliveries } from "../notifier/stored-deliveries.ts";

const workshop = new Workshop();
let redis: OwnRedis;
let inbox: Inbox;

beforeAll(async () => {
  redis = closing(await openOwnRedis());
  inbox = closing(await openInbox());
});

const config = (place: Addresses, worker: boolean): Omit<SignInServiceConfig, "deployments"> => ({
  ...place,
  notifications: { allowedReceivers: ["127.0.0.1"], worker, poll: 0.05 },
});

async function isSignedIn(party: TestClient, browser: ReturnType<TestClient["browser"]>): Promise<boolean> {
  await browser.get(party.authorizeUrl({ prompt: "none" }));
  return browser.location?.searchParams.has("code") ?? false;
}

async function receive({ service }: RunningService): Promise<void> {
  await service.directory.services.put("9", {
    name: "Nine",
    receiver: {
      url: inbox.url("/nine"),
      client_id: "r",
      client_secret: "of the receiver",
      types: ["PROFILE_CHANGED"],
    },
  });
}

/** Where a service begins, and the secrets with which it does. */
interface Beginning {
  readonly from: Addresses;
  readonly secrets?: readonly string[];
}

/** Moves a service to a place, and looks at it from outside before and after. */
async function move(
  place: Addresses,
  { from, secrets: own }: Beginning = { from: workshop.sqlite() },
): Promise<void> {
  const configured = own === undefined ? {} : { keys: { secrets: [...own] } };
  let running = await startService({ config: { ...config(from, false), ...configured } });
  const port = Number(new URL(running.origin).port);
  let news = clientAt(running, "openid", NEWS);
  const browser = news.browser();
  const tokens = await news.signIn({ ...ADA, browser }, { scope: "openid" });
  const code = await news.code({ ...ADA, browser });
  const spent = await news.code({ ...ADA, browser });
  readTokens(await news.exchange(spent));
  await receive(running);
  await running.service.accounts.assign(running.ada.sub, "9", 7);
  for (const surname of ["One", "Two", "Three"]) {
    await running.service.accounts.update(running.ada.sub, { surname });
  }
  const waiting = (await storedDeliveries(running.service.notifications, { state: "waiting" })).map(
    ({ id }) => id,
  );
  expect(waiting).toHaveLength(3);
  const signingKey = await fetch(`${running.openid}/oauth2/jwks`).then((answer) => answer.text());
  const before = { ada: running.ada.sub, bob: running.bob.sub };
  await running.close();

  await expect(workshop.run(copyWords(from, place))).resolves.toMatchObject({ code: 0 });
  const secrets =
    own ??
    readFileSync(`${from.storage.slice(7)}.keys`, "utf8")
      .trim()
      .split("\n");

  const arrived = inbox.arrived.length;
  running = await startService({ port, config: { ...config(place, true), keys: { secrets: [...secrets] } } });
  try {
    news = clientAt(running, "openid", NEWS);
    expect({ ada: running.ada.sub, bob: running.bob.sub }).toEqual(before);
    expect(await news.userinfo(tokens.access_token)).toMatchObject({
      status: 200,
      body: { sub: before.ada },
    });
    expect(await isSignedIn(news, browser)).toBe(true);
    const refreshed = readTokens(await news.refresh(tokens.refresh_token));
    expect(await news.profile(refreshed.access_token)).toMatchObject({ body: { surname: "Three" } });
    expect(await news.exchange(code)).toMatchObject({ status: 200 });
    expect(await news.exchange(spent)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
    expect(await news.password(ADA)).toMatchObject({ status: 200 });
    const keys = await fetch(`${running.openid}/oauth2/jwks`).then((answer) => answer.text());
    expect(keys).toBe(signingKey);
    await inbox.until((all) => all.length >= arrived + 3);
    expect(inbox.arrived.slice(arrived).map(({ id }) => id)).toEqual(waiting);
    const { user_id } = await running.service.accounts.create({ email: "new@example.com" });
    expect(user_id).toBeGreaterThan(Math.max(running.ada.user_id, running.bob.user_id));
  } finally {
    await running.close();
  }
}

describe("a service that moves", () => {
  const says =
    "keeps its accounts, tokens, sessions and clients, and delivers waiting notifications in order";

  it(`to another SQLite file ${says}`, () => move(workshop.sqlite()), 60_000);

  it(
    `to SQLite and Redis ${says}`,
    () => move({ ...workshop.sqlite(), artifacts: `${redis.url}?prefix=moved:` }),
    60_000,
  );

  describe("with a PostgreSQL", () => {
    const secrets = [Buffer.alloc(32, 5).toString("base64")];
    let postgres: OwnPostgres;

    beforeAll(async () => {
      postgres = closing(await openOwnPostgres());
    }, 60_000);

    it(`to PostgreSQL ${says}`, async () => move({ storage: await postgres.newDatabase() }), 60_000);

    it(`from PostgreSQL to SQLite and Redis ${says}`, async () => {
      const from = { storage: await postgres.newDatabase() };
      await move({ ...workshop.sqlite(), artifacts: `${redis.url}?prefix=back:` }, { from, secrets });
    }, 60_000);
  });

  describe("with a MongoDB", () => {
    let mongo: MongoServer;

    beforeAll(async () => {
      mongo = closing(await openMongoServer());
    });

    it(`to MongoDB ${says}`, () => move({ storage: mongo.nextUrl() }), 120_000);

    it(
      `to MongoDB and Redis ${says}`,
      () => move({ storage: mongo.nextUrl(), artifacts: `${redis.url}?prefix=far:` }),
      120_000,
    );
  });
});
