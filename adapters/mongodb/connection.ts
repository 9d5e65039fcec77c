/** The connection to MongoDB: how clients are opened, replaced and closed, and how the stores read and write through it. */
import { setTimeout as pause } from "node:timers/promises";
import type { ClientSession, Db, Document, MongoClient, MongoClientOptions } from "mongodb";
import type { Clock } from "../../core/clock.ts";
import { ConfigurationError, StorageUnavailable } from "../../core/errors.ts";
import { withTimeout } from "../../core/with-timeout.ts";
import { asFault, closedFault, DEFAULT_TIMEOUT_MS, isRefused, lateFault } from "./faults.ts";
import { Transactions } from "./transactions.ts";

/** After this, start-up says that the server does not answer. */
const START_TIMEOUT_MS = 5_000;
/** How long the driver looks for a primary. */
const SELECTION_TIMEOUT_MS = 3_000;
/** Pause between attempts to connect at start-up. */
const RETRY_DELAY_MS = 200;
/** For `MongoClient.close()`. */
const CLOSE_TIMEOUT_MS = 2000;
/** A call that is still running this long after its time-out counts as hanging. */
const HANGING_AFTER_MS = 10_000;

const DEFAULT_DATABASE = "sign-in";

/**
 * What is acknowledged survives an election, and what is read does. These override the options of the address; what
 * the driver would put above them is refused. Transactions inherit them.
 */
const CONCERNS: MongoClientOptions = {
  readPreference: "primary",
  readPreferenceTags: [],
  readConcernLevel: "majority",
  writeConcern: { w: "majority", journal: true },
  retryReads: true,
  retryWrites: true,
};

/** Whether an option of the address, such as `journal`, has got through. */
function hasOtherConcerns({ options }: MongoClient): boolean {
  const { writeConcern, readConcern, readPreference, retryReads, retryWrites } = options;
  const isLimited = (writeConcern?.wtimeoutMS ?? 0) > 0;
  const asWritten = writeConcern?.w === "majority" && writeConcern.journal === true && !isLimited;
  const asRead = readConcern.level === "majority" && readPreference.mode === "primary";
  return !asWritten || !asRead || !retryReads || !retryWrites;
}

/**
 * Milliseconds for each stage of an operation. The driver's heartbeat notices a server that does not answer; later
 * operations fail immediately or go to the next primary.
 */
const TIMES: MongoClientOptions = {
  serverSelectionTimeoutMS: SELECTION_TIMEOUT_MS,
  waitQueueTimeoutMS: 3000,
  connectTimeoutMS: 2000,
  socketTimeoutMS: DEFAULT_TIMEOUT_MS,
  heartbeatFrequencyMS: 2000,
};

/** A server's answer to `hello`. */
interface Hello {
  readonly localTime?: unknown;
  readonly isWritablePrimary?: unknown;
}

/** Estimates the clock of the primary, which refuses a commit after its deadline. */
export class ServerClock {
  /** The server's time, in milliseconds since the epoch, when `performance.now()` was zero. */
  #origin = Date.now() - performance.now();

  /** @param answer the response that has just arrived. */
  update(answer: Hello): void {
    const { localTime, isWritablePrimary } = answer;
    if (isWritablePrimary !== true || !(localTime instanceof Date)) return;
    this.#origin = localTime.getTime() - performance.now();
  }

