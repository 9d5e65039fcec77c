/** The storage of the processes of a round, and its servers, which fail as the processes do. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { startOwnMongo } from "../../servers/mongodb.ts";
import { openOwnPostgres } from "../../servers/postgresql.ts";
import { openPostgresPair } from "../../servers/postgresql-pair.ts";
import { openOwnRedis } from "../../servers/redis.ts";

export const STORAGES = [
  "sqlite",
  "postgresql",
  "postgresql+standby",
  "mongodb",
  "sqlite+redis",
  "mongodb+redis",
] as const;
export type StorageKind = (typeof STORAGES)[number];

/** A server, and how many connections one process may have to it. */
export interface Connected {
  readonly port: number;
  readonly most: number;
}

/** A server that never loses what it has acknowledged. */
export interface StorageServer extends Connected {
  /** SIGKILL. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** SIGSTOP, and SIGCONT. */
  pause(): void;
  resume(): void;
}

export interface Place {
  readonly config: Pick<SignInServiceConfig, "artifacts" | "keys"> & { readonly storage: string };
  readonly servers: readonly StorageServer[];
  close(): Promise<void>;
}

const portOf = (url: string): number => Number(new URL(url).port);

/** Connections of the pool, and the one that listens. */
const POSTGRESQL = 11;
/** Connections of the driver's pool, and two with which it watches the server. */
const MONGODB = 102;
const ARTIFACTS = 1;

type Part = Pick<Place, "servers" | "close"> & { readonly url: string };

async function openMain(name: string | undefined, folder: string): Promise<Part> {
  if (name === "postgresql") {
    const postgres = await openOwnPostgres();
    const url = await postgres.newDatabase();
    const server = { ...postgres, port: portOf(url), most: POSTGRESQL };
    return { url, servers: [server], close: () => postgres.close() };
  }
  if (name === "mongodb") {
    const mongo = await startOwnMongo({ durable: true });
    const url = mongo.nextUrl();
    const server = { ...mongo, port: portOf(url), most: MONGODB };
    return { url, servers: [server], close: () => mongo.close() };
  }
  return { url: `sqlite:${join(folder, "sign-in.db")}`, servers: [], close: async () => undefined };
}

/** With synchronous replication. After each loss of the primary, the standby is promoted, and a new one follows it. */
async function openReplicated(): Promise<Part> {
  const pair = await openPostgresPair();
  await pair.setSynchronous(true);
  const server: StorageServer = {
    get port() {
      return pair.primary.port;
    },
    // Hosts are asked with a connection of their own.
    most: POSTGRESQL + 1,
    kill: () => pair.primary.kill(),
    async start() {
      pair.promote();
      await pair.rejoin();
      await pair.setSynchronous(true);
    },
    pause: () => pair.primary.pause(),
    resume: () => pair.primary.resume(),
  };
  return { url: await pair.newDatabase(), servers: [server], close: () => pair.close() };
}

async function openArtifacts(): Promise<Part> {
  const redis = await openOwnRedis(["--appendonly", "yes", "--appendfsync", "always"]);
  const server = { ...redis, kill: () => redis.stop(), port: portOf(redis.url), most: ARTIFACTS };
  return { url: redis.url, servers: [server], close: () => redis.close() };
}

/** @param folder where files are. */
export async function openPlace(kind: StorageKind, folder: string): Promise<Place> {
  const [name, beside] = kind.split("+");
  const main = beside === "standby" ? await openReplicated() : await openMain(name, folder);
  const artifacts = beside === "redis" ? await openArtifacts() : undefined;
  return {
    config: {
      storage: main.url,
      ...(artifacts && { artifacts: artifacts.url }),
      keys: { secrets: [randomBytes(32).toString("base64")] },
    },
    servers: [...main.servers, ...(artifacts?.servers ?? [])],
    async close() {
      await main.close();
      await artifacts?.close();
    },
  };
}
