/** Connections to the Redis of `config.queue`. Its address may hold a password: no message repeats it. */
import { isIP } from "node:net";
import type { Redis } from "ioredis";
import type { RedisAddress } from "../../config/redis-address.ts";
import { ConfigurationError, StorageUnavailable } from "../../lib/errors.ts";

export interface OpenedRedis {
  /** For commands that may fail: nothing waits for a connection that is lost. */
  readonly client: Redis;
  /** A further connection for a worker, which waits as long as it takes. Its duplicates are of the same kind. */
  forWorker(): Redis;
  /** Cuts all connections that were made here; what waits on them fails at once. */
  disconnect(): void;
  /** The rule by which this Redis forgets keys when its memory is full, if it says. `noeviction` is the one that fits. */
  readonly evictionPolicy: string | undefined;
}

/** Milliseconds for a command, and between two attempts to connect at most. */
const COMMAND = 5000;
const LONGEST_PAUSE = 2000;
/** Milliseconds for an answer on a worker's connection, where BullMQ waits for 10 s at most. */
const SILENCE = 15_000;
/** Milliseconds for the other side to close a connection that was ended here. */
const FAREWELL = 200;

const common = {
  maxRetriesPerRequest: null,
  retryStrategy: (times: number): number => Math.min(times * 100, LONGEST_PAUSE),
  // A primary that has become a replica: its address may lead to the new one by now.
  reconnectOnError: ({ message }: Error): boolean => message.startsWith("READONLY"),
  disconnectTimeout: FAREWELL,
};

/** What may be over in a moment, as when both are being started. */
const PASSING: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "LOADING",
]);

/** How the answer to INFO shows a Redis that can't be the queue, and why it can't. */
const UNFIT: readonly (readonly [RegExp, string])[] = [
  [/^cluster_enabled:1/mu, "this is a Redis Cluster, which can't be used: name one server, a primary"],
  [/^role:slave/mu, "this Redis is a replica: name the primary"],
  [/^redis_version:(?:[0-5]|6\.[01])\./mu, "this Redis is too old: version 6.2 or later is needed"],
];

/** A code that says what is wrong, and nothing of what was sent. */
function reason(error: unknown): string {
  if (!Error.isError(error)) return "no answer";
  const { code, message } = error as Error & { code?: unknown };
  return typeof code === "string" ? code : (/^[A-Z]{3,}\b/u.exec(message)?.[0] ?? "no answer");
}

/** What a Redis that can't be used is told as. */
export function unusable(error: unknown): StorageUnavailable {
  return new StorageUnavailable(`the Redis of config.queue can't be used (${reason(error)})`);
}

/** Waits until it can be used. @throws the error that won't pass, or the last one when it takes too long. */
async function ready(client: Redis, patience: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let last: unknown;
  const timer = setTimeout(() => reject(last), patience);
  client.once("ready", resolve);
  client.on("error", (error) => {
    last = error;
    if (!PASSING.has(reason(error))) reject(error);
  });
  try {
    await promise;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Between two attempts to connect, one that is told to end would stay as it is, with all that waits on it: the next
 * attempt is begun, to be broken off.
 */
function end(connection: Redis): void {
  if (connection.status === "reconnecting") connection.connect().catch(() => undefined);
  if (connection.status !== "end") connection.disconnect();
}

function optionsOf({ host, port, username, password, db, tls }: RedisAddress): object {
  return {
    host,
    port,
    db,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    // A name says which certificate is wanted; an address can't. Both are checked against it.
    ...(tls ? { tls: isIP(host) === 0 ? { servername: host } : {} } : {}),
  };
}

/**
 * Connects, and looks at how this Redis is set up.
 * @param patience milliseconds after which a Redis that has not answered is given up.
 * @throws ConfigurationError for one that can't be the queue.
 * @throws StorageUnavailable when it can't be reached, refuses, or does not answer in time.
 */
export async function openRedis(address: RedisAddress, patience: number): Promise<OpenedRedis> {
  const { Redis: Connection } = await import("ioredis");
  const all: Redis[] = [];

  function known(connection: Redis): Redis {
    all.push(connection);
    // Without a listener it would be told on the console. Looks that fail are told.
    connection.on("error", () => undefined);
    const duplicate = connection.duplicate.bind(connection);
    connection.duplicate = (override) => known(duplicate(override));
    return connection;
  }

  const base = { ...optionsOf(address), ...common };
  const client = known(new Connection({ ...base, enableOfflineQueue: false, commandTimeout: COMMAND }));
  const disconnect = (): void => all.forEach(end);
  try {
    await ready(client, patience);
    const info = await client.info();
    const [, unfit] = UNFIT.find(([sign]) => sign.test(info)) ?? [];
    if (unfit !== undefined) throw new ConfigurationError([`config.queue: ${unfit}`]);
    return {
      client,
      evictionPolicy: /^maxmemory_policy:(\S+)/mu.exec(info)?.[1],
      forWorker: () => known(new Connection({ ...base, socketTimeout: SILENCE })),
      disconnect,
    };
  } catch (error) {
    disconnect();
    throw error instanceof ConfigurationError ? error : unusable(error);
  }
}
