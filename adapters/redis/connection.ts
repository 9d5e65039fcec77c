/**
 * One connection to Redis. Nothing waits for a connection that is lost and nothing is sent again by the driver: a
 * command is answered, refused, or `Unanswered`. It comes back by itself.
 */
import { hash, randomUUID } from "node:crypto";
import { createConnection, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { CommonRedisOptions, Redis, StandaloneConnectionOptions } from "ioredis";
import type { RedisAddress } from "../../config/value-forms.ts";
import { StorageUnavailable } from "../errors.ts";

// The errors of the driver carry the command with all that was sent, so none of them is passed on.

/** Nobody knows whether Redis has run the command. */
export class Unanswered extends StorageUnavailable {}

/** What Redis says, under the code `ERR`, when a command inside of a script is not allowed to the user. */
const NOT_ALLOWED = /\bNOPERM\b|can't run this command/u;

function codeOf(said: string): string {
  if (NOT_ALLOWED.test(said)) return "NOPERM";
  return /^[A-Z]{3,}\b/u.exec(said)?.[0] ?? "ERR";
}

/** The code at the front of an answer of Redis, such as `OOM` or `NOSCRIPT`; `undefined` when it was no answer. */
export function answerCode(error: unknown): string | undefined {
  return Error.isError(error) && error.name === "ReplyError" ? codeOf(error.message) : undefined;
}

/** What is wrong, in one word that holds nothing of what was sent. */
export function reason(error: unknown): string {
  const code: unknown = Error.isError(error) ? Reflect.get(error, "code") : undefined;
  return answerCode(error) ?? (typeof code === "string" ? code : "no answer");
}

/** An error with which Redis has answered. */
function refusedFault(said: string): StorageUnavailable {
  return new StorageUnavailable(`Redis answered ${codeOf(said)}`);
}

/** An error of a command. */
export function asFault(error: unknown): StorageUnavailable {
  return answerCode(error) === undefined
    ? new Unanswered(`Redis did not answer (${reason(error)})`)
    : refusedFault((error as Error).message);
}

/** What every call gets after `close()`. */
function closedFault(): StorageUnavailable {
  return new StorageUnavailable("the connection to Redis is closed");
}

/** Milliseconds that the server has to close a connection before the socket is destroyed. */
const CLOSE_TIMEOUT = 200;

/** Where to connect to, as whom, and how. */
type DriverOptions = Pick<CommonRedisOptions, "username" | "password" | "db" | "Connector"> &
  Pick<StandaloneConnectionOptions, "host" | "port" | "tls">;

/** @param closed when it is aborted, no further connection is opened, whoever asks for it. */
export async function driverOptions(address: RedisAddress, closed?: AbortSignal): Promise<DriverOptions> {
  const { host, port, username, password, db } = address;
  // A host name selects the certificate (SNI), an IP address can't. The certificate is checked against either.
  const tls = address.tls ? (isIP(host) === 0 ? { servername: host } : {}) : undefined;
  const { AbstractConnector } = await import("ioredis");

  /**
   * Opens the sockets. A TLS socket that is closed while its certificate is being refused emits two errors. ioredis's
   * own connector listens for the first one only, and the second one would end the process.
   */
  class Connector extends AbstractConnector {
    constructor() {
      super(CLOSE_TIMEOUT);
    }

    override async connect(): Promise<Socket> {
      closed?.throwIfAborted();
      this.connecting = true;
      await new Promise<void>((resolve) => process.nextTick(resolve));
      if (!this.connecting) throw new Error("Connection is closed.");
      const socket =
        tls === undefined ? createConnection({ host, port }) : connectTls({ host, port, ...tls });
      socket.on("error", (error) => (this.firstError ??= error));
      return (this.stream = socket);
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

/** A script and the name under which Redis remembers it. */
export interface Script {
  readonly text: string;
  readonly sha: string;
}

/** A script of these parts, one after the other. */
export function script(...parts: readonly string[]): Script {
  const text = parts.join("\n");
  return { text, sha: hash("sha1", text) };
}

/** Milliseconds without a byte of an answer after which the connection is cut and made anew. */
const SILENCE = 2000;
/** Milliseconds for one command, and for one attempt to connect. */
const COMMAND = 4000;
/** Milliseconds between two attempts to connect at most. */
const LONGEST_PAUSE = 500;

/** Makes the driver's client; it begins to connect at once. */
export async function createClient(address: RedisAddress): Promise<Redis> {
  const { Redis: Client } = await import("ioredis");
  const client = new Client({
    ...(await driverOptions(address)),
    // It sends nothing more until all that it has sent is answered.
    enableAutoPipelining: false,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // It asks for INFO, which a user may not be allowed.
    enableReadyCheck: false,
    commandTimeout: COMMAND,
    connectTimeout: COMMAND,
    socketTimeout: SILENCE,
    retryStrategy: (times) => Math.min(times * 20, LONGEST_PAUSE),
    // A primary that has become a replica: its address may lead to the new one by now.
    reconnectOnError: (error) => error.message.includes("READONLY"),
  });
  // Told by the commands that fail; without a listener the driver prints it.
  client.on("error", () => undefined);
  return client;
}

export class Connection {
  readonly #client: Redis;
  /** How many calls are running. */
  #running = 0;
  #whenIdle: (() => void) | undefined;
  /** The clock of Redis is at least so many milliseconds ahead of the one of `performance`; unknown on a new connection. */
  #ahead: number | undefined;
  /** Told when there is a connection again. */
  readonly #waiting = new Set<() => void>();
  #session: string = randomUUID();
  #closing: Promise<void> | undefined;

  /** @param client is connected. */
  constructor(client: Redis) {
    this.#client = client;
    client.on("close", () => {
      this.#ahead = undefined;
      this.#session = randomUUID();
    });
    client.on("ready", () => {
      for (const tell of this.#waiting) tell();
      this.#waiting.clear();
    });
  }

  /** Runs the whole of one call of a store: `close()` waits for it. */
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

  /** @throws Unanswered, or StorageUnavailable when Redis answered with an error. */
  async send<T>(command: (client: Redis) => Promise<T>): Promise<T> {
    try {
      return await command(this.#client);
    } catch (error) {
      throw asFault(error);
    }
  }

  /** Runs a script, which Redis may have forgotten. @throws as `send` does. */
  async run({ sha, text }: Script, keys: readonly string[], values: readonly string[]): Promise<unknown> {
    try {
      return await this.#client.evalsha(sha, keys.length, ...keys, ...values);
    } catch (error) {
      if (answerCode(error) !== "NOSCRIPT") throw asFault(error);
    }
    return this.send((client) => client.eval(text, keys.length, ...keys, ...values));
  }

  /** Another one after each loss of the connection: behind it there may be another process of Redis. */
  get session(): string {
    return this.#session;
  }

  get isReady(): boolean {
    return this.#client.status === "ready";
  }

  /** Waits for a connection. @returns whether there is one; not after so many milliseconds. */
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
   * The time of Redis at a time of `performance`: never later than it will be there by then.
   * @throws as `send` does.
   */
  async timeAt(moment: number): Promise<number> {
    if (this.#ahead === undefined) this.heard(await this.send((client) => client.time()));
    return moment + (this.#ahead ?? 0);
  }

  /** An answer of Redis with its time, seconds and microseconds, has just come. */
  heard([seconds, micros]: readonly (number | string)[]): void {
    this.#ahead = Number(seconds) * 1000 + Number(micros) / 1000 - performance.now();
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
