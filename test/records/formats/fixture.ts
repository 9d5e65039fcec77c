/**
 * The storage of a release, with everything that was valid when it was made. It is made once for
 * each format, with `MAKE_FIXTURE=yes npm test -- test/records/formats/fixtures.test.ts`; later versions open what this one has written.
 */
import { createHash, randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import { EJSON } from "bson";
import { MongoClient } from "mongodb";
import type { RecordData, RecordStore } from "../../../adapters/record-store.ts";
import type { MailMessage } from "../../../config/mail.ts";
import type { Clock } from "../../../core/clock.ts";
import { createSealer } from "../../../core/sealing.ts";
import { currentFormat } from "../../../core/storage-formats.ts";
import { MailRefused } from "../../../notifier/mail/transport.ts";
import { KINDS } from "../../../records/all-kinds.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { ACCOUNT } from "../../../records/directory/directory-kinds.ts";
import { SEARCH_INDEX } from "../../../records/directory/search-kinds.ts";
import { PASSKEY, type StoredPasskey } from "../../../records/factors/factor-kinds.ts";
import { WRITE_PROBE } from "../../../records/observed-store.ts";
import { identityId } from "../../../records/people/identity-kinds.ts";
import { here } from "../../cli/here.ts";
import { fillWith } from "../../cli/samples.ts";
import {
  type Config,
  EVE,
  type Held,
  holdEverything,
  Mails,
  type Stage,
  startStage,
} from "../../cli/renewal-stage.ts";
import { withStores } from "../../cli/stage.ts";
import { clientAt } from "../../flows/clients.ts";
import { ADA, NEWS } from "../../flows/running-service.ts";
import { JsonVisitor } from "../../interactions/json-visitor.ts";
import { startOwnMongo } from "../../servers/mongodb.ts";
import { openOwnPostgres } from "../../servers/postgresql.ts";
import { openOwnRedis } from "../../servers/redis.ts";

const FOLDER = join(import.meta.dirname, "fixtures");
const SECRET = Buffer.alloc(32, 30).toString("base64");
const PREFIX = "fixture:";
/** The names of cookies depend on the address. Below the ports that systems give to connections. */
export const PORT = 21_303;
export const RECEIVER = "events:crm";
export const SIGNING_SECRET: string = `whsec_${Buffer.alloc(32, 31).toString("base64")}`;

/** How a storage is written to files, and read from them. */
export interface Ground {
  readonly config: Config;
  /** Fills an empty storage with the data of the fixture. */
  load(read: (name: string) => Buffer): Promise<void>;
  save(write: (name: string, content: Buffer) => void): Promise<void>;
  close(): Promise<void>;
}

const keys = { secrets: [SECRET] };

/** @param folder an empty one. */
async function onSqlite(folder: string): Promise<Ground> {
  const path = join(folder, "fixture.db");
  return {
    config: { storage: `sqlite:${path}`, keys },
    load: async (read) => writeFileSync(path, read("sqlite.gz")),
    save: async (write) => write("sqlite.gz", readFileSync(path)),
    close: async () => undefined,
  };
}

async function onPostgres(): Promise<Ground> {
  const server = await openOwnPostgres();
  const storage = await server.newDatabase();
  const file = join(server.folder, "fixture.sql");
  return {
    config: { storage, keys },
    async load(read) {
      writeFileSync(file, read("postgresql.sql.gz"), { mode: 0o644 });
      server.run("psql", ["-q", "-f", file, "-d", storage]);
    },
    async save(write) {
      server.run("pg_dump", ["--no-owner", "-f", "fixture.sql", "-d", storage]);
      write("postgresql.sql.gz", readFileSync(file));
    },
    close: () => server.close(),
  };
}

async function onMongo(): Promise<Ground> {
  const server = await startOwnMongo();
  const storage = server.nextUrl();
  const client = new MongoClient(storage);
  const database = client.db();
  return {
    config: { storage, keys },
    async load(read) {
      const collections = EJSON.parse(read("mongodb.json.gz").toString()) as Record<string, object[]>;
      for (const [name, documents] of Object.entries(collections))
        if (documents.length > 0) await database.collection(name).insertMany(documents);
    },
    async save(write) {
      const collections: Record<string, object[]> = {};
      for (const { name } of await database.listCollections().toArray())
        collections[name] = await database.collection(name).find().toArray();
      write("mongodb.json.gz", Buffer.from(EJSON.stringify(collections)));
    },
    async close() {
      await client.close();
      await server.close();
    },
  };
}

/** Artifacts in Redis, the rest in SQLite. */
async function onRedis(folder: string): Promise<Ground> {
  const server = await openOwnRedis();
  const sqlite = await onSqlite(folder);
  const { client } = server;
  return {
    config: { ...sqlite.config, artifacts: `${server.url}?prefix=${PREFIX}` },
    async load(read) {
      await sqlite.load((name) => read(`redis-${name}`));
      const commands = JSON.parse(read("redis.json.gz").toString()) as string[][];
      for (const [command = "", ...words] of commands) await client.call(command, ...words);
    },
    async save(write) {
      await sqlite.save((name, content) => write(`redis-${name}`, content));
      const commands: string[][] = [];
      for (const key of (await client.keys("*")).toSorted()) {
        const type = await client.type(key);
        if (type === "string") commands.push(["SET", key, (await client.get(key)) ?? ""]);
        else if (type === "hash")
          commands.push(["HSET", key, ...Object.entries(await client.hgetall(key)).flat()]);
        else if (type === "set") commands.push(["SADD", key, ...(await client.smembers(key))]);
        else if (type === "zset") {
          const answer = (await client.call("ZRANGE", key, "0", "-1", "WITHSCORES")) as unknown[];
          const members = answer.flat().map(String);
          const pairs = members.flatMap((member, at) =>
            at % 2 === 0 ? [members[at + 1] ?? "", member] : [],
          );
          commands.push(["ZADD", key, ...pairs]);
        } else throw new TypeError(`a key of Redis is a ${type}`);
      }
      write("redis.json.gz", Buffer.from(JSON.stringify(commands)));
    },
    async close() {
      await server.close();
    },
  };
}

/** By the name of the storage; the first ones need no large server. */
export const GROUNDS: Readonly<Record<string, (folder: string) => Promise<Ground>>> = {
  sqlite: onSqlite,
  postgresql: onPostgres,
  redis: onRedis,
  mongodb: onMongo,
};

/** What a fixture is, beside its storages. */
export interface Facts {
  readonly version: string;
  readonly format: number;
  readonly storages: Readonly<Record<string, StorageFacts>>;
}

export interface StorageFacts {
  /** Milliseconds since the epoch, when everything was valid. */
  readonly made_at: number;
  /** The kinds of records that it has. */
  readonly kinds: readonly string[];
  /** What is valid: as `Held`, with the cookies of each browser. */
  readonly held: Readonly<Record<string, unknown>>;
}

/** The releases that have a fixture. */
export const FIXTURES: readonly string[] = readdirSync(FOLDER, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
);

export const factsOf = (version: string): Facts =>
  JSON.parse(readFileSync(join(FOLDER, version, "facts.json"), "utf8")) as Facts;

export const reader =
  (version: string) =>
  (name: string): Buffer =>
    gunzipSync(readFileSync(join(FOLDER, version, name)));

/** A clock that goes on from a moment. */
export function clockFrom(moment: number): Clock {
  const ahead = moment - Date.now();
  return { virtual: true, now: () => Date.now() + ahead };
}

/** The service writes these itself, and would trip over samples of them. */
const OF_SERVICE: ReadonlySet<string> = new Set([
  "service-key",
  "sealing-secrets",
  "signing-key",
  "signing-key-set",
  "search-words",
  "delivery",
  "payload",
  "lane",
  "receiver",
  "mail",
  "refused-mail",
  "seeded",
]);

/** The kinds of which a fixture has no record, with the reason. */
export const NOT_KEPT: Readonly<Record<string, string>> = {
  process: "it is forgotten three minutes after the process has stopped",
  "unfinished-copy": "no service starts on such a storage",
};

/** As authenticators make them. */
const credentialId = (sub: string): string => createHash("sha256").update(sub).digest("base64url");

/** An account with the factors and identities that the other samples are of: `storage check` removes those that no account lists. */
function withWays(record: RecordData): RecordData {
  const value = record.value as unknown as AccountRecord;
  if (record.kind === PASSKEY.name)
    return PASSKEY.record({ ...(record.value as unknown as StoredPasskey), id: credentialId(value.sub) });
  if (record.kind !== ACCOUNT.name || value.sub === undefined) return record;
  const { sub, ways } = value;
  const id = identityId({ issuer: "https://accounts.google.com", subject: sub });
  return ACCOUNT.record({
    ...value,
    ways: {
      ...ways,
      passkey: { user_handle: Buffer.alloc(32, 32).toString("base64url"), ids: [credentialId(sub)] },
      provider: { links: [{ id, provider: "google", linked_at: 1 }] },
    },
  });
}

/** A store that seals samples with the secret of the fixture, and leaves out those of the service. */
const sealing = (store: RecordStore): RecordStore => ({
  ...store,
  next: (counter, atLeast) => store.next(counter, atLeast),
  commit(change) {
    const sealer = createSealer([SECRET]);
    const put = (change.put ?? [])
      .filter(({ kind }) => !OF_SERVICE.has(kind))
      .map(withWays)
      .map((record) => {
        const { kind, key, value, expiresAt } = record;
        const found = { kind, key, value, version: "", expiresAt };
        return KINDS.get(kind).resealed(found, (context, text) => sealer.seal(context, text)) ?? record;
      });
    return store.commit({ ...change, put });
  },
});

/** Samples of the other kinds. */
async function fillSamples(config: Config, now: number): Promise<void> {
  await withStores(config, async (stores) => {
    const storage = sealing(stores.storage);
    const artifacts = stores.artifacts === stores.storage ? storage : sealing(stores.artifacts);
    await fillWith({ storage, artifacts }, 6, now);
    const written = { id: randomUUID(), deadline: now + 30_000 };
    const probe = WRITE_PROBE.record({ at: now });
    // The samples are not in the index of the search.
    await storage.commit({ ...written, put: [probe, SEARCH_INDEX.record({ complete: false })] });
    if (artifacts !== storage) await artifacts.commit({ ...written, put: [probe] });
  });
}

/** The settings under which a fixture is made and opened. @param url where notifications go. */
export const settingsOf = (config: Config, url: string, clock?: Clock): Config => ({
  ...config,
  ...(clock !== undefined && { clock }),
  events: {
    receivers: { crm: { url, signing_secret: SIGNING_SECRET, types: ["account.signed_in"] } },
  },
});

/** Who gets the mail that waits. */
const WAITING: typeof ADA = ADA;

/** A mail server that answers with an error, once it is told which. */
class RefusingMails extends Mails {
  answer: "refused" | "connection" | undefined;
  /** How many mails it has refused. */
  asked = 0;

  override async send(message: MailMessage): Promise<void> {
    if (this.answer === undefined) return super.send(message);
    this.asked += 1;
    throw new MailRefused(this.answer);
  }
}

async function askForReset({ running }: Stage, username: string): Promise<void> {
  const visitor = new JsonVisitor();
  const { body: login } = await visitor.open(clientAt(running, "openid", NEWS).authorizeUrl());
  const { body: asked } = await visitor.act(login, "forgot-password");
  await visitor.act(asked, "submit", { username });
}

async function make(ground: Ground, folder: string): Promise<StorageFacts> {
  const now = Date.now();
  await fillSamples(ground.config, now);
  const settings = settingsOf(ground.config, "http://127.0.0.1:9/");
  const mails = new RefusingMails();
  const stage: Stage = await startStage(settings, mails, PORT);
  // A notification waits, and a mail; another one was refused.
  await stage.running.service.notifications.pause(RECEIVER, {});
  const held = await holdEverything(stage);
  for (const [code, { username }] of [
    ["refused", EVE],
    ["connection", WAITING],
  ] as const) {
    mails.answer = code;
    const { asked } = mails;
    await askForReset(stage, username);
    while (mails.asked === asked) await pause(10);
  }
  await stage.running.close();
  // Samples are not in every list that the service keeps.
  const file = join(folder, "sign-in.json");
  writeFileSync(file, JSON.stringify(ground.config), { mode: 0o600 });
  const { code, out } = await here(["storage", "check", "--repair", "--config", file]);
  if (code !== 0) throw new Error(out);
  const kinds = await withStores(ground.config, async (stores) => {
    const found: string[] = [];
    for (const kind of KINDS.all) {
      const store = kind.declaration.store === "artifacts" ? stores.artifacts : stores.storage;
      if ((await store.scan(kind.name, undefined, 10)).records.length > 0) found.push(kind.name);
    }
    return found.toSorted();
  });
  return { made_at: Date.now(), kinds, held: serialize(held) };
}

const cookies = (browser: Held["session"]) => browser.jar.all();

/** Browsers become their cookies. */
function serialize(held: Held): Readonly<Record<string, unknown>> {
  return {
    ...held,
    session: cookies(held.session),
    running: cookies(held.running),
    form: held.running.url.href,
    remembered: cookies(held.remembered.browser),
  };
}

/** Makes the fixture of this version. @param scratch a folder for files that are not kept. */
export async function makeFixture(scratch: string): Promise<void> {
  const { since, format } = currentFormat();
  const folder = join(FOLDER, since);
  mkdirSync(folder, { recursive: true });
  const storages: Record<string, StorageFacts> = {};
  for (const [name, open] of Object.entries(GROUNDS)) {
    const place = join(scratch, name);
    mkdirSync(place, { recursive: true });
    const ground = await open(place);
    storages[name] = await make(ground, place);
    await ground.save((file, content) => writeFileSync(join(folder, file), gzipSync(content, { level: 9 })));
    await ground.close();
  }
  const facts: Facts = { version: since, format, storages };
  writeFileSync(join(folder, "facts.json"), `${JSON.stringify(facts, undefined, 2)}\n`);
}
