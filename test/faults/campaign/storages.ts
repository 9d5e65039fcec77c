/** The storage of the processes of a round, and its servers, which fail as the processes do. */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { here } from "../../cli/here.ts";
import { startOwnMongo } from "../../servers/mongodb.ts";
import { openOwnPostgres } from "../../servers/postgresql.ts";
import { openPostgresPair } from "../../servers/postgresql-pair.ts";
import { REDIS_SERVERS } from "./redis-servers.ts";
import type { Loss, StorageServer } from "./server.ts";

export const STORAGES = [
  "sqlite",
  "postgresql",
  "postgresql+standby",
  "postgresql+late-standby",
  "mongodb",
  "sqlite+redis",
  "sqlite+sentinel",
  "sqlite+cluster",
  "mongodb+redis",
] as const;
export type StorageKind = (typeof STORAGES)[number];

export interface Place {
  readonly config: Pick<SignInServiceConfig, "artifacts" | "deployments" | "keys"> & {
    readonly storage: string;
  };
  readonly servers: readonly StorageServer[];
  readonly losses: readonly Loss[];
  close(): Promise<void>;
}

const portOf = (url: string): number => Number(new URL(url).port);

/** Connections of the pool, and the one that listens. */
const POSTGRESQL = 11;
/** Connections of the driver's pool, and two with which it watches the server. */
const MONGODB = 102;
/** Of a command after a promotion. */
const ATTEMPTS = 20;
const AGAIN_MS = 250;
/** How far the standby is behind when the primary is lost. */
const BEHIND_MS = 2_000;

const DEPLOYMENTS = { oauth2: { url: "http://127.0.0.1:3999" } };

type Part = Pick<Place, "servers" | "close"> & {
  readonly url: string;
  readonly losses?: readonly Loss[];
};

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

/** Runs a command until it succeeds: right after a promotion, the storage may not answer. */
async function command(words: readonly string[]): Promise<void> {
  for (let attempts = 1; ; attempts += 1) {
    const { code, err } = await here(words);
    if (code === 0) return;
    if (attempts === ATTEMPTS) throw new Error(`${words.join(" ")}: ${err}`);
    await pause(AGAIN_MS);
  }
}

/**
 * After each loss of the primary, the standby is promoted, and a new one follows it. With synchronous replication, nothing is lost.
 * @param late the configuration file for `storage promoted`. With it, replication is asynchronous and the standby lacks the last two seconds.
 */
async function openReplicated(late: string | undefined): Promise<Part> {
  const pair = await openPostgresPair();
  const isSynchronous = late === undefined;
  await pair.setSynchronous(isSynchronous);
  const losses: Loss[] = [];
  let lost = { from: 0, to: 0 };
  const server: StorageServer = {
    get port() {
      return pair.primary.port;
    },
    // Hosts are asked with a connection of their own.
    most: POSTGRESQL + 1,
    async kill() {
      const from = Date.now();
      if (!isSynchronous) {
        await pair.cutOff();
        await pause(BEHIND_MS);
      }
      await pair.primary.kill();
      lost = { from, to: Date.now() };
    },
    async start() {
      pair.promote();
      if (late !== undefined) {
        const promoted = Date.now();
        await command(["storage", "promoted", "--yes", "--config", late]);
        losses.push({ ...lost, promoted, renewed: Date.now() });
        await command(["deliveries", "resume", "--config", late]);
      }
      await pair.rejoin();
      await pair.setSynchronous(isSynchronous);
    },
    pause: () => pair.primary.pause(),
    resume: () => pair.primary.resume(),
  };
  return { url: await pair.newDatabase(), servers: [server], losses, close: () => pair.close() };
}

/** @param folder where files are. */
export async function openPlace(kind: StorageKind, folder: string): Promise<Place> {
  const [name, beside = ""] = kind.split("+");
  const file = join(folder, "sign-in.json");
  const isReplicated = beside.endsWith("standby");
  const main = isReplicated
    ? await openReplicated(beside === "late-standby" ? file : undefined)
    : await openMain(name, folder);
  const artifacts = await REDIS_SERVERS[beside]?.("artifacts");
  const config = {
    deployments: DEPLOYMENTS,
    storage: main.url,
    ...(artifacts && { artifacts: artifacts.url }),
    keys: { secrets: [randomBytes(32).toString("base64")] },
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  return {
    config,
    servers: [...main.servers, ...(artifacts ? [artifacts.server] : [])],
    losses: main.losses ?? [],
    async close() {
      await main.close();
      await artifacts?.close();
    },
  };
}
