/** The connection pool to PostgreSQL, with its time-outs and the translation of the driver's errors. */
import type { EventEmitter } from "node:events";
import { readFile } from "node:fs/promises";
import { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { checkServerIdentity, type ConnectionOptions, createSecureContext } from "node:tls";
import type * as pg from "pg";
import type { Client, ClientConfig, Pool, QueryResultRow } from "pg";
import { type PostgresAddress, readPostgresAddress } from "../../config/postgresql-address.ts";
import { ConfigurationError, SignInError, StorageUnavailable } from "../../core/errors.ts";
import { withTimeout } from "../../core/with-timeout.ts";

const CALL_TIMEOUT_MS = 4_500;
/** How long a reading of the server's clock is used. */
const MAX_CLOCK_AGE_MS = 60_000;
/** How long a connection is silent before the kernel probes the other side. */
const KEEP_ALIVE_DELAY_MS = 10_000;
/** Pause between attempts to listen for notifications. */
const RECONNECT_DELAY_MS = 1_000;
/** How long the server has to close connections before their sockets are destroyed. */
const CLOSE_TIMEOUT_MS = 500;

/**
 * SQLSTATE of conflicts with other commits: a duplicate key, a serialization failure, a deadlock, a lock that is not
 * available.
 */
const TRANSIENT: ReadonlySet<string> = new Set(["23505", "40001", "40P01", "55P03"]);

/** `SQLSTATE` of an error that the server sent; `undefined` for other errors. */
export function sqlState(error: unknown): string | undefined {
  const { severity, code } = Object(error) as { readonly severity?: unknown; readonly code?: unknown };
  // System errors also have a `code`, but only the server's errors have a severity.
  return severity !== undefined && typeof code === "string" ? code : undefined;
}

/** Whether another commit interfered, so that this one must be checked again. */
export function isTransient(error: unknown): boolean {
  return TRANSIENT.has(sqlState(error) ?? "");
}

/** The driver's own time-outs have no code. */
function whyWithoutCode(error: unknown): string {
  return Error.isError(error) && /\btimeout\b/u.test(error.message) ? "timeout" : "no answer";
}

/** The driver's messages may contain values, so only the code is used. */
export function asFault(error: unknown): unknown {
  if (error instanceof TypeError || error instanceof SignInError) return error;
  const code = sqlState(error) ?? String(Reflect.get(Object(error), "code") ?? whyWithoutCode(error));
  return new StorageUnavailable(`PostgreSQL: ${code}`, { reason: code });
}

/** The error of a call that took too long. */
export function lateFault(): StorageUnavailable {
  return new StorageUnavailable("PostgreSQL did not answer in time", { reason: "timeout" });
}

/** A prepared statement: each connection plans it once. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export const CLOCK: Statement = { name: "sign-in-clock", text: "SELECT clock_timestamp() AS now" };

type Driver = typeof pg;

/** How often a pooler is tried: while others use it, it may happen to give the same session twice. */
const POOLER_ROUNDS = 3;

/** The process of the server that runs the calls of this connection now. */
async function sessionOf(client: Client): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  return rows[0]?.pid;
}

/** The text of a file, without a line break at its end. */
async function textOf(path: string): Promise<string> {
  return (await readFile(path, "utf8")).replace(/\r?\n$/u, "");
}

/** A file that the address names in a parameter. @throws ConfigurationError if it can't be read. */
async function readNamed(parameter: string, path: string): Promise<string> {
  try {
    return await textOf(path);
  } catch (error) {
    const code = String(Reflect.get(Object(error), "code"));
    throw new ConfigurationError([
      `config.storage: the file of ${parameter}, ${path}, can't be read (${code})`,
    ]);
  }
}

