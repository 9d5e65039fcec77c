/** The connection to a MongoDB: how it is opened, and how the stores ask and write through it. */
import { setTimeout as pause } from "node:timers/promises";
import type { ClientSession, Db, Document, MongoClient, MongoClientOptions } from "mongodb";
import type { Clock } from "../clock.ts";
import { ConfigurationError, StorageUnavailable } from "../errors.ts";
import { within } from "../within.ts";
import { patchDriver } from "./driver-patch.ts";
import { asFault, closedFault, DEFAULT_WAIT, isRefused, lateFault } from "./faults.ts";
import { createTransactions } from "./transaction.ts";

/** Milliseconds in which the server has to answer at start-up. */
const PATIENCE = 15_000;
const PAUSE = 200;

const DEFAULT_DATABASE = "sign-in";

/** Stronger than what the address says. */
const CONCERNS: MongoClientOptions = {
  readPreference: "primary",
  readConcern: { level: "majority" },
  writeConcern: { w: "majority" },
  retryReads: true,
  retryWrites: true,
};

/**
 * Milliseconds for each stage of an operation. A server that does not answer is noticed by the looks that the driver
 * takes at it, so that what comes later fails at once or goes to the next primary.
 */
const TIMES: MongoClientOptions = {
  serverSelectionTimeoutMS: 3000,
  waitQueueTimeoutMS: 3000,
  connectTimeoutMS: 2000,
  socketTimeoutMS: DEFAULT_WAIT,
  heartbeatFrequencyMS: 2000,
};

/** What a server says of itself; `localTime` is its clock. */
interface Hello {
  readonly localTime?: unknown;
  readonly isWritablePrimary?: unknown;
}

/** Follows the clock of the primary: what is sent to it with a deadline is refused when it is carried out too late. */
export class ServerClock {
  /** Milliseconds since the epoch there, when `performance.now()` was zero here. */
  #origin = Date.now() - performance.now();

  /** @param answer to a `hello` that has just come. */
  heard(answer: Hello): void {
    const { localTime, isWritablePrimary } = answer;
    if (isWritablePrimary !== true || !(localTime instanceof Date)) return;
    this.#origin = localTime.getTime() - performance.now();
  }

