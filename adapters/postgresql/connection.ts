/** The connection pool to PostgreSQL, with its time-outs and the translation of the driver's errors. */
import type * as pg from "pg";
import type { Client, ClientConfig, Pool, QueryResultRow } from "pg";
import { SignInError, StorageUnavailable } from "../errors.ts";
import { withTimeout } from "../with-timeout.ts";

/** Milliseconds for one call. */
const PATIENCE = 4_500;
/** Milliseconds for which a reading of the server's clock is used. */
const CLOCK_AGE = 60_000;

/**
 * SQLSTATE of conflicts with other commits: a duplicate key, a serialization failure, a deadlock, a lock that is not
 * available.
 */
const PASSING: ReadonlySet<string> = new Set(["23505", "40001", "40P01", "55P03"]);

/** `SQLSTATE` of an error that the server sent; `undefined` for other errors. */
export function sqlState(error: unknown): string | undefined {
  const { severity, code } = Object(error) as { readonly severity?: unknown; readonly code?: unknown };
  // System errors also have a `code`, but only the server's errors have a severity.
  return severity !== undefined && typeof code === "string" ? code : undefined;
}

/** Whether another commit interfered, so that this one must be checked again. */
export function isPassing(error: unknown): boolean {
  return PASSING.has(sqlState(error) ?? "");
}

/** The driver's messages may contain values, so only the code is used. */
export function asFault(error: unknown): unknown {
  if (error instanceof TypeError || error instanceof SignInError) return error;
  const code = sqlState(error) ?? String(Reflect.get(Object(error), "code") ?? "no answer");
  return new StorageUnavailable(`PostgreSQL: ${code}`);
}

/** The error of a call that took too long. */
export function lateFault(): StorageUnavailable {
  return new StorageUnavailable("PostgreSQL did not answer in time");
}

type Driver = typeof pg;

export class Connections {
  readonly #driver: Driver;
  readonly #pool: Pool;
  readonly #url: string;
  /** A reading of the server's clock, and its time on the scale of `performance.now()`. */
  #serverTime: { readonly time: number; readonly at: number } | undefined;
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  private constructor(driver: Driver, url: string) {
    this.#driver = driver;
    this.#url = url;
    this.#pool = new driver.Pool({ ...this.#options(), max: 10, idleTimeoutMillis: 30_000 });
    // The pool replaces an idle connection that breaks.
    this.#pool.on("error", () => undefined);
  }

  /** Does not connect until the first query. */
  static async open(url: string): Promise<Connections> {
    return new Connections(await import("pg"), url);
  }

  #options(): ClientConfig {
    return {
      connectionString: this.#url,
      application_name: "sign-in-service",
      connectionTimeoutMillis: PATIENCE,
      query_timeout: PATIENCE,
      statement_timeout: PATIENCE,
      keepAlive: true,
    };
  }

  /** Runs a call that `close` waits for. After `close` it is refused. */
  async during<T>(call: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw new StorageUnavailable("the storage is closed");
    const running = call();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** @throws StorageUnavailable for every fault. */
  query<Row extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.during(async () => {
      try {
        // Connecting and the statement have a time-out each, so without this one a call could take twice as long.
        return await withTimeout(PATIENCE, this.raw<Row>(text, values), lateFault);
      } catch (error) {
        throw asFault(error);
      }
    });
  }

  /** Rejects with the driver's errors. */
  async raw<Row extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const { rows } = await this.#pool.query<Row>(text, [...values]);
    return rows;
  }

  /** The server's time in so many milliseconds, or slightly earlier, so that a deadline is never too late. */
  async serverTimeIn(milliseconds: number): Promise<Date> {
    if (this.#serverTime === undefined || performance.now() - this.#serverTime.at > CLOCK_AGE) {
      const [row] = await this.raw<{ now: Date }>("SELECT clock_timestamp() AS now");
      this.#serverTime = { time: Number(row?.now), at: performance.now() };
    }
    return new Date(this.#serverTime.time + performance.now() - this.#serverTime.at + milliseconds);
  }

  /** Forgets the reading, because the server's clock was set. */
  forgetServerTime(): void {
    this.#serverTime = undefined;
  }

  /** Opens a connection outside the pool that receives notifications. */
  async listen(channel: string, onMessage: (text: string) => void, onEnd: () => void): Promise<Client> {
    const client = new this.#driver.Client(this.#options());
    client.on("error", () => undefined);
    client.on("end", onEnd);
    client.on("notification", ({ payload = "" }) => onMessage(payload));
    await client.connect();
    await client.query(`LISTEN ${channel}`);
    return client;
  }

  isOpen(): boolean {
    return this.#closing === undefined;
  }

  close(): Promise<void> {
    this.#closing ??= Promise.allSettled(this.#running).then(() => this.#pool.end());
    return this.#closing;
  }
}