/** @throws ConfigurationError for files that can't be read, or that contain neither a certificate nor a key. */
async function tlsOptions(
  host: string,
  { mode, ca, cert, key }: NonNullable<PostgresAddress["tls"]>,
): Promise<ConnectionOptions> {
  const options = {
    ...(ca !== undefined && { ca: await readNamed("sslrootcert", ca) }),
    ...(cert !== undefined && { cert: await readNamed("sslcert", cert) }),
    ...(key !== undefined && { key: await readNamed("sslkey", key) }),
  };
  try {
    createSecureContext(options);
  } catch (error) {
    // The message may be about the contents of the key.
    const code = String(Reflect.get(Object(error), "code"));
    throw new ConfigurationError([
      `config.storage: the files of sslrootcert, sslcert and sslkey can't be used for TLS (${code})`,
    ]);
  }
  return {
    ...options,
    rejectUnauthorized: mode !== "no-verify",
    // The driver passes no name for a host that is an IP address.
    checkServerIdentity: (_name, certificate) =>
      mode === "verify-full" ? checkServerIdentity(host, certificate) : undefined,
  };
}

/**
 * Every statement finds a few rows by an index. The planner must not choose another plan because it does not see the
 * values of a prepared statement, or has no statistics of a new table. It would also overestimate how many rows of a
 * large table a statement finds, and spend milliseconds on starting parallel workers or compiling the statement.
 */
const SESSION = [
  `SET statement_timeout = ${CALL_TIMEOUT_MS}`,
  "SET plan_cache_mode = force_generic_plan",
  "SET enable_seqscan = off",
  "SET enable_hashjoin = off",
  "SET enable_mergejoin = off",
  "SET max_parallel_workers_per_gather = 0",
  "SET jit = off",
].join("; ");

/** The code of a connection whose server does not bind the password to it. */
export const UNBOUND = "CHANNEL_BINDING";

/**
 * A client that only connects with SCRAM-SHA-256-PLUS. The driver itself would also take a weaker way that the server, or somebody in
 * between, asks for.
 */
function boundClient({ Client: Plain }: Driver): typeof Client {
  return class BoundClient extends Plain {
    constructor(config?: ClientConfig | string) {
      super(config);
      const { connection } = this as unknown as {
        readonly connection: EventEmitter & { readonly stream: Socket };
      };
      let isBound = false;
      const refuse = (): void =>
        void connection.stream.destroy(Object.assign(new Error("no channel binding"), { code: UNBOUND }));
      connection.on("authenticationSASL", ({ mechanisms }: { readonly mechanisms: readonly string[] }) => {
        if (!mechanisms.includes("SCRAM-SHA-256-PLUS")) refuse();
      });
      for (const way of ["authenticationCleartextPassword", "authenticationMD5Password"])
        connection.on(way, refuse);
      connection.on("authenticationSASLFinal", () => (isBound = true));
      connection.on("authenticationOk", () => {
        if (!isBound) refuse();
      });
    }
  };
}

export class Connections {
  readonly #driver: Driver;
  readonly #Client: typeof Client;
  readonly #pool: Pool;
  readonly #address: PostgresAddress;
  readonly #tls: ConnectionOptions | undefined;
  /** A reading of the server's clock, and its time on the scale of `performance.now()`. */
  #serverTime: { readonly time: number; readonly at: number } | undefined;
  /** What each connection sets at its beginning, because PgBouncer refuses settings in the startup packet. */
  #session: string;
  readonly #running = new Set<Promise<unknown>>();
  /** Every socket that is open or being opened, with a promise that resolves when it closes. */
  readonly #sockets = new Map<Socket, Promise<void>>();
  readonly #closed = new AbortController();
  #listener: Client | undefined;
  #closing: Promise<void> | undefined;

