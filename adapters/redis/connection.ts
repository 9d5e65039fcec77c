/**
 * One connection to Redis. The driver queues nothing while it is lost and repeats nothing: a command gets a response,
 * is refused, or is `Unanswered`. The connection is restored in the background.
 */
import { hash, randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { RedisAddress } from "../../config/redis-address.ts";
import type { StorageUnavailable } from "../../core/errors.ts";
import { driverOptions, NOT_HERE } from "./driver.ts";
import { answerCode, asFault, closedFault, reason } from "./faults.ts";

/** A script, and the hash by which Redis caches it. */
export interface Script {
  readonly text: string;
  readonly sha: string;
}

/** Joins parts to a script. */
export function script(...parts: readonly string[]): Script {
  const text = parts.join("\n");
  return { text, sha: hash("sha1", text) };
}

/** A connection is replaced when it receives no data for this long while commands wait. */
const SILENCE_TIMEOUT_MS = 2000;
/** For one command, and for one attempt to connect. */
const COMMAND_TIMEOUT_MS = 4000;
/** Milliseconds between two attempts to connect, at most. */
const MAX_RECONNECT_DELAY_MS = 500;

/**
 * Makes the driver's client, which starts to connect.
 * @param key in the slot that holds all keys of the store, if this is a cluster.
 * @throws ConfigurationError for a file of the address that can't be used.
 */
export async function createClient(address: RedisAddress, key: string): Promise<Redis> {
  const { Redis: Client } = await import("ioredis");
  const client = new Client({
    ...(await driverOptions({ setting: "artifacts", address, key })),
    // With auto-pipelining the driver would send nothing more until it has all responses.
    enableAutoPipelining: false,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // The check uses INFO, which the user may not be allowed to run.
    enableReadyCheck: false,
    commandTimeout: COMMAND_TIMEOUT_MS,
    connectTimeout: COMMAND_TIMEOUT_MS,
    socketTimeout: SILENCE_TIMEOUT_MS,
    retryStrategy: (times) => Math.min(times * 20, MAX_RECONNECT_DELAY_MS),
    // The address leads to another server by now, or will.
    reconnectOnError: ({ message }) => NOT_HERE.test(message),
  });
  // Commands report the errors. Without a listener the driver prints them.
  client.on("error", () => undefined);
  return client;
}

export class Connection {
  readonly #client: Redis;
  /** How many calls are running. */
  #running = 0;
  #whenIdle: (() => void) | undefined;
  /** A lower bound of Redis's clock minus `performance.now()`; unknown on a new connection. */
  #offset: number | undefined;
  /** Why the last attempt to connect failed, until one succeeds. */
  #lost: string | undefined;
  /** Called when the connection is restored. */
  readonly #waiting = new Set<() => void>();
  #session: string = randomUUID();
  #closing: Promise<void> | undefined;

  /** @param client must be connected. */
  constructor(client: Redis) {
    this.#client = client;
    client.on("close", () => {
      this.#offset = undefined;
      this.#session = randomUUID();
    });
    client.on("error", (error: unknown) => (this.#lost = reason(error)));
    client.on("ready", () => {
      this.#lost = undefined;
      for (const tell of this.#waiting) tell();
      this.#waiting.clear();
    });
  }

  /** Runs one call of a store. `close()` waits for it. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw closedFault();
    this.#running += 1;
    try {
      return await work();
    } finally {
      this.#running -= 1;
      if (this.#running === 0) this.#whenIdle?.();
    }
  }

  /** @throws Unanswered, or StorageUnavailable when Redis sent an error. */
  async send<T>(command: (client: Redis) => Promise<T>): Promise<T> {
    try {
      return await command(this.#client);
    } catch (error) {
      throw this.#fault(error);
    }
  }

  #fault(error: unknown): StorageUnavailable {
    const code = answerCode(error) ?? "";
    // The driver now closes the connection. What waits on it has the same reason.
    if (NOT_HERE.test(code)) this.#lost = code;
    return asFault(error, this.#lost);
  }

  /**
   * Runs a script, and loads it if Redis has not cached it.
   * @throws as `send` does.
   */
  async run({ sha, text }: Script, keys: readonly string[], values: readonly string[]): Promise<unknown> {
    try {
      return await this.#client.evalsha(sha, keys.length, ...keys, ...values);
    } catch (error) {
      if (answerCode(error) !== "NOSCRIPT") throw this.#fault(error);
    }
    return this.send((client) => client.eval(text, keys.length, ...keys, ...values));
  }

  /** Changes with each loss of the connection, because the next one may lead to another Redis process. */
  get session(): string {
    return this.#session;
  }

  get isReady(): boolean {
    return this.#client.status === "ready";
  }

  /** Why there is no connection; `undefined` while there is one, or none was tried again yet. */
  get lost(): string | undefined {
    return this.#lost;
  }

  /**
   * Waits for a connection.
   * @returns whether there is one within that time.
   */
  async readyWithin(milliseconds: number): Promise<boolean> {
    if (this.isReady) return true;
    return new Promise((resolve) => {
      const tell = (): void => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(
        () => {
          this.#waiting.delete(tell);
          resolve(false);
        },
        Math.max(0, milliseconds),
      );
      this.#waiting.add(tell);
    });
  }

  /**
   * Redis's time at a moment on the scale of `performance.now()`, or slightly earlier.
   * @throws as `send` does.
   */
  async timeAt(moment: number): Promise<number> {
    if (this.#offset === undefined) this.updateClock(await this.send((client) => client.time()));
    return moment + (this.#offset ?? 0);
  }

  /** Updates the estimate from a response that contains Redis's time, as seconds and microseconds. */
  updateClock([seconds, micros]: readonly (number | string)[]): void {
    this.#offset = Number(seconds) * 1000 + Number(micros) / 1000 - performance.now();
  }

  /** Waits for the calls that are running. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve));
    this.#client.disconnect();
  }
}
