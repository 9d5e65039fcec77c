/**
 * Where the services of the tests keep things: `TEST_STORAGE` is one of `sqlite` (the default), `sqlite+redis`,
 * `postgresql`, `mongodb` and `mongodb+redis`. The servers are started when the first service needs them, once for a test file.
 */
import { randomBytes } from "node:crypto";
import type { RecordStore } from "../../adapters/record-store.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import { atVeryEnd } from "../closing.ts";
import type { MongoServer } from "./mongodb.ts";
import { openOwnPostgres, type OwnPostgres } from "./postgresql.ts";
import { openOwnRedis, type OwnRedis } from "./redis.ts";

/** The store with some of its calls replaced. A store may be an object of a class, whose methods a spread would lose. */
export function withCalls(store: RecordStore, calls: Partial<RecordStore>): RecordStore {
  return new Proxy(store, {
    get(target, member) {
      const value: unknown = Reflect.get(member in calls ? calls : target, member);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

/** The keys of the configuration that say where things are kept. */
export interface StorageConfig extends Pick<SignInServiceConfig, "artifacts" | "keys"> {
  readonly storage: string;
}

const COMBINATIONS = ["sqlite", "sqlite+redis", "postgresql", "mongodb", "mongodb+redis"];

function chosen(): readonly string[] {
  const name = process.env["TEST_STORAGE"] ?? "sqlite";
  if (!COMBINATIONS.includes(name)) throw new Error(`TEST_STORAGE: one of ${COMBINATIONS.join(", ")}`);
  return name.split("+");
}

/** The backends of this run. */
export const BACKENDS: readonly string[] = chosen();

interface Servers {
  redis?: Promise<OwnRedis>;
  mongo?: Promise<MongoServer>;
  postgres?: Promise<OwnPostgres>;
}

const servers: Servers = {};

atVeryEnd(async () => {
  await (await servers.redis)?.close();
  await (await servers.mongo)?.close();
  await (await servers.postgres)?.close();
});

async function newMongoDatabase(): Promise<string> {
  servers.mongo ??= import("./mongodb.ts").then(({ openMongoServer }) => openMongoServer());
  return (await servers.mongo).nextUrl();
}

async function newPostgresDatabase(): Promise<string> {
  servers.postgres ??= openOwnPostgres();
  return (await servers.postgres).newDatabase();
}

async function newRedisPrefix(): Promise<string> {
  servers.redis ??= openOwnRedis();
  return `${(await servers.redis).url}?prefix=${randomBytes(6).toString("hex")}:`;
}

/** A storage with nothing in it. */
export async function newStorage(): Promise<StorageConfig> {
  const artifacts = BACKENDS.includes("redis") ? { artifacts: await newRedisPrefix() } : {};
  if (BACKENDS.includes("sqlite")) return { storage: "sqlite::memory:", ...artifacts };
  const keys = { secrets: [randomBytes(32).toString("base64")] };
  const storage = await (BACKENDS.includes("mongodb") ? newMongoDatabase() : newPostgresDatabase());
  return { storage, keys, ...artifacts };
}