  private constructor(driver: Driver, address: PostgresAddress, tls: ConnectionOptions | undefined) {
    this.#driver = driver;
    this.#address = address;
    this.#tls = tls;
    this.#Client = address.channelBinding === "require" ? boundClient(driver) : driver.Client;
    this.#session = [
      ...address.settings.map(
        ([name, value]) =>
          `SELECT set_config(${driver.escapeLiteral(name)}, ${driver.escapeLiteral(value)}, false)`,
      ),
      SESSION,
    ].join("; ");
    this.#pool = new driver.Pool({
      ...this.#options(),
      Client: this.#Client,
      max: address.poolSize,
      idleTimeoutMillis: 30_000,
      // The pool awaits the returned promise, though its types don't say so.
      onConnect: (client): unknown => client.query(this.#session),
    });
    // The pool replaces an idle connection that breaks.
    this.#pool.on("error", () => undefined);
  }

  /**
   * Reads the files of the address. Does not connect until the first query.
   * @throws ConfigurationError for an address or a file that can't be used.
   */
  static async open(url: string): Promise<Connections> {
    const address = readPostgresAddress(url);
    if (typeof address === "string") throw new ConfigurationError([`config.storage: ${address}`]);
    const { passwordFile, host, tls } = address;
    if (passwordFile !== undefined) await readNamed("password_file", passwordFile);
    return new Connections(await import("pg"), address, tls && (await tlsOptions(host, tls)));
  }

  #options(): ClientConfig {
    const { host, port, user, password, passwordFile, database, applicationName } = this.#address;
    const { channelBinding, connectTimeoutSeconds = Infinity } = this.#address;
    return {
      host,
      port,
      user,
      database,
      // Each connection reads the file again, so that the password can change while the service runs.
      password: passwordFile === undefined ? password : () => textOf(passwordFile),
      application_name: applicationName,
      ssl: this.#tls,
      enableChannelBinding: channelBinding !== "disable" && this.#tls !== undefined,
      connectionTimeoutMillis: Math.min(CALL_TIMEOUT_MS, connectTimeoutSeconds * 1000),
      query_timeout: CALL_TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
      stream: () => this.#newSocket(),
    };
  }

  /**
   * Whether a pooler gives the transactions of one connection to different sessions of the server, as PgBouncer does in all modes but
   * `session`. Call it before others use the pool: settings would stay in sessions that other clients get.
   */
  async sharesSessions(): Promise<boolean> {
    return this.#withClient(async (one) => {
      const own = await sessionOf(one);
      // A pooler invents the id that cancels a call; the server's is that of the session.
      if (own === Reflect.get(one, "processID")) return false;
      return this.#withClient(async (other) => {
        for (let round = 0; round < POOLER_ROUNDS; round += 1) {
          try {
            await other.query("BEGIN");
          } catch (error) {
            // `pool_mode=statement` has no transactions.
            if (sqlState(error) === undefined) throw error;
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
  async #withClient<T>(call: (client: Client) => Promise<T>): Promise<T> {
    const socket = this.#newSocket();
    const client = new this.#Client({ ...this.#options(), stream: () => socket });
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
    const { totalCount, idleCount, waitingCount } = this.#pool;
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

  /** @throws StorageUnavailable for every fault. */
  query<Row extends QueryResultRow>(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.during(async () => {
      try {
        // Connecting and the statement have a time-out each, so without this one a call could take twice as long.
        return await withTimeout(CALL_TIMEOUT_MS, this.raw<Row>(statement, values), lateFault);
      } catch (error) {
        throw asFault(error);
      }
    });
  }

  /** From now on names without a schema are in this one, whatever others create in the search path. Call it before others use the pool. */
  async pin(schema: string): Promise<void> {
    const pinned = `SET search_path = ${this.#driver.escapeIdentifier(schema)}`;
    this.#session += `; ${pinned}`;
    await this.raw(pinned);
  }

  /** Rejects with the driver's errors. */
  async raw<Row extends QueryResultRow>(
    statement: Statement | string,
    values: readonly unknown[] = [],
  ): Promise<Row[]> {
    const config = typeof statement === "string" ? { text: statement } : statement;
    const { rows } = await this.#pool.query<Row>({ ...config, values: [...values] });
    return rows;
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
   * next is opened, so there are never two.
   * @param onListening is called when a connection begins to listen: notifications before that are lost.
   */
  async listen(channel: string, onListening: () => void, onMessage: (text: string) => void): Promise<void> {
    while (this.#closing === undefined) {
      const socket = this.#newSocket();
      const client = new this.#Client({ ...this.#options(), stream: () => socket });
      this.#listener = client;
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
    void this.#listener?.end();
    const ended = Promise.all([this.#pool.end(), ...this.#sockets.values()]);
    await withTimeout(CLOSE_TIMEOUT_MS, ended, lateFault).catch(() => undefined);
    for (const socket of this.#sockets.keys()) socket.destroy();
  }
}
