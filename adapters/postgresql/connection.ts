/** The connections to PostgreSQL: how long anything is waited for, and what the driver's errors mean. */
import type * as pg from "pg";
import type { Client, ClientConfig, Pool, QueryResultRow } from "pg";
import { SignInError, StorageUnavailable } from "../errors.ts";
import { withTimeout } from "../with-timeout.ts";

/** Milliseconds. An answer that is later is not waited for. */
const PATIENCE = 4_500;
/** Milliseconds after which the server's clock is looked at again. */
const CLOCK_AGE = 60_000;

/** SQLSTATE of what the same statement may not meet again: somebody else was faster, or had a row locked. */
const PASSING: ReadonlySet<string> = new Set(["23505", "40001", "40P01", "55P03"]);

/** `SQLSTATE` of an answer of the server; `undefined` when there was none. */
export function sqlState(error: unknown): string | undefined {
  const { severity, code } = Object(error) as { readonly severity?: unknown; readonly code?: unknown };
  // Errors of the system have a code as well, but only the server says how bad it is.
  return severity !== undefined && typeof code === "string" ? code : undefined;
}

/** Whether another commit came in between, so that this one has to be looked at again. */
export function isPassing(error: unknown): boolean {
  return PASSING.has(sqlState(error) ?? "");
}

/** The driver's errors may repeat what was sent, so only the code is passed on. */
export function asFault(error: unknown): unknown {
  if (error instanceof TypeError || error instanceof SignInError) return error;
  const code = sqlState(error) ?? String(Reflect.get(Object(error), "code") ?? "no answer");
  return new StorageUnavailable(`PostgreSQL: ${code}`);
}

/** What a call gets that was not done in time. */
export function lateFault(): StorageUnavailable {
  return new StorageUnavailable("PostgreSQL did not answer in time");
}

type Driver = typeof pg;

export class Connections {
  readonly #driver: Driver;
  readonly #pool: Pool;
  readonly #url: string;
  /** A time of the server, and when that was heard, on the scale of `performance.now()`. */
  #heard: { readonly time: number; readonly at: number } | undefined;
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  private constructor(driver: Driver, url: string) {
    this.#driver = driver;
    this.#url = url;
    this.#pool = new driver.Pool({ ...this.#options(), max: 10, idleTimeoutMillis: 30_000 });
    // A connection that breaks while nobody uses it is replaced by the next query.
    this.#pool.on("error", () => undefined);
  }

  /** Connects when it is asked for something. */
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

  /** Runs a call that `close` waits for; after that it is refused. */
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
        // Connecting has its own time, and so has the statement: together they may take twice as long.
        return await withTimeout(PATIENCE, this.raw<Row>(text, values), lateFault);
      } catch (error) {
        throw asFault(error);
      }
    });
  }

  /** Rejects with what the driver says. */
  async raw<Row extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const { rows } = await this.#pool.query<Row>(text, [...values]);
    return rows;
  }

  /** The server's time so many milliseconds from now, or somewhat earlier: what it begins before that is in time. */
  async serverTimeIn(milliseconds: number): Promise<Date> {
    if (this.#heard === undefined || performance.now() - this.#heard.at > CLOCK_AGE) {
      const [row] = await this.raw<{ now: Date }>("SELECT clock_timestamp() AS now");
      this.#heard = { time: Number(row?.now), at: performance.now() };
    }
    return new Date(this.#heard.time + performance.now() - this.#heard.at + milliseconds);
  }

  /** The server's clock was not as expected: somebody has set it. */
  forgetServerTime(): void {
    this.#heard = undefined;
  }

  /** A connection of its own, for what comes without being asked for. */
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