  /** The server's time this many milliseconds from now, in milliseconds since the epoch. */
  timeIn(milliseconds: number): number {
    return Math.ceil(this.#origin + performance.now() + milliseconds);
  }
}

export interface OpenedClient {
  readonly client: MongoClient;
  readonly db: Db;
  readonly serverClock: ServerClock;
}

/** The database that the address names. */
function databaseOf(url: string): string {
  const name = /^[^:]+:\/\/[^/?]+\/([^/?]+)/u.exec(url)?.[1];
  return name === undefined ? DEFAULT_DATABASE : decodeURIComponent(name);
}

/** The hosts without the rest of the address, which may hold a password. */
function hostsOf({ options }: MongoClient): string {
  return options.srvHost ?? options.hosts.map(String).join(", ");
}

function member(value: unknown, name: string): unknown {
  return Reflect.get(Object(value), name);
}

/** The driver's descriptions of the servers that it could not use. */
function serversIn(error: unknown): unknown[] {
  const servers = member(member(error, "reason"), "servers");
  return servers instanceof Map ? [...servers.values()] : [];
}

/** Whether a server is not initiated as a replica set yet. */
function isUninitiated(error: unknown): boolean {
  if (error instanceof StorageUnavailable) return true;
  return serversIn(error).some((server) => member(server, "type") === "RSGhost");
}

/** Why connecting failed, such as `ECONNREFUSED` or an untrusted certificate. */
function connectionCodes(error: unknown): string {
  const codes = serversIn(error).map((server) => member(member(member(server, "error"), "cause"), "code"));
  const found = new Set(codes.filter((code) => typeof code === "string"));
  return [...found].map((code) => `${code}, `).join("");
}

/**
 * Closes a client. The driver sends a last command, which hangs if its socket is lost at the same moment. Then the
 * client is abandoned.
 */
export async function closeClient(client: MongoClient): Promise<void> {
  // Lets the driver notice sockets that were lost in this tick.
  await pause(1);
  await withTimeout(CLOSE_TIMEOUT_MS, client.close(), lateFault).catch(() => undefined);
}

/** Connects once with a new client, because a client whose first attempt fails never connects. */
async function tryOnce(make: () => MongoClient): Promise<{ client: MongoClient; answer: Document }> {
  const client = make();
  try {
    const answer = await client.db("admin").command({ hello: 1 });
    if (answer["isreplicaset"] === true) throw new StorageUnavailable("MongoDB is not a replica set yet");
    return { client, answer };
  } catch (error) {
    await closeClient(client);
    throw error;
  }
}

/** Tries to connect until the server answers, or until another attempt could end too late. */
async function untilConnected(
  make: () => MongoClient,
  where: string,
  startTimeoutMs: number,
): Promise<{ client: MongoClient; answer: Document }> {
  const began = performance.now();
  for (;;) {
    try {
      return await tryOnce(make);
    } catch (error) {
      if (isRefused(error)) {
        throw new ConfigurationError([
          `config.storage: MongoDB at ${where} refuses the user or the password`,
        ]);
      }
      const waited = performance.now() - began;
      if (waited + RETRY_DELAY_MS + SELECTION_TIMEOUT_MS > startTimeoutMs) {
        const seconds = Math.round(waited / 1000);
        const why = isUninitiated(error)
          ? "is not a replica set yet: run rs.initiate() in mongosh"
          : "does not answer";
        const codes = connectionCodes(error);
        throw new StorageUnavailable(`MongoDB at ${where} ${why} (${codes}waited ${seconds} seconds)`, {
          reason: codes.split(",", 1)[0] || "timeout",
        });
      }
    }
    await pause(RETRY_DELAY_MS);
  }
}

/** @throws ConfigurationError when this server has no transactions. */
export function requireTransactions(answer: Document, where: string): void {
  const isSharded = answer["msg"] === "isdbgrid";
  if (isSharded || typeof answer["setName"] === "string") return;
  throw new ConfigurationError([
    `config.storage: MongoDB at ${where} runs standalone and so has no transactions; ` +
      "start mongod with --replSet rs0 and run rs.initiate() in mongosh once to make it a replica set of one node",
  ]);
}

/**
 * A direct connection stays with one member, which goes on answering from the past when another one is the primary.
 * @throws ConfigurationError when there is another one.
 */
export function refuseDirect(
  answer: Document,
  { options }: Pick<MongoClient, "options">,
  where: string,
): void {
  const members: unknown = answer["hosts"];
  if (!options.directConnection || !Array.isArray(members) || members.length < 2) return;
  throw new ConfigurationError([
    `config.storage: directConnection would keep the service at ${where} after an election; ` +
      "leave it out, and name the members of the replica set",
  ]);
}

function refusedOption(why: string): ConfigurationError {
  return new ConfigurationError([`config.storage: an option of this MongoDB address ${why}`]);
}

/** @throws ConfigurationError when the driver can't read the address, or it would weaken what is acknowledged or read. */
async function createFactory(
  url: string,
  times: MongoClientOptions,
): Promise<{ make: () => MongoClient; where: string }> {
  const { MongoClient } = await import("mongodb");
  const make = () => new MongoClient(url, { appName: "sign-in-service", ...CONCERNS, ...times });
  let client: MongoClient;
  try {
    client = make();
  } catch {
    // The driver's message may repeat the password.
    throw refusedOption("is not known or has a wrong value");
  }
  if (hasOtherConcerns(client)) throw refusedOption("would let acknowledged changes get lost");
  return { make, where: hostsOf(client) };
}

export interface ClientOptions {
  /** Within this time, a server that does not answer is reported. Default 5,000. */
  readonly startTimeoutMs?: number;
  /** Whether operations may take any amount of time, for example to create indexes. Default `false`. */
  readonly isPatient?: boolean;
}

/** @throws StorageUnavailable, ConfigurationError */
export async function openClient(
  url: string,
  { startTimeoutMs = START_TIMEOUT_MS, isPatient = false }: ClientOptions = {},
): Promise<OpenedClient> {
  const times = isPatient ? { ...TIMES, socketTimeoutMS: 0 } : TIMES;
  const { make, where } = await createFactory(url, times);
  const { client, answer } = await untilConnected(make, where, startTimeoutMs);
  try {
    requireTransactions(answer, where);
    refuseDirect(answer, client, where);
    const serverClock = new ServerClock();
    serverClock.update(answer);
    client.on("serverHeartbeatSucceeded", ({ reply }) => serverClock.update(reply));
    return { client, db: client.db(databaseOf(url)), serverClock };
  } catch (error) {
    await closeClient(client);
    throw asFault(error);
  }
}

export interface Connection {
  readonly clock: Clock;
  /** Reads go to the primary and see majority-committed data; writes are acknowledged by a majority. */
  readonly db: Db;
  /** The primary's time this many milliseconds from now, in milliseconds since the epoch. */
  serverTimeIn(milliseconds: number): number;
  /**
   * Runs one operation outside a transaction. The driver retries it once after a network fault.
   * @param wait time-out in milliseconds; default 4500.
   * @throws StorageUnavailable for every error of the driver, and after `wait`.
   */
  run<T>(work: () => Promise<T>, wait?: number): Promise<T>;
  /**
   * Runs `work` in a transaction, and repeats it while it conflicts with others. It sees a snapshot of the database and
   * its own writes. If it throws or calls `abortTransaction`, nothing is written. It passes the session to each
   * operation and runs the operations sequentially.
   * @param wait time-out in milliseconds; nothing is committed after it unless the commit had begun. Default 4500.
   * @param look is called before a transaction that met a conflict is repeated, and throws ConditionFailed if that is in vain.
   * @throws StorageUnavailable as `run` does.
   */
  inTransaction<T>(
    work: (session: ClientSession) => Promise<T>,
    wait?: number,
    look?: () => Promise<unknown>,
  ): Promise<T>;
  /** Refuses new calls, waits for those that are running, and closes. Safe to call twice. */
  close(): Promise<void>;
}

interface CurrentClient {
  readonly opened: OpenedClient;
  readonly transactions: Transactions;
}

class ClientConnection implements Connection {
  readonly clock: Clock;
  readonly #open: () => Promise<OpenedClient>;
  #current: CurrentClient;
  readonly #running = new Set<Promise<unknown>>();
  #isReplacing = false;
  #closing: Promise<void> | undefined;

