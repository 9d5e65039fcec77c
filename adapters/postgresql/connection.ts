/** The connections to PostgreSQL: a pool at the host that is used now, and one that listens. */
import { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type * as pg from "pg";
import type { Client, Pool, PoolClient, QueryConfig, QueryResult, QueryResultRow } from "pg";
import {
  type PostgresAddress,
  type PostgresHost,
  readPostgresAddress,
} from "../../config/postgresql-address.ts";
import { ConfigurationError, StorageUnavailable } from "../../core/errors.ts";
import type { OnStoreWarning } from "../../core/store-warning.ts";
import { withTimeout } from "../../core/with-timeout.ts";
import { boundClient, driverOptions, type OptionsOf } from "./driver-options.ts";
import { asFault, isServerLost, lateFault, READ_ONLY, reasonOf, sqlState } from "./faults.ts";
import { type Answer, askServer, Hosts, type HostState, isWanted, STATE } from "./hosts.ts";
import { CALL_TIMEOUT_MS, CLOCK, SESSION, type Statement, TRANSACTION } from "./statement.ts";

/** How long a reading of the server's clock is used. */
const MAX_CLOCK_AGE_MS = 60_000;
/** How long a host has to say whether it is the primary. */
const ASK_TIMEOUT_MS = 2_000;
/** How often all hosts are asked: after a promotion, the old primary may still answer. */
const WATCH_INTERVAL_MS = 5_000;
/** The same while no host can be used. */
const LOST_INTERVAL_MS = 500;
/** The connections to an only host that takes no writes are replaced, but not for each write. */
const MIN_REPLACE_INTERVAL_MS = 1_000;
/** Pause between attempts to listen for notifications. */
const RECONNECT_DELAY_MS = 1_000;
/** How long the server has to close connections before their sockets are destroyed. */
const CLOSE_TIMEOUT_MS = 500;

type Driver = typeof pg;

/** The pool of one host. */
interface HostPool {
  readonly host: PostgresHost;
  readonly pool: Pool;
  readonly sockets: Set<Socket>;
  /** Whether another one has replaced it: then it opens nothing more. */
  isLeft: boolean;
}

const ignore = (): void => undefined;

/** The rows of the last statement: a text may have several, for which the driver's types have no result. */
function lastRows<Row>(result: QueryResult | readonly QueryResult[]): Row[] {
  const last = Array.isArray(result) ? (result as readonly QueryResult[]).at(-1) : (result as QueryResult);
  return (last?.rows ?? []) as Row[];
}

/** How often a pooler is tried: while others use it, it may happen to give the same session twice. */
const POOLER_ROUNDS = 3;

/** What PgBouncer says to the beginning of a transaction with `pool_mode=statement`. */
const NO_TRANSACTIONS = "08P01";

/** The process of the server that runs the calls of this connection now. */
async function sessionOf(client: Client): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  return rows[0]?.pid;
}

export class Connections {
  readonly #driver: Driver;
  readonly #Client: typeof Client;
  readonly #address: PostgresAddress;
  readonly #optionsOf: OptionsOf;
  readonly #hosts: Hosts;
  #pool: HostPool;
  #replacedAt = -Infinity;
  /** The first look for the primary among several hosts. */
  #found: Promise<void> | undefined;
  /** A reading of the server's clock, and its time on the scale of `performance.now()`. */
  #serverTime: { readonly time: number; readonly at: number } | undefined;
  /** Whether each connection has a session of the server for itself. */
  readonly hasSessions: boolean;
  /**
   * Settings, and the search path. A session gets them at its beginning, because PgBouncer refuses settings in the startup packet;
   * without sessions, each transaction that needs them.
   */
  #settings: string;
  /** Where the functions are, quoted. */
  #schema = "";
  readonly #running = new Set<Promise<unknown>>();
  /** Every socket that is open or being opened, with a promise that resolves when it closes. */
  readonly #sockets = new Map<Socket, Promise<void>>();
  readonly #closed = new AbortController();
  #listener: { readonly client: Client; readonly socket: Socket } | undefined;
  #closing: Promise<void> | undefined;

