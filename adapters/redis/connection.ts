/**
 * One connection to Redis. The driver queues nothing while it is lost and repeats nothing: a command gets a response,
 * is refused, or is `Unanswered`. The connection is restored in the background.
 */
import { hash, randomUUID } from "node:crypto";
import { createConnection, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { CommonRedisOptions, Redis, StandaloneConnectionOptions } from "ioredis";
import type { RedisAddress } from "../../config/redis-address.ts";
import { StorageUnavailable } from "../../core/errors.ts";

// The driver's errors contain the whole command, so they are never passed on.

/** It is unknown whether Redis has run the command. */
export class Unanswered extends StorageUnavailable {}

/** Redis's message under the code `ERR` when a script runs a command that the user may not use. */
const NOT_ALLOWED = /\bNOPERM\b|can't run this command/u;

function codeOf(said: string): string {
  if (NOT_ALLOWED.test(said)) return "NOPERM";
  return /^[A-Z]{3,}\b/u.exec(said)?.[0] ?? "ERR";
}

/** The code of an error that Redis sent, such as `OOM` or `NOSCRIPT`; `undefined` for other errors. */
export function answerCode(error: unknown): string | undefined {
  return Error.isError(error) && error.name === "ReplyError" ? codeOf(error.message) : undefined;
}

/** The reason in one word, without values. */
export function reason(error: unknown): string {
  const code: unknown = Error.isError(error) ? Reflect.get(error, "code") : undefined;
  return answerCode(error) ?? (typeof code === "string" ? code : "no answer");
}

/** The fault for an error that Redis sent. */
function refusedFault(message: string): StorageUnavailable {
  const code = codeOf(message);
  return new StorageUnavailable(`Redis answered ${code}`, { reason: code });
}

/**
 * The fault for an error of a command.
 * @param lost why there is no connection, if there is none: the driver does not say so in the error of a command.
 */
export function asFault(error: unknown, lost?: string): StorageUnavailable {
  if (answerCode(error) !== undefined) return refusedFault((error as Error).message);
  const why = lost ?? reason(error);
  return new Unanswered(`Redis did not answer (${why})`, { reason: why });
}

/** The error of every call after `close()`. */
function closedFault(): StorageUnavailable {
  return new StorageUnavailable("the connection to Redis is closed", { reason: "closed" });
}

/** For the server to close a connection, before the socket is destroyed. */
const CLOSE_TIMEOUT_MS = 200;

/** The driver's options for the address. */
type DriverOptions = Pick<CommonRedisOptions, "username" | "password" | "db" | "Connector"> &
  Pick<StandaloneConnectionOptions, "host" | "port" | "tls">;

/**
 * Sends the writes of one tick to the socket together. A write costs Node.js more than the command in it: without this,
 * a code exchange takes a tenth more CPU.
 */
function combineWrites(socket: Socket): Socket {
  const write = socket.write.bind(socket) as (...values: unknown[]) => boolean;
  socket.write = (...values: unknown[]) => {
    if (socket.writableCorked === 0) {
      socket.cork();
      process.nextTick(() => socket.uncork());
    }
    return write(...values);
  };
  return socket;
}

/** @param closed no further connections are opened once it is aborted. */
export async function driverOptions(address: RedisAddress, closed?: AbortSignal): Promise<DriverOptions> {
  const { host, port, username, password, db } = address;
  // A host name selects the certificate (SNI); an IP address can't. Either is verified against the certificate.
  const tls = address.tls ? (isIP(host) === 0 ? { servername: host } : {}) : undefined;
  const { AbstractConnector } = await import("ioredis");

  /**
   * Opens sockets. A TLS socket that is closed while its certificate is refused emits two errors. ioredis's own
   * connector listens for the first one only, so the second one would end the process.
   */
  class Connector extends AbstractConnector {
    constructor() {
      super(CLOSE_TIMEOUT_MS);
    }

    override async connect(): Promise<Socket> {
      closed?.throwIfAborted();
      this.connecting = true;
      await new Promise<void>((resolve) => process.nextTick(resolve));
      if (!this.connecting) throw new Error("Connection is closed.");
      const socket =
        tls === undefined ? createConnection({ host, port }) : connectTls({ host, port, ...tls });
      socket.on("error", (error) => (this.firstError ??= error));
      return (this.stream = combineWrites(socket));
    }
  }

  return {
    host,
    port,
    db,
    Connector,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls === undefined ? {} : { tls }),
  };
}

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

/** Makes the driver's client, which starts to connect. */
export async function createClient(address: RedisAddress): Promise<Redis> {
  const { Redis: Client } = await import("ioredis");
  const client = new Client({
    ...(await driverOptions(address)),
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
    // The primary has become a replica. Its address may point to the new primary by now.
    reconnectOnError: (error) => error.message.includes("READONLY"),
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
      throw asFault(error, this.#lost);
    }
  }

  /**
   * Runs a script, and loads it if Redis has not cached it.
   * @throws as `send` does.
   */
  async run({ sha, text }: Script, keys: readonly string[], values: readonly string[]): Promise<unknown> {
    try {
      return await this.#client.evalsha(sha, keys.length, ...keys, ...values);
    } catch (error) {
      if (answerCode(error) !== "NOSCRIPT") throw asFault(error, this.#lost);
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
