/**
 * Writes one fixture: a storage of version 0.1, filled by the code of that version through its public interface and
 * its worker. `make-fixtures.md` says how it is called.
 *
 *     node test/migration/make-fixture.ts TREE FIXTURE closed|killed STORAGE [ARTIFACTS]
 *
 * TREE is a checkout of version 0.1 with its packages. A storage that is `killed` loses its process in the middle of
 * its work.
 */
import { type ChildProcess, fork } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { Redis } from "ioredis";
import Koa from "koa";
import { EJSON } from "bson";
import { MongoClient } from "mongodb";
import type { Browser, createTestSignIn, TestSignIn } from "../../lib/testing.ts";
import type { ReceiverSettings } from "../../lib/domain/receivers.ts";
import type { Manifest, RedisKey, Tokens } from "./fixtures.ts";

/** Where the service of a fixture listened: not among the ports that systems give out. */
const PORT = 21_701;
const RECEIVERS = 21_702;
const ORIGIN = `http://127.0.0.1:${PORT}`;
const CALLBACK = "http://127.0.0.1:9/callback";
const SECRET = Buffer.alloc(32, "a key of fixtures").toString("base64");
const PREFIX = "sign-in:";

/** The public interface of version 0.1, as far as it is the same today. */
interface Testing {
  readonly createTestSignIn: typeof createTestSignIn;
  readonly Browser: typeof Browser;
}

type ListAudit = (page: { readonly limit: number }) => Promise<Manifest["audit"]>;

const password = (name: string): string => `the password of ${name}`;

/** Takes what is sent, and answers as the path says. */
function openReceivers(): Server {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      if (request.url === "/fails") response.writeHead(500).end("no");
      else if (request.url !== "/silent") response.writeHead(204).end();
    });
  });
  return server.listen(RECEIVERS, "127.0.0.1");
}

const receiver = (path: string): ReceiverSettings => ({
  url: `http://127.0.0.1:${RECEIVERS}${path}`,
  client_id: "receiver",
  client_secret: "the secret of the receiver",
  types: ["PROFILE_CHANGED", "DELETE_ACCOUNT", "UNASSINGED_FROM_SERVICE"],
});

async function until(what: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries += 1) {
    if (await what()) return;
    await pause(20);
  }
  throw new Error("this does not come true");
}

