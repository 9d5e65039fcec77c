/** Connections to the Redis of `config.queue`. */
import type { Redis } from "ioredis";
import { driverOptions, NOT_HERE } from "../../adapters/redis/driver.ts";
import { firstConnection, checkServer, type Purpose } from "../../adapters/redis/startup.ts";
import type { RedisAddress } from "../../config/redis-address.ts";

/** Begins all keys, unless the address names another. */
const PREFIX = "sign-in-service";

export interface OpenedRedis {
  /** Begins all keys. In a cluster it is in braces, so that all are in one slot. */
  readonly prefix: string;
  /** For commands that may fail: they don't wait for a lost connection. */
  readonly client: Redis;
  /** Opens a connection for a worker, whose commands wait as long as it takes. Its duplicates behave the same. */
  forWorker(): Redis;
  /** Closes all these connections; commands that wait on them fail immediately. */
  disconnect(): void;
  /** Whether there was a warning. */
  readonly warned: boolean;
}

export const PURPOSE: Purpose = {
  key: "queue",
  harm: "wake-ups get lost and notifications are late",
};

/** The longest pause between attempts to connect. */
const MAX_RETRY_PAUSE_MS = 2000;
/** How long a connection may stay silent before it is replaced. */
const SILENCE_TIMEOUT_MS = 5000;
/** The same for a worker, whose blocking commands BullMQ limits to 10 s. */
const WORKER_SILENCE_TIMEOUT_MS = 15_000;

const common = {
  retryStrategy: (times: number): number => Math.min(times * 100, MAX_RETRY_PAUSE_MS),
  // The address leads to another server by now, or will.
  reconnectOnError: ({ message }: Error): boolean => NOT_HERE.test(message),
};

/**
 * Ending a connection between two attempts to connect would neither close it nor reject the commands that wait for it.
 * So start the next attempt and end that one.
 */
function end(connection: Redis): void {
  if (connection.status === "reconnecting") connection.connect().catch(() => undefined);
  if (connection.status !== "end") connection.disconnect();
}

export interface QueueAddress {
  readonly address: RedisAddress;
  /** How long to wait for a Redis that does not answer. */
  readonly timeoutMs: number;
  /** Called with problems that an operator should fix. */
  readonly onWarning: (text: string) => void;
}

/**
 * Connects, and checks how this Redis is set up.
 * @throws ConfigurationError for a Redis that can't be the queue.
 * @throws StorageUnavailable when it can't be reached, refuses the connection, or does not answer in time.
 */
export async function openRedis({ address, timeoutMs, onWarning }: QueueAddress): Promise<OpenedRedis> {
  const { Redis: Connection } = await import("ioredis");
  const all: Redis[] = [];
  const closed = new AbortController();

  function known(connection: Redis): Redis {
    all.push(connection);
    // Failed polls report the fault. Without a listener ioredis prints it on the console.
    connection.on("error", () => undefined);
    const duplicate = connection.duplicate.bind(connection);
    // For blocking commands, whose duration BullMQ limits itself.
    connection.duplicate = (override) => known(duplicate({ ...override, commandTimeout: undefined }));
    return connection;
  }

  const { kind, prefix: given = PREFIX } = address;
  const prefix = kind === "cluster" ? `{${given}}` : given;
  const options = await driverOptions({ setting: "queue", address, key: prefix, closed: closed.signal });
  const base = { ...options, ...common };
  const failing = {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  };
  const client = known(new Connection({ ...base, ...failing, socketTimeout: SILENCE_TIMEOUT_MS }));
  const disconnect = (): void => {
    // BullMQ reopens the connection for blocking commands, even of a worker that is closing.
    closed.abort(new Error("Connection is closed."));
    all.forEach(end);
  };
  const warnings: string[] = [];
  try {
    await firstConnection(client, PURPOSE, timeoutMs);
    await checkServer(client, { ...PURPOSE, kind }, (text) => void warnings.push(text));
  } catch (error) {
    disconnect();
    throw error;
  }
  warnings.forEach(onWarning);
  const warned = warnings.length > 0;
  const waiting = {
    maxRetriesPerRequest: null,
    socketTimeout: WORKER_SILENCE_TIMEOUT_MS,
    // ioredis drops commands that it meant to resend, without rejecting them, when it is closed between two connections.
    // Without this limit a worker that waits for such a command could not be closed.
    commandTimeout: WORKER_SILENCE_TIMEOUT_MS,
    // The check calls INFO, which the user may not be allowed to.
    enableReadyCheck: !warned,
  };
  return {
    prefix,
    client,
    warned,
    disconnect,
    forWorker: () => known(new Connection({ ...base, ...waiting })),
  };
}
