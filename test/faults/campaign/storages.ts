/** The storage of the processes of a round, and its servers, which fail as the processes do. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { startOwnMongo } from "../../servers/mongodb.ts";
import { openOwnPostgres } from "../../servers/postgresql.ts";
import { openPostgresPair } from "../../servers/postgresql-pair.ts";
import { openOwnRedis } from "../../servers/redis.ts";
import { openCluster, openSentinels, type RedisNode } from "../../servers/redis-group.ts";

export const STORAGES = [
  "sqlite",
  "postgresql",
  "postgresql+standby",
  "mongodb",
  "sqlite+redis",
  "sqlite+sentinel",
  "sqlite+cluster",
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
/** Where the primary is looked for, it is asked with connections of their own. */
const FOLLOWING = 3;

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

async function openRedisServer(): Promise<Part> {
  const redis = await openOwnRedis(["--appendonly", "yes", "--appendfsync", "always"]);
  const server = { ...redis, kill: () => redis.stop(), port: portOf(redis.url), most: ARTIFACTS };
  return { url: redis.url, servers: [server], close: () => redis.close() };
}

/** Several servers of which another becomes the primary when it is lost; each write is on two of them. */
interface Group {
  readonly url: string;
  readonly nodes: readonly RedisNode[];
  /** The primary of the artifacts, as this node sees it. */
  readonly primary: (asked: RedisNode) => Promise<RedisNode>;
  /** Begins to follow another primary. */
  readonly follow: (lost: RedisNode, primary: RedisNode) => Promise<unknown>;
  /** Starts one that was killed, as a replica. */
  readonly restart: (lost: RedisNode, primary: RedisNode) => Promise<void>;
  readonly close: () => Promise<void>;
}

function replaceable({ url, nodes, primary, follow, restart, close }: Group): Part {
  let current = nodes[0]!;
  const next = async (lost: RedisNode): Promise<RedisNode> => {
    const other = nodes.find((node) => node !== lost)!;
    for (;;) {
      const found = await primary(other);
      if (found !== lost) return found;
      await pause(50);
    }
  };
  const server: StorageServer = {
    get port() {
      return current.port;
    },
    most: ARTIFACTS + FOLLOWING,
    // Only when a replica can take over: nothing is promised for the loss of both.
    async kill() {
      current = await primary(nodes[0]!);
      while (!/^slave0:.*state=online/mu.test(await current.client.info("replication"))) await pause(50);
      await current.kill();
    },
    async start() {
      const lost = current;
      current = await next(lost);
      await restart(lost, current);
    },
    pause: () => current.pause(),
    resume() {
      const lost = current;
      lost.resume();
      void primary(nodes.find((node) => node !== lost)!).then((now) => now !== lost && follow(lost, now));
    },
  };
  return { url, servers: [server], close };
}

async function openSentinelArtifacts(): Promise<Part> {
  const group = await openSentinels();
  return replaceable({
    ...group,
    url: `${group.url}&replicas=1`,
    primary: () => group.primary(),
    follow: ({ client }, { port }) => client.replicaof("127.0.0.1", port),
    restart: (lost, { port }) => lost.start(["--replicaof", `127.0.0.1 ${port}`]),
  });
}

async function openClusterArtifacts(): Promise<Part> {
  const group = await openCluster();
  let slot: number | undefined;
  const slotOf = async (): Promise<number> => {
    const keys = await Promise.all(group.nodes.map(({ client }) => client.keys("sign-in:*")));
    return group.nodes[0]!.client.cluster("KEYSLOT", keys.flat()[0] ?? "");
  };
  return replaceable({
    ...group,
    url: `${group.url}?replicas=1`,
    primary: async ({ client }) => group.ofSlot((slot ??= await slotOf()), client),
    // Nodes of a cluster do so themselves.
    follow: async () => undefined,
    restart: (lost) => lost.start(),
  });
}

/** What the artifacts are on, by what stands behind the plus. */
const ARTIFACT_SERVERS: Readonly<Record<string, () => Promise<Part>>> = {
  redis: openRedisServer,
  sentinel: openSentinelArtifacts,
  cluster: openClusterArtifacts,
};

/** @param folder where files are. */
export async function openPlace(kind: StorageKind, folder: string): Promise<Place> {
  const [name, beside = ""] = kind.split("+");
  const main = beside === "standby" ? await openReplicated() : await openMain(name, folder);
  const artifacts = await ARTIFACT_SERVERS[beside]?.();
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
