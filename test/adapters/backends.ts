/**
 * The backends for tests that run on each of them: a server of the test's own, and stores that are opened by address.
 */
import { randomBytes } from "node:crypto";
import { startOwnMongo } from "../servers/mongodb.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { DatabaseFiles } from "./sqlite/database-files.ts";

/** The server or folder that stores are on. */
export interface Ground {
  /** The address of an empty store. */
  newAddress(): Promise<string>;
  close(): Promise<void>;
}

/** A server that never loses what it has acknowledged. */
export interface Server extends Ground {
  /** Kills it, as if its machine lost power. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Suspends all its threads: connections stay open, and data that is sent to it waits. */
  pause(): void;
  resume(): void;
}

export interface Backend<Kind extends Ground> {
  readonly name: string;
  readonly start: () => Promise<Kind>;
}

const POSTGRESQL: Backend<Server> = { name: "PostgreSQL", start: openPostgresServer };
const REDIS: Backend<Server> = { name: "Redis", start: openRedisServer };

/** The backends whose servers tests may stop. */
export const SERVERS: readonly Backend<Server>[] = [
  POSTGRESQL,
  { name: "MongoDB", start: () => openMongoServer(true) },
  REDIS,
];

/** The backends that several processes can have open. */
export const BACKENDS: readonly Backend<Ground>[] = [
  { name: "an SQLite file", start: openFolder },
  POSTGRESQL,
  // Not durable, which saves time: these servers are never stopped.
  { name: "MongoDB", start: () => openMongoServer(false) },
  REDIS,
];

async function openFolder(): Promise<Ground> {
  const files = new DatabaseFiles();
  return { newAddress: () => Promise.resolve(`sqlite:${files.next()}`), close: () => Promise.resolve() };
}

async function openPostgresServer(): Promise<Server> {
  const server = await openOwnPostgres();
  return { ...server, newAddress: () => server.newDatabase() };
}

async function openMongoServer(durable: boolean): Promise<Server> {
  const server = await startOwnMongo({ durable });
  return { ...server, newAddress: () => Promise.resolve(server.nextUrl()) };
}

async function openRedisServer(): Promise<Server> {
  const server = await openOwnRedis(["--appendonly", "yes", "--appendfsync", "always"]);
  return {
    ...server,
    newAddress: () => Promise.resolve(`${server.url}?prefix=${randomBytes(6).toString("hex")}:`),
    kill: () => server.stop(),
    start: () => server.start(),
  };
}

/** The same address through a wire on the loopback. */
export function through(port: number, address: string): string {
  const url = new URL(address);
  url.port = String(port);
  return url.href;
}
