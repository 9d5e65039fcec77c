/** Connections to the Redis of `config.queue`. */
import type { Redis } from "ioredis";
import { driverOptions } from "../../adapters/redis/connection.ts";
import { firstConnection, lookAt, type Purpose } from "../../adapters/redis/first-look.ts";
import type { RedisAddress } from "../../config/value-forms.ts";

export interface OpenedRedis {
  /** For commands that may fail: nothing waits for a connection that is lost. */
  readonly client: Redis;
  /** A further connection for a worker, which waits as long as it takes. Its duplicates are of the same kind. */
  forWorker(): Redis;
  /** Cuts all connections that were made here; what waits on them fails at once. */
  disconnect(): void;
  /** Whether something was told as a warning. */
  readonly warned: boolean;
}

export const PURPOSE: Purpose = {
  key: "queue",
  harm: "wake-ups get lost and notifications are late",
};

/** Milliseconds between two attempts to connect at most. */
const LONGEST_PAUSE = 2000;
/** Milliseconds without an answer after which a connection is cut and made anew. */
const SILENCE = 5000;
/** The same for a worker, where BullMQ lets Redis wait for 10 s at most. */
const WORKERS_SILENCE = 15_000;

const common = {
  retryStrategy: (times: number): number => Math.min(times * 100, LONGEST_PAUSE),
  // A primary that has become a replica: its address may lead to the new one by now.
  reconnectOnError: ({ message }: Error): boolean => message.startsWith("READONLY"),
};

/**
 * Between two attempts to connect, one that is told to end would stay as it is, with all that waits on it: the next
 * attempt is begun, to be broken off.
 */
function end(connection: Redis): void {
  if (connection.status === "reconnecting") connection.connect().catch(() => undefined);
  if (connection.status !== "end") connection.disconnect();
}

export interface QueueAddress {
  readonly address: RedisAddress;
  /** Milliseconds after which a Redis that has not answered is given up. */
  readonly patience: number;
  /** Told what an operator should put right. */
  readonly onWarning: (text: string) => void;
}

/**
 * Connects, and looks at how this Redis is set up.
 * @throws ConfigurationError for one that can't be the queue.
 * @throws StorageUnavailable when it can't be reached, refuses, or does not answer in time.
 */
export async function openRedis({ address, patience, onWarning }: QueueAddress): Promise<OpenedRedis> {
  const { Redis: Connection } = await import("ioredis");
  const all: Redis[] = [];
  const closed = new AbortController();

  function known(connection: Redis): Redis {
    all.push(connection);
    // Without a listener it would be told on the console. Looks that fail are told.
    connection.on("error", () => undefined);
    const duplicate = connection.duplicate.bind(connection);
    // For blocking commands, which BullMQ itself gives up.
    connection.duplicate = (override) => known(duplicate({ ...override, commandTimeout: undefined }));
    return connection;
  }

  const base = { ...(await driverOptions(address, closed.signal)), ...common };
  const failing = {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  };
  const client = known(new Connection({ ...base, ...failing, socketTimeout: SILENCE }));
  const disconnect = (): void => {
    // BullMQ opens the connection of a blocking command again, even of a worker that is being closed.
    closed.abort(new Error("Connection is closed."));
    all.forEach(end);
  };
  const warnings: string[] = [];
  try {
    await firstConnection(client, PURPOSE, patience);
    await lookAt(client, PURPOSE, (text) => void warnings.push(text));
  } catch (error) {
    disconnect();
    throw error;
  }
  warnings.forEach(onWarning);
  const warned = warnings.length > 0;
  const waiting = {
    maxRetriesPerRequest: null,
    socketTimeout: WORKERS_SILENCE,
    // ioredis drops what it meant to send again, unanswered, when it is closed between two connections. Without a
    // limit a worker that waits for such a command could not be closed.
    commandTimeout: WORKERS_SILENCE,
    // It asks for INFO, which the user may not be allowed.
    enableReadyCheck: !warned,
  };
  return { client, warned, disconnect, forWorker: () => known(new Connection({ ...base, ...waiting })) };
}
