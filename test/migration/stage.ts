/** Storages of version 0.1 put back from their fixtures, and services over them. */
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EJSON } from "bson";
import type { Redis } from "ioredis";
import Koa from "koa";
import type { Db, Document } from "mongodb";
import { pino } from "pino";
import type { Clock } from "../../lib/clock.ts";
import { createSignInServiceOver, type SignInService } from "../../lib/service.ts";
import { openStorage, type Storage } from "../../lib/storage.ts";
import { Browser } from "../../lib/testing/browser/browser.ts";
import { PARTNER, NEWS } from "../flows/running-service.ts";
import { RelyingParty } from "../flows/relying-party.ts";
import type { Fixture, Manifest } from "./fixtures.ts";

/** Where the receivers of the fixtures listen. */
const RECEIVERS = 21_702;

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
}

/** A place as the configuration names it. */
export interface Place {
  readonly storage: string;
  readonly artifacts?: string;
}

/** Writes the database file, and the log that a killed process has left beside it. */
export function restoreSqlite({ sqlite }: Fixture): string {
  const path = join(mkdtempSync(join(tmpdir(), "sign-in-migration-")), "sign-in.db");
  writeFileSync(path, Buffer.from(sqlite?.database ?? "", "base64"));
  if (sqlite?.log !== undefined) writeFileSync(`${path}-wal`, Buffer.from(sqlite.log, "base64"));
  return path;
}

export async function restoreMongo({ mongodb = {} }: Fixture, db: Db): Promise<void> {
  for (const [name, documents] of Object.entries(mongodb)) {
    await db.createCollection(name);
    if (documents.length > 0)
      await db.collection(name).insertMany(EJSON.deserialize(documents) as Document[]);
  }
}

/** @param prefix what the keys begin with there. */
export async function restoreRedis({ redis = {} }: Fixture, client: Redis, prefix: string): Promise<void> {
  for (const [name, { hash, set, text }] of Object.entries(redis)) {
    const key = name.replace(/^sign-in:/u, prefix);
    if (hash !== undefined) await client.hset(key, hash);
    if (text !== undefined) await client.set(key, text);
    for (let at = 0; at < (set?.length ?? 0); at += 2)
      await client.zadd(key, set?.[at + 1] ?? "", set?.[at] ?? "");
  }
}

/** A clock that stands still at the end of a fixture until it is moved. */
export class FixtureClock implements Clock {
  #now: number;

  constructor({ now }: Manifest) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  advance(seconds: number): void {
    this.#now += seconds * 1_000;
  }
}

export interface Migrated {
  readonly service: SignInService;
  readonly storage: Storage;
  readonly clock: FixtureClock;
  readonly log: readonly string[];
  readonly news: RelyingParty;
  readonly partner: RelyingParty;
  /** A browser with a Cookie header of the fixture. */
  browser(cookie: string): Browser;
  close(): Promise<void>;
}

/** A service where the one of the fixture was. */
export async function serve(manifest: Manifest, place: Place, worker = false): Promise<Migrated> {
  const { origin, callback, secrets } = manifest;
  const clock = new FixtureClock(manifest);
  const log: string[] = [];
  const opened: { storage?: Storage } = {};
  const service = await createSignInServiceOver(
    {
      ...place,
      clock,
      proxy: false,
      deployments: { oauth2: { url: origin }, openid: { url: `${origin}/openid` } },
      keys: { secrets },
      logger: pino({}, { write: (line: string) => void log.push(line) }),
      notifications: { worker, poll: 0.02, allowedReceivers: ["127.0.0.1"] },
    },
    async (configuration, onWarning) => (opened.storage = await openStorage(configuration, onWarning)),
  );
  const application = new Koa().use(service.routes());
  const answer = application.callback();
  const server = createServer((request, response) => void answer(request, response));
  await listen(server, Number(new URL(origin).port));
  const party = (id: string): RelyingParty =>
    new RelyingParty(`${origin}/openid`, "openid", {
      ...(id === "news" ? NEWS : PARTNER),
      client_id: id,
      client_secret: `the secret of ${id}, of 32 and more characters`,
      redirect_uris: [callback],
    });
  return {
    service,
    storage: opened.storage as Storage,
    clock,
    log,
    news: party("news"),
    partner: party("partner"),
    browser: (cookie) => new Browser({ stopAt: callback, headers: { cookie } }),
    async close() {
      const closed = new Promise((resolve) => void server.close(resolve));
      server.closeAllConnections();
      await closed;
      await service.close();
    },
  };
}

/** What arrived at the receivers of the fixtures: each answers 204. */
export interface Receivers {
  /** `webhook-id`s, in the order of their arrival. */
  readonly arrived: readonly string[];
  close(): Promise<void>;
}

export async function openReceivers(): Promise<Receivers> {
  const arrived: string[] = [];
  const server: Server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      arrived.push(String(request.headers["webhook-id"]));
      response.writeHead(204).end();
    });
  });
  await listen(server, RECEIVERS);
  return {
    arrived,
    async close() {
      const closed = new Promise((resolve) => void server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