async function fill(
  tree: string,
  place: object,
): Promise<{ manifest: Manifest; service: TestSignIn["service"] }> {
  const testing = (await import(pathToFileURL(join(tree, "lib/testing.ts")).href)) as Testing;
  const server = createServer();
  await new Promise<void>((done) => void server.listen(PORT, "127.0.0.1", done));
  const test = await testing.createTestSignIn({
    ...place,
    deployments: { oauth2: { url: ORIGIN }, openid: { url: `${ORIGIN}/openid` } },
    keys: { secrets: [SECRET] },
    notifications: {
      worker: true,
      poll: 0.02,
      allowedReceivers: ["127.0.0.1"],
      retryDelays: [5, 5],
      breaker: { failures: 4, probe: 30, longestProbe: 300 },
    },
  });
  const { service, clock } = test;
  const { accounts, clients, directory, notifications } = service;
  const answer = new Koa().use(service.routes()).callback();
  server.on("request", (request, response) => void answer(request, response));

  await directory.portals.put("main", { name: "Main", receiver: receiver("/portal") });
  await directory.groups.put("media", { name: "Media", receiver: receiver("/group") });
  const services = [
    ["news", "/news", "media"],
    ["shop", "/fails"],
    ["partner", "/partner"],
    ["quiet", "/quiet"],
    ["slow", "/silent"],
  ] as const;
  for (const [key, path, group] of services) {
    await directory.services.put(key, {
      name: `Service ${key} ☃`,
      receiver: receiver(path),
      ...(group && { group }),
    });
  }
  const client = (id: string, more: object = {}): Promise<unknown> =>
    clients.register({
      client_id: id,
      client_secret: `the secret of ${id}, of 32 and more characters`,
      name: `Client ${id}`,
      service: id,
      redirect_uris: [CALLBACK],
      ...more,
    });
  await client("news", {
    password_grant: true,
    refresh_tokens: { rotate: true, reuseWindow: 10 },
  });
  await client("partner", { first_party: false });

  const ada = await accounts.create({
    email: "ada@example.com",
    username: "ada",
    password: password("ada"),
    name: "Ada",
    surname: "Lovelace",
    date_of_birth: "1990-12-10",
    gender: "female",
    email_verified: true,
    portal: "main",
  });
  const bob = await accounts.import({ email: "bob@example.com", user_id: 4_000, services: { quiet: null } });
  const zoe = await accounts.import({
    email: "zoë@example.com",
    username: "Zoë ☃",
    password: password("zoe"),
    services: { news: 77, shop: 3 },
  });
  const gone = await accounts.create({ email: "gone@example.com" });
  for (const key of ["news", "shop", "quiet", "slow"]) await accounts.assign(ada.sub, key, 100);
  await accounts.assign(zoe.sub, "partner", 5);
  await accounts.assign(gone.sub, "news", 9);
  await accounts.unassign(zoe.sub, ["partner"]);
  await notifications.pause("service:quiet", { reason: "out of order" });

  const list = (filter: object): ReturnType<typeof notifications.list> =>
    notifications.list({ limit: 500, ...filter });
  const settled = async (receivers: readonly string[]): Promise<boolean> =>
    (await Promise.all(receivers.map((name) => list({ receiver: name, state: "waiting" })))).flat().length ===
    0;
  await accounts.update(ada.sub, { surname: "King" });
  await accounts.update(zoe.sub, { surname: "One" });
  await accounts.delete(gone.sub);
  await until(() => settled(["service:news", "group:media", "portal:main"]));
  // After three attempts a delivery is parked; after four failures in a row the receiver is held.
  for (let rounds = 0; (await list({ state: "parked" })).length === 0; rounds += 1) {
    if (rounds > 20) throw new Error("nothing is parked");
    await pause(300);
    clock.advance(7);
  }
  for (const surname of ["Byron", "Lovelace"]) await accounts.update(ada.sub, { surname });
  await accounts.update(zoe.sub, { surname: "Two" });
  await until(() => settled(["service:news", "group:media", "portal:main"]));
  await pause(500);
  const [, second] = await list({ receiver: "service:quiet", sub: ada.sub, state: "waiting" });
  await notifications.discard(second?.id ?? "");

  let cookie = "";
  const send = (url: URL, init: RequestInit): Promise<Response> => {
    cookie = new Headers(init.headers).get("cookie") ?? "";
    return fetch(url, init);
  };
  const newBrowser = (): Browser => new testing.Browser({ stayAt: [ORIGIN], send, now: () => 0 });
  const authorize = (id: string, more: object = {}): string =>
    `${ORIGIN}/openid/oauth2/authorize?${new URLSearchParams({
      client_id: id,
      redirect_uri: CALLBACK,
      response_type: "code",
      scope: "openid",
      ...more,
    })}`;
  async function code(browser: Browser, id: string, person: string): Promise<string> {
    await browser.get(authorize(id));
    if (browser.hasForm("password"))
      await browser.submit(browser.form("password"), {
        username: person === "zoe" ? "zoë@example.com" : person,
        password: password(person),
      });
    if (browser.hasForm("decision")) await browser.submit(browser.form("decision"), { decision: "allow" });
    return browser.location?.searchParams.get("code") ?? "";
  }
  async function token(id: string, form: Record<string, string>): Promise<Tokens> {
    const credentials = Buffer.from(`${id}:the secret of ${id}, of 32 and more characters`).toString(
      "base64",
    );
    const response = await fetch(`${ORIGIN}/openid/oauth2/token`, {
      method: "POST",
      headers: { authorization: `Basic ${credentials}` },
      body: new URLSearchParams(form),
    });
    const body = (await response.json()) as Tokens;
    if (response.status !== 200) throw new Error(`${response.status} ${JSON.stringify(body)}`);
    const { access_token, refresh_token } = body;
    return { access_token, refresh_token };
  }
  const exchange = (id: string, given: string): Promise<Tokens> =>
    token(id, { grant_type: "authorization_code", code: given, redirect_uri: CALLBACK });
  const refresh = (id: string, refresh_token: string): Promise<Tokens> =>
    token(id, { grant_type: "refresh_token", refresh_token });

  const browser = newBrowser();
  const kept = await exchange("news", await code(browser, "news", "ada"));
  const spent = await exchange("news", await code(browser, "news", "ada"));
  const refreshed = await refresh("news", spent.refresh_token);
  clock.advance(20);
  const spentCode = await code(browser, "news", "ada");
  const ofSpentCode = await exchange("news", spentCode);
  const unusedCode = await code(browser, "news", "ada");
  await browser.get(authorize("news", { prompt: "none" }));
  const signedIn = cookie;
  const third = newBrowser();
  const consented = await exchange("partner", await code(third, "partner", "zoe"));
  await third.get(authorize("partner", { prompt: "none" }));
  const zoeSignedIn = cookie;
  // A sign-in under way: the login page is open.
  await newBrowser().get(authorize("news"));
  // A window in which the last refresh may be repeated is still open.
  const repeated = await refresh("news", kept.refresh_token);

  const manifest: Manifest = {
    now: clock.now(),
    origin: ORIGIN,
    callback: CALLBACK,
    secrets: [SECRET],
    people: { ada: ada.sub, bob: bob.sub, zoe: zoe.sub, gone: gone.sub },
    cookies: { ada: signedIn, zoe: zoeSignedIn },
    tokens: {
      kept: { ...kept, refreshed: repeated },
      spent: { ...spent, refreshed },
      consented,
      spentCode: { code: spentCode, tokens: ofSpentCode },
      unusedCode,
    },
    accounts: await accounts.list({ limit: 100 }),
    clients: await clients.list(),
    deliveries: await list({}),
    histories: await Promise.all(
      (await list({})).map(async ({ id }) => (await notifications.find(id))?.history ?? []),
    ),
    receivers: await notifications.receivers(),
    audit: await (service.audit as unknown as ListAudit)({ limit: 100 }),
  };
  return { manifest, service };
}