  constructor(opened: OpenedClient, clock: Clock, open: () => Promise<OpenedClient>) {
    this.clock = clock;
    this.#open = open;
    this.#current = { opened, transactions: new Transactions(opened.client) };
  }

  get db(): Db {
    return this.#current.opened.db;
  }

  serverTimeIn(milliseconds: number): number {
    return this.#current.opened.serverClock.timeIn(milliseconds);
  }

  run<T>(work: () => Promise<T>, wait: number = DEFAULT_TIMEOUT_MS): Promise<T> {
    return this.#call(wait, work);
  }

  inTransaction<T>(
    work: (session: ClientSession) => Promise<T>,
    wait: number = DEFAULT_TIMEOUT_MS,
    look?: () => Promise<unknown>,
  ): Promise<T> {
    return this.#call(wait, ({ transactions }) => transactions.run(work, wait, look));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#current.transactions.stop();
    await Promise.allSettled(this.#running);
    await closeClient(this.#current.opened.client);
  }

  async #call<T>(wait: number, begin: (current: CurrentClient) => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw closedFault();
    const current = this.#current;
    const work = begin(current);
    const answer = withTimeout(wait, work, () => {
      this.#watch(work, current);
      return lateFault();
    });
    this.#running.add(answer);
    try {
      return await answer;
    } catch (error) {
      throw asFault(error);
    } finally {
      this.#running.delete(answer);
    }
  }

  /**
   * The only place that handles hanging commands. No option of the driver (7.8) bounds a command whose socket is lost
   * while it is being written: it waits forever for the socket to drain, and occupies a connection of the pool. So
   * the client is replaced, and the old one is closed when its other calls are done.
   */
  #watch(work: Promise<unknown>, current: CurrentClient): void {
    const timer = setTimeout(() => void this.#replace(current), HANGING_AFTER_MS).unref();
    const stop = (): void => clearTimeout(timer);
    work.then(stop, stop);
  }

  async #replace(old: CurrentClient): Promise<void> {
    if (this.#current !== old || this.#isReplacing) return;
    this.#isReplacing = true;
    while (this.#closing === undefined) {
      const opened = await this.#open().catch(() => undefined);
      if (opened === undefined) continue;
      if (this.#isOpen()) this.#current = { opened, transactions: new Transactions(opened.client) };
      else await closeClient(opened.client);
      break;
    }
    this.#isReplacing = false;
    if (this.#current === old) return;
    old.transactions.stop();
    await Promise.allSettled(this.#running);
    await closeClient(old.opened.client);
  }

  #isOpen(): boolean {
    return this.#closing === undefined;
  }
}

/**
 * Opens the connection; does not create collections.
 * @throws StorageUnavailable when the server does not answer within five seconds.
 * @throws ConfigurationError when the address is wrong, the user is refused, or the server has no transactions.
 */
export async function connect(url: string, clock: Clock, options: ClientOptions = {}): Promise<Connection> {
  const open = (): Promise<OpenedClient> => openClient(url, options);
  return new ClientConnection(await open(), clock, open);
}
