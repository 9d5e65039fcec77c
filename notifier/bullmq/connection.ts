/** Connections to the Redis of `config.queue`. Its address may hold a password: no message repeats it. */
import type { Redis } from "ioredis";
import { StorageUnavailable } from "../../lib/errors.ts";

export interface OpenedRedis {
  /** For commands that may fail: nothing waits for a connection that is lost. */
  readonly client: Redis;
  /** A further connection for a worker, which waits as long as it takes. */
  forWorker(): Redis;
  /** Cuts all connections that were made here. */
  disconnect(): void;
  /** The rule by which this Redis forgets keys when its memory is full: `noeviction` is the one that fits. */
  readonly evictionPolicy: string;
}

/** Milliseconds for a command, and between two attempts to connect at most. */
const COMMAND = 5000;
const LONGEST_PAUSE = 2000;

const retryStrategy = (times: number): number => Math.min(times * 100, LONGEST_PAUSE);

/** A code that says what is wrong, and nothing of what was sent. */
function reason(error: unknown): string {
  if (!Error.isError(error)) return "no answer";
  const { code, message } = error as Error & { code?: unknown };
  return typeof code === "string" ? code : (/^[A-Z]{4,}\b/u.exec(message)?.[0] ?? "no answer");
}

async function within<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error("too late")), milliseconds);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Connects, and looks at how this Redis is set up.
 * @param patience milliseconds after which a Redis that has not answered is given up.
 * @throws StorageUnavailable when it can't be reached, refuses, or does not answer in time.
 */
export async function openRedis(url: string, patience: number): Promise<OpenedRedis> {
  const { Redis } = await import("ioredis");
  const common = { lazyConnect: true, maxRetriesPerRequest: null, retryStrategy };
  const client = new Redis(url, { ...common, enableOfflineQueue: false, commandTimeout: COMMAND });
  let last: unknown;
  client.on("error", (error) => (last = error));
  try {
    const memory = await within(
      patience,
      client.connect().then(() => client.info("memory")),
    );
    const evictionPolicy = /^maxmemory_policy:(\S+)/mu.exec(memory)?.[1] ?? "unknown";
    const all = [client];
    return {
      client,
      evictionPolicy,
      forWorker() {
        const connection = new Redis(url, common);
        all.push(connection);
        return connection;
      },
      disconnect: () => all.forEach((each) => each.disconnect()),
    };
  } catch (error) {
    client.disconnect();
    throw new StorageUnavailable(`the Redis of config.queue can't be used (${reason(last ?? error)})`);
  }
}
