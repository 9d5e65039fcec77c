/** The backends as tests see them that run on each: a server of the test's own, and stores that are opened by an address. */
import { randomBytes } from "node:crypto";
import { startOwnMongo } from "../servers/mongodb.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { DatabaseFiles } from "./sqlite/database-files.ts";

/** What stores are on. */
export interface Ground {
  /** The address of a store with nothing in it. */
  newAddress(): Promise<string>;
  close(): Promise<void>;
}

/** A server that keeps what it has acknowledged. */
export interface Server extends Ground {
  /** Ends it as a machine that loses power. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops all its threads where they are: connections stay, and what is sent waits there. */
  pause(): void;
  resume(): void;
}

export interface Backend<Kind extends Ground> {
  readonly name: string;
  readonly start: () => Promise<Kind>;
}

const POSTGRESQL: Backend<Server> = { name: "PostgreSQL", start: openPostgresServer };
const REDIS: Backend<Server> = { name: "Redis", start: openRedisServer };

/** Those whose servers tests may stop. */
export const SERVERS: readonly Backend<Server>[] = [
  POSTGRESQL,
  { name: "MongoDB", start: () => openMongoServer(true) },
  REDIS,
];

/** All that several processes can have open. */
export const BACKENDS: readonly Backend<Ground>[] = [
  { name: "an SQLite file", start: openFolder },
  POSTGRESQL,
  // What lasts costs time there, and these servers are not stopped.
  { name: "MongoDB", start: () => openMongoServer(false) },
  REDIS,
];

async function openFolder(): Promise<Ground> {
  const files = new DatabaseFiles();
  await files.create();
  return { newAddress: () => Promise.resolve(`sqlite:${files.next()}`), close: () => files.remove() };
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