  private constructor(
    driver: Driver,
    address: PostgresAddress,
    optionsOf: OptionsOf,
    onWarning: OnStoreWarning,
  ) {
    this.#driver = driver;
    this.#address = address;
    this.#optionsOf = optionsOf;
    this.#Client = address.channelBinding === "require" ? boundClient(driver) : driver.Client;
    this.hasSessions = address.poolMode === "session";
    this.#settings = [
      ...address.settings.map(
        ([name, value]) =>
          `SELECT set_config(${driver.escapeLiteral(name)}, ${driver.escapeLiteral(value)}, ${!this.hasSessions})`,
      ),
      this.hasSessions ? SESSION : TRANSACTION,
    ].join("; ");
    this.#hosts = new Hosts(
      address,
      (host) => this.#ask(host),
      (text) => onWarning(text, "postgresql_host"),
    );
    this.#pool = this.#newPool(this.#hosts.current);
  }

  /**
   * Reads the files of the address. Does not connect until the first query.
   * @param onWarning is told when another of several hosts is used, or when there is none.
   * @throws ConfigurationError for an address or a file that can't be used.
   */
  static async open(url: string, onWarning: OnStoreWarning = () => undefined): Promise<Connections> {
    const address = readPostgresAddress(url);
    if (typeof address === "string") throw new ConfigurationError([`config.storage: ${address}`]);
    const optionsOf = await driverOptions(address);
    return new Connections(await import("pg"), address, optionsOf, onWarning);
  }

  #newPool(host: PostgresHost): HostPool {
    const sockets = new Set<Socket>();
    const pool = new this.#driver.Pool({
      ...this.#optionsOf(host, CALL_TIMEOUT_MS),
      stream: () => {
        const socket = this.#newSocket();
        sockets.add(socket);
        socket.once("close", () => sockets.delete(socket));
        // The driver connects it right away.
        if (opened.isLeft) setImmediate(() => socket.destroy());
        return socket;
      },
      Client: this.#Client,
      max: this.#address.poolSize,
      idleTimeoutMillis: 30_000,
      // The pool awaits the returned promise, though its types don't say so.
      onConnect: (client): unknown => this.#begin(client as Client, opened),
    });
    // The pool replaces an idle connection that breaks.
    pool.on("error", () => undefined);
    const opened: HostPool = { host, pool, sockets, isLeft: false };
    return opened;
  }

  /** Makes the settings of a new connection, and refuses a server that the address does not ask for. */
  async #begin(client: Client, { isLeft }: HostPool): Promise<void> {
    if (isLeft) throw new Error("another host is used");
    const { wanted } = this.#address;
    const texts = [...(this.hasSessions ? [this.#settings] : []), ...(wanted === "any" ? [] : [STATE])];
    if (texts.length === 0) return;
    const [answer] = lastRows<Answer>(await client.query(texts.join("; ")));
    if (wanted !== "any" && (answer === undefined || !isWanted(answer, wanted)))
      throw Object.assign(new Error("the server takes no writes"), { severity: "FATAL", code: READ_ONLY });
  }

  /** Asks one host what it is. */
  #ask(host: PostgresHost): Promise<Answer> {
    const asking = this.#withClient(askServer, host, ASK_TIMEOUT_MS);
    return withTimeout(ASK_TIMEOUT_MS, asking, lateFault);
  }

  /** All hosts of the address, as they are now. */
  async states(): Promise<readonly HostState[]> {
    return Promise.all(
      this.#address.hosts.map(async (host) => {
        try {
          return { host, answer: await this.#ask(host), reason: undefined };
        } catch (error) {
          return { host, answer: undefined, reason: reasonOf(error) };
        }
      }),
    );
  }

  /** Looks for the host to use, and leaves the other one: what runs there fails, and commits are sent again to the new one. */
  async #look(): Promise<void> {
    await this.#hosts.look();
    if (this.#hosts.current !== this.#pool.host) this.#replacePool();
  }

  #replacePool(): void {
    const left = this.#pool;
    this.#pool = this.#newPool(this.#hosts.current);
    this.#replacedAt = performance.now();
    this.#serverTime = undefined;
    left.isLeft = true;
    for (const socket of left.sockets) socket.destroy();
    this.#listener?.socket.destroy();
  }

  /** Resolves when the primary was looked for once. */
  async #ready(): Promise<void> {
    if (!this.#hosts.areSeveral) return;
    if (this.#found === undefined) {
      this.#found = this.#look();
      void this.#watchHosts();
    }
    await this.#found;
  }

  async #watchHosts(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      const interval = this.#hosts.isLost ? LOST_INTERVAL_MS : WATCH_INTERVAL_MS;
      await pause(interval, undefined, { signal, ref: false }).catch(() => undefined);
      if (!signal.aborted) await this.#look();
    }
  }

  /** Called with every error of a call. */
  #notice(error: unknown): void {
    if (!isServerLost(error)) return;
    if (this.#hosts.areSeveral) void this.#look();
    // The name of an only host may belong to another server by now.
    else if (
      sqlState(error) === READ_ONLY &&
      performance.now() - this.#replacedAt > MIN_REPLACE_INTERVAL_MS &&
      this.#closing === undefined
    )
      this.#replacePool();
  }

  /** A connection of the pool. If its host can't be reached, the others are tried once. */
  async #acquire(): Promise<PoolClient> {
    await this.#ready();
    const { pool } = this.#pool;
    try {
      return await pool.connect();
    } catch (error) {
      if (!this.#hosts.areSeveral) throw error;
      await this.#look();
      if (this.#pool.pool === pool) throw error;
      return this.#pool.pool.connect();
    }
  }

  /**
   * Whether a pooler gives the transactions of one connection to different sessions of the server, as PgBouncer does in all modes but
   * `session`. Call it before others use the pool: settings would stay in sessions that other clients get.
   */
  async sharesSessions(): Promise<boolean> {
    await this.#ready();
    return this.#withClient(async (one) => {
      const own = await sessionOf(one);
      // A pooler invents the id that cancels a call; the server's is that of the session.
      if (own === Reflect.get(one, "processID")) return false;
      return this.#withClient(async (other) => {
        for (let round = 0; round < POOLER_ROUNDS; round += 1) {
          try {
            await other.query("BEGIN");
          } catch (error) {
            if (reasonOf(error) !== NO_TRANSACTIONS) throw error;
            return true;
          }
          if ((await sessionOf(other)) === own) return true;
          // Twice, because a pooler may take turns.
          if ((await sessionOf(one)) !== own || (await sessionOf(one)) !== own) return true;
          await other.query("COMMIT");
        }
        return false;
      });
    });
  }

  /** Runs a call with a connection outside the pool. */
  async #withClient<T>(
    call: (client: Client) => Promise<T>,
    host: PostgresHost = this.#hosts.current,
    timeoutMs = CALL_TIMEOUT_MS,
  ): Promise<T> {
    const socket = this.#newSocket();
    const client = new this.#Client({ ...this.#optionsOf(host, timeoutMs), stream: () => socket });
    // A call on a connection that broke says only that it is closed.
    let broken: unknown;
    client.on("error", (error) => (broken ??= error));
    try {
      await client.connect();
      return await call(client);
    } catch (error) {
      throw broken ?? error;
    } finally {
      socket.destroy();
    }
  }

  /** The driver can't end a connection whose server hangs, so `close` destroys its socket. */
  #newSocket(): Socket {
    const socket = new Socket();
    const ended = new Promise<void>((resolve) => void socket.once("close", () => resolve()));
    this.#sockets.set(
      socket,
      ended.then(() => void this.#sockets.delete(socket)),
    );
    return socket;
  }

  /** Connections of the pool that are used, and calls that wait for one. */
  get usage(): { readonly used: number; readonly waiting: number } {
    const { totalCount, idleCount, waitingCount } = this.#pool.pool;
    return { used: totalCount - idleCount, waiting: waitingCount };
  }

  /** Runs a call that `close` waits for. After `close` it is refused. */
  async during<T>(call: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined)
      throw new StorageUnavailable("the storage is closed", { reason: "closed" });
    const running = call();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Runs a call that has an answer in time. @throws StorageUnavailable for every fault. */
  inTime<T>(call: () => Promise<T>): Promise<T> {
    return this.during(async () => {
      try {
        // Connecting and the statement have a time-out each, so without this one a call could take twice as long.
        return await withTimeout(CALL_TIMEOUT_MS, call(), lateFault);
      } catch (error) {
        throw asFault(error);
      }
    });
  }

  /** From now on names without a schema are in this one, whatever others create in the search path. Call it before others use the pool. */
  async pin(schema: string): Promise<void> {
    this.#schema = this.#driver.escapeIdentifier(schema);
    // Without its name, the schema of temporary tables would come first.
    const pinned = `search_path = ${this.#schema}, pg_temp`;
    this.#settings += `; SET ${this.hasSessions ? "" : "LOCAL "}${pinned}`;
    if (this.hasSessions) await this.raw(`SET ${pinned}`);
  }

  /** A statement as the driver gets it. Without sessions, it has no name and needs no settings, or brings them along. */
  #asSent(statement: Statement | string): QueryConfig {
    if (this.hasSessions) return typeof statement === "string" ? { text: statement } : statement;
    if (typeof statement === "string") return { text: `${this.#settings}; ${statement}` };
    const { text, function: called } = statement;
    return { text: called === undefined ? text : `SELECT * FROM ${this.#schema}.${called.call}` };
  }

  /** Rejects with the driver's errors. */
  async raw<Row extends QueryResultRow>(
    statement: Statement | string,
    values: readonly unknown[] = [],
  ): Promise<Row[]> {
    let client: PoolClient | undefined;
    try {
      client = await this.#acquire();
      // The call rejects as well.
      client.on("error", ignore);
      const rows = lastRows<Row>(await client.query({ ...this.#asSent(statement), values: [...values] }));
      client.off("error", ignore);
      client.release();
      return rows;
    } catch (error) {
      client?.off("error", ignore);
      // After any error, the connection is closed.
      client?.release(true);
      this.#notice(error);
      throw error;
    }
  }

  /** The server's time this many milliseconds from now, or slightly earlier, so that a deadline is never too late. */
  async serverTimeIn(milliseconds: number): Promise<Date> {
    if (this.#serverTime === undefined || performance.now() - this.#serverTime.at > MAX_CLOCK_AGE_MS) {
      const [row] = await this.raw<{ now: Date }>(CLOCK);
      this.#serverTime = { time: Number(row?.now), at: performance.now() };
    }
    return new Date(this.#serverTime.time + performance.now() - this.#serverTime.at + milliseconds);
  }

  /** Forgets the reading, because the server's clock was set. */
  forgetServerTime(): void {
    this.#serverTime = undefined;
  }

  /**
   * Receives notifications on one connection outside the pool until `close`. A broken connection is closed before the
   * next is opened, so there are never two. Needs a session.
   * @param onListening is called when a connection begins to listen: notifications before that are lost.
   */
  async listen(channel: string, onListening: () => void, onMessage: (text: string) => void): Promise<void> {
    while (this.#closing === undefined) {
      await this.#ready();
      const socket = this.#newSocket();
      const options = this.#optionsOf(this.#hosts.current, CALL_TIMEOUT_MS);
      const client = new this.#Client({ ...options, stream: () => socket });
      this.#listener = { client, socket };
      // The calls below and the closed socket reveal the error as well.
      client.on("error", () => undefined);
      client.on("notification", ({ payload = "" }) => onMessage(payload));
      try {
        await client.connect();
        await client.query(`LISTEN ${channel}`);
        onListening();
        await this.#sockets.get(socket);
      } catch {
        // The loop tries again.
      }
      socket.destroy();
      await this.#sockets.get(socket);
      const { signal } = this.#closed;
      await pause(RECONNECT_DELAY_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** Waits for running calls, and then closes the connections, whether or not the server responds. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#running);
    this.#closed.abort();
    void this.#listener?.client.end();
    const ended = Promise.all([this.#pool.pool.end(), ...this.#sockets.values()]);
    await withTimeout(CLOSE_TIMEOUT_MS, ended, lateFault).catch(() => undefined);
    for (const socket of this.#sockets.keys()) socket.destroy();
  }
}