/** Runs in a process of its own, which may be killed. */
async function work([tree = "", how = "", storage = "", artifacts]: readonly string[]): Promise<void> {
  openReceivers();
  const place = { storage, ...(artifacts && { artifacts }) };
  const { manifest, service } = await fill(tree, place);
  process.send?.(manifest);
  await new Promise((told) => process.once("message", told));
  if (how === "closed") {
    await service.close();
    process.exit(0);
  }
  // Whatever is under way when the sixth change is acknowledged is left as it is.
  let done = 0;
  const change = async (index: number): Promise<void> => {
    await service.accounts.update(manifest.people.ada, { name: `Ada ${index}` });
    done += 1;
    if (done === 6) process.kill(process.pid, "SIGKILL");
  };
  for (let index = 0; index < 100; index += 1) {
    void change(index).catch(() => undefined);
    await pause(2);
  }
}

/** Writes the log of a database back, so that what is left of it is from the end. */
function emptyLog(path: string): void {
  const database = new DatabaseSync(path);
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

async function runWorker(args: readonly string[], beforeTheEnd: () => Promise<void>): Promise<Manifest> {
  const child: ChildProcess = fork(import.meta.filename, ["work", ...args]);
  const ended = new Promise((done) => child.once("exit", done));
  const manifest = await new Promise<Manifest>((done, fail) => {
    child.once("message", (message) => done(message as Manifest));
    child.once("exit", () => fail(new Error("the work ended early")));
  });
  await beforeTheEnd();
  child.send("go on");
  await ended;
  return manifest;
}

async function mongoDocuments(url: string): Promise<Record<string, unknown>> {
  const client = new MongoClient(url);
  const db = client.db(new URL(url).pathname.slice(1));
  const found: Record<string, unknown> = {};
  for (const { name } of await db.listCollections({}, { nameOnly: true }).toArray()) {
    if (name === "rate_limits") continue;
    found[name] = EJSON.serialize(await db.collection(name).find().toArray());
  }
  await client.close();
  return found;
}

/** They would be gone after some seconds, however long it takes to read them. */
async function keepReplays(url: string): Promise<void> {
  const client = new Redis(url);
  for (const key of await client.keys(`${PREFIX}replay:*`)) await client.persist(key);
  client.disconnect();
}

async function redisKeys(url: string): Promise<Record<string, RedisKey>> {
  const client = new Redis(url);
  const found: Record<string, RedisKey> = {};
  for (const key of await client.keys(`${PREFIX}*`)) {
    const type = await client.type(key);
    if (type === "hash") found[key] = { hash: await client.hgetall(key) };
    else if (type === "zset") found[key] = { set: await client.zrange(key, "0", "-1", "WITHSCORES") };
    else if (!/limit|done:/u.test(key)) found[key] = { text: (await client.get(key)) ?? "" };
  }
  client.disconnect();
  return found;
}

const base64 = (path: string): string | undefined =>
  existsSync(path) ? readFileSync(path).toString("base64") : undefined;

async function main([
  tree = "",
  fixture = "",
  how = "",
  storage = "",
  artifacts,
]: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-fixture-"));
  const path = join(folder, "sign-in.db");
  const address = storage === "sqlite" ? `sqlite:${path}` : storage;
  const args = [resolve(tree), how, address, ...(artifacts === undefined ? [] : [artifacts])];
  const manifest = await runWorker(args, async () => {
    if (storage === "sqlite") emptyLog(path);
    if (artifacts !== undefined) await keepReplays(artifacts);
  });
  const content = {
    manifest,
    ...(storage === "sqlite" && { sqlite: { database: base64(path), log: base64(`${path}-wal`) } }),
    ...(storage.startsWith("mongodb") && { mongodb: await mongoDocuments(storage) }),
    ...(artifacts !== undefined && { redis: await redisKeys(artifacts) }),
  };
  writeFileSync(
    join(import.meta.dirname, "fixtures", `${fixture}.json.gz`),
    gzipSync(JSON.stringify(content), { level: 9 }),
  );
  rmSync(folder, { recursive: true });
}

const [first, ...rest] = process.argv.slice(2);
await (first === "work" ? work(rest) : main([first ?? "", ...rest]));