  /** Milliseconds since the epoch there, so many milliseconds from now. */
  in(milliseconds: number): number {
    return Math.ceil(this.#origin + performance.now() + milliseconds);
  }
}

export interface OpenedClient {
  readonly client: MongoClient;
  readonly db: Db;
  readonly serverClock: ServerClock;
}

/** The name of the database after the hosts; the address was checked with the configuration. */
function databaseOf(url: string): string {
  const name = /^[^:]+:\/\/[^/?]+\/([^/?]+)/u.exec(url)?.[1];
  return name === undefined ? DEFAULT_DATABASE : decodeURIComponent(name);
}

/** The hosts, without anything else of the address. */
function hostsOf({ options }: MongoClient): string {
  return options.srvHost ?? options.hosts.map(String).join(", ");
}

function member(value: unknown, name: string): unknown {
  return Reflect.get(Object(value), name);
}

/** What the driver knows of each server that it could not use. */
function serversIn(error: unknown): unknown[] {
  const servers = member(member(error, "reason"), "servers");
  return servers instanceof Map ? [...servers.values()] : [];
}

/** Whether the error says that a server waits to be made a replica set. */
function isUninitiated(error: unknown): boolean {
  if (error instanceof StorageUnavailable) return true;
  return serversIn(error).some((server) => member(server, "type") === "RSGhost");
}

/** What the system says of the connections, such as `ECONNREFUSED`, or that a certificate is not trusted. */
function connectionCodes(error: unknown): string {
  const codes = serversIn(error).map((server) => member(member(member(server, "error"), "cause"), "code"));
  const found = new Set(codes.filter((code) => typeof code === "string"));
  return [...found].map((code) => `${code}, `).join("");
}

/** One try. A client that could not connect at first never can, so each try has its own. */
async function tryOnce(make: () => MongoClient): Promise<{ client: MongoClient; answer: Document }> {
  const client = make();
  try {
    const answer = await client.db("admin").command({ hello: 1 });
    if (answer["isreplicaset"] === true) throw new StorageUnavailable("MongoDB is not a replica set yet");
    return { client, answer };
  } catch (error) {
    await client.close();
    throw error;
  }
}

/** Tries until there is an answer. */
async function untilConnected(
  make: () => MongoClient,
  where: string,
  patience: number,
): Promise<{ client: MongoClient; answer: Document }> {
  const end = performance.now() + patience;
  for (;;) {
    try {
      return await tryOnce(make);
    } catch (error) {
      if (isRefused(error)) {
        throw new ConfigurationError([
          `config.storage: MongoDB at ${where} refuses the user or the password`,
        ]);
      }
      if (performance.now() >= end) {
        const seconds = Math.round(patience / 1000);
        const why = isUninitiated(error)
          ? "is not a replica set yet: run rs.initiate() in mongosh"
          : "does not answer";
        const codes = connectionCodes(error);
        throw new StorageUnavailable(`MongoDB at ${where} ${why} (${codes}waited ${seconds} seconds)`);
      }
    }
    await pause(PAUSE);
  }
}

/** @throws ConfigurationError when the server that said hello has no transactions. */
export function requireTransactions(answer: Document, where: string): void {
  const isSharded = answer["msg"] === "isdbgrid";
  if (isSharded || typeof answer["setName"] === "string") return;
  throw new ConfigurationError([
    `config.storage: MongoDB at ${where} runs standalone and so has no transactions; ` +
      "start mongod with --replSet rs0 and run rs.initiate() in mongosh once to make it a replica set of one node",
  ]);
}

/** How clients are made. @throws ConfigurationError when the driver can't read the address. */
async function createFactory(
  url: string,
  times: MongoClientOptions,
): Promise<{ make: () => MongoClient; where: string }> {
  const { MongoClient } = await import("mongodb");
  await patchDriver();
  const make = () => new MongoClient(url, { appName: "sign-in-service", ...CONCERNS, ...times });
  try {
    return { make, where: hostsOf(make()) };
  } catch {
    // What the driver says may repeat the password.
    throw new ConfigurationError([
      "config.storage: an option of this MongoDB address is not known or has a wrong value",
    ]);
  }
}

/** How a client is opened. */
export interface ClientTerms {
  /** Milliseconds in which the server has to answer. Default 15000. */
  readonly patience?: number;
  /** Whether an operation may take as long as it takes: to make indexes. Default `false`. */
  readonly isPatient?: boolean;
}

/** @throws StorageUnavailable, ConfigurationError */
export async function openClient(
  url: string,
  { patience = PATIENCE, isPatient = false }: ClientTerms = {},
): Promise<OpenedClient> {
  const times = isPatient ? { ...TIMES, socketTimeoutMS: 0 } : TIMES;
  const { make, where } = await createFactory(url, times);
  const { client, answer } = await untilConnected(make, where, patience);
  try {
    requireTransactions(answer, where);
    const serverClock = new ServerClock();
    serverClock.heard(answer);
    client.on("serverHeartbeatSucceeded", ({ reply }) => serverClock.heard(reply));
    return { client, db: client.db(databaseOf(url)), serverClock };
  } catch (error) {
    await client.close();
    throw asFault(error);
  }
}

export interface Connection {
  readonly clock: Clock;
  /** Reads go to the primary and see what a majority has; writes are acknowledged by a majority. */
  readonly db: Db;
  /** Milliseconds since the epoch on the primary's clock, so many milliseconds from now. */
  serverTimeIn(milliseconds: number): number;
  /**
   * One operation outside a transaction. The driver repeats it once after a fault of the network.
   * @param wait milliseconds after which it is given up; default 4500.
   * @throws StorageUnavailable for every error of the driver, and at the end of `wait`.
   */
  run<T>(work: () => Promise<T>, wait?: number): Promise<T>;
  /**
   * Runs `work` in a transaction, again and again while it meets others. It sees one moment of the database and its
   * own writes; what it throws undoes them, and so does its own `abortTransaction`. All its operations must be given
   * the session, one after the other.
   * @param wait milliseconds after which it is given up and not committed any more; default 4500.
   * @throws StorageUnavailable as `run`; then it may be committed only if that was under way.
   */
  inTransaction<T>(work: (session: ClientSession) => Promise<T>, wait?: number): Promise<T>;
  /** Lets what was begun finish, then closes; from the call on everything else is refused. */
  close(): Promise<void>;
}

/** Gives `work` up at the end of `wait`. */
async function answerOf<T>(wait: number, work: Promise<T>): Promise<T> {
  try {
    return await within(wait, work, lateFault);
  } catch (error) {
    throw asFault(error);
  }
}

/** Work that is under way, and the end of it all. */
function createGate(client: MongoClient): Pick<Connection, "close"> & {
  pass<T>(wait: number, begin: () => Promise<T>): Promise<T>;
} {
  const running = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  async function finish(): Promise<void> {
    await Promise.allSettled(running);
    await client.close();
  }

  return {
    pass(wait, begin) {
      if (closing !== undefined) return Promise.reject(closedFault());
      const answer = answerOf(wait, begin());
      const forget = (): void => void running.delete(answer);
      running.add(answer);
      answer.then(forget, forget);
      return answer;
    },
    close() {
      closing ??= finish();
      return closing;
    },
  };
}

/**
 * Opens the connection; does not make collections.
 * @throws StorageUnavailable when the server does not answer within 15 seconds.
 * @throws ConfigurationError when the address is wrong, the user is refused, or the server has no transactions.
 */
export async function connect(url: string, clock: Clock, terms: ClientTerms = {}): Promise<Connection> {
  const { client, db, serverClock } = await openClient(url, terms);
  const gate = createGate(client);
  const transactions = createTransactions(client);
  return {
    clock,
    db,
    serverTimeIn: (milliseconds) => serverClock.in(milliseconds),
    run: (work, wait = DEFAULT_WAIT) => gate.pass(wait, work),
    inTransaction: (work, wait = DEFAULT_WAIT) => gate.pass(wait, () => transactions.run(work, wait)),
    close() {
      transactions.stop();
      return gate.close();
    },
  };
}
