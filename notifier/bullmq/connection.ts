/** Connections to the Redis of `config.queue`. Its address may hold a password: no message repeats it. */
import type { Redis } from "ioredis";
import { ConfigurationError, StorageUnavailable } from "../../lib/errors.ts";

export interface OpenedRedis {
  /** For commands that may fail: nothing waits for a connection that is lost. */
  readonly client: Redis;
  /** A further connection for a worker, which waits as long as it takes. Its duplicates are of the same kind. */
  forWorker(): Redis;
  /** Cuts all connections that were made here; what waits on them fails at once. */
  disconnect(): void;
  /** The rule by which this Redis forgets keys when its memory is full: `noeviction` is the one that fits. */
  readonly evictionPolicy: string;
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
  // A primary that has become a replica: its name leads to the new one.
  reconnectOnError: ({ message }: Error): boolean => message.startsWith("READONLY"),
  disconnectTimeout: FAREWELL,
};

/** What may be over in a moment, as when both are being started. */
const PASSING = new Set([
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
  [/^cluster_enabled:1/mu, "is a Redis Cluster, which is not supported: the queue needs a single Redis"],
  [/^role:slave/mu, "is a replica, which can't be written to: give the address of its primary"],
  [/^redis_version:(?:[0-5]|6\.[01])\./mu, "is too old: the queue needs Redis 6.2 or later"],
];

/** A code that says what is wrong, and nothing of what was sent. */
function reason(error: unknown): string {
  if (!Error.isError(error)) return "no answer";
  const { code, message } = error as Error & { code?: unknown };
  return typeof code === "string" ? code : (/^[A-Z]{3,}\b/u.exec(message)?.[0] ?? "no answer");
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

/**
 * Connects, and looks at how this Redis is set up.
 * @param patience milliseconds after which a Redis that has not answered is given up.
 * @throws ConfigurationError for one that can't be the queue.
 * @throws StorageUnavailable when it can't be reached, refuses, or does not answer in time.
 */
export async function openRedis(url: string, patience: number): Promise<OpenedRedis> {
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

  const client = known(
    new Connection(url, { ...common, enableOfflineQueue: false, commandTimeout: COMMAND }),
  );
  const disconnect = (): void => all.forEach(end);
  try {
    await ready(client, patience);
    const info = await client.info();
    const [, unfit] = UNFIT.find(([sign]) => sign.test(info)) ?? [];
    if (unfit !== undefined) throw new ConfigurationError([`config.queue: ${unfit}`]);
    return {
      client,
      evictionPolicy: /^maxmemory_policy:(\S+)/mu.exec(info)?.[1] ?? "unknown",
      forWorker: () => known(new Connection(url, { ...common, socketTimeout: SILENCE })),
      disconnect,
    };
  } catch (error) {
    disconnect();
    if (error instanceof ConfigurationError) throw error;
    throw new StorageUnavailable(`the Redis of config.queue can't be used (${reason(error)})`);
  }
}
