/** Where the processes of a round keep things, and the servers behind that, which fail as the processes do. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { startOwnMongo } from "../../servers/mongodb-server.ts";
import { openOwnPostgres } from "../../servers/postgresql.ts";
import { openOwnRedis } from "../../servers/redis.ts";

export const STORAGES = ["sqlite", "postgresql", "mongodb", "sqlite+redis", "mongodb+redis"] as const;
export type StorageKind = (typeof STORAGES)[number];

/** A server that keeps what it has acknowledged. */
export interface StorageServer {
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

type Part = Pick<Place, "servers" | "close"> & { readonly url: string };

async function openMain(name: string | undefined, folder: string): Promise<Part> {
  if (name === "postgresql") {
    const postgres = await openOwnPostgres();
    return { url: await postgres.newDatabase(), servers: [postgres], close: () => postgres.close() };
  }
  if (name === "mongodb") {
    const mongo = await startOwnMongo({ durable: true });
    return { url: mongo.nextUrl(), servers: [mongo], close: () => mongo.close() };
  }
  return { url: `sqlite:${join(folder, "sign-in.db")}`, servers: [], close: async () => undefined };
}

async function openArtifacts(): Promise<Part> {
  const redis = await openOwnRedis(["--appendonly", "yes", "--appendfsync", "always"]);
  return { url: redis.url, servers: [{ ...redis, kill: () => redis.stop() }], close: () => redis.close() };
}

/** @param folder where files are. */
export async function openPlace(kind: StorageKind, folder: string): Promise<Place> {
  const [name, away] = kind.split("+");
  const main = await openMain(name, folder);
  const artifacts = away === undefined ? undefined : await openArtifacts();
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
