/** Artifacts and rate limits in Redis: what changes often and lives shortly, beside a storage for the rest. */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { readRedisAddress } from "../../config/redis-address.ts";
import type { Clock } from "../../lib/clock.ts";
import { ConfigurationError, StorageUnavailable } from "../../lib/errors.ts";
import type { ArtifactStore } from "../artifacts.ts";
import type { RateLimiterFactory } from "../rate-limits.ts";
import type { Storage } from "../storage.ts";
import { createArtifactStore } from "./artifacts.ts";
import { Connection, createClient } from "./connection.ts";
import { firstConnection, isPrimary, lookAt, type Purpose, unusable } from "./first-look.ts";
import { redisRateLimits } from "./rate-limits.ts";
import { type Ask, createAsk } from "./turns.ts";

/** The parts of a storage that Redis can be. */
export type RedisParts = Pick<Storage, "artifacts" | "rateLimits" | "parts" | "close">;

export interface RedisOptions {
  /** `redis://…` or `rediss://…`; see `readRedisAddress`. */
  readonly url: string;
  /** Decides what has expired. */
  readonly clock: Clock;
  /** Told what an operator should put right. Default: nobody. */
  readonly onWarning?: (text: string) => void;
  /** Milliseconds for the first connection; default 10,000. */
  readonly patience?: number;
}

type Tried = Pick<Storage, "artifacts" | "rateLimits">;

const PURPOSE: Purpose = {
  key: "artifacts",
  harm: "people are signed out and what was ended may come back",
};
const PREFIX = "sign-in:";
const PATIENCE = 10_000;

/** Does what a running service does: a user who may not is told so now. */
async function tryOut({ artifacts, rateLimits }: Tried, clock: Clock): Promise<void> {
  const key = `trial ${randomUUID()}`;
  const names = { grantKey: key, uid: key, accountId: key, clientId: key };
  const trial = { model: "Trial", key, payload: {}, expiresAt: clock.now() + 10_000, ...names };
  const deadline = clock.now() + 5000;
  await artifacts.commit({
    id: `put ${key}`,
    deadline,
    writes: [
      { kind: "put", artifact: trial },
      { kind: "consume", model: "Trial", key, at: 0, replay: "", replayUntil: trial.expiresAt },
    ],
  });
  await artifacts.find("Trial", key);
  await artifacts.findByUid("Trial", key);
  await artifacts.commit({
    id: `remove ${key}`,
    deadline,
    writes: [
      { kind: "update", artifact: trial, merge: "none" },
      { kind: "revoke", grantKey: key },
    ],
  });
  const limiter = rateLimits("trial", { points: 1, seconds: 1 });
  await limiter.take(key);
  await limiter.giveBack(key);
}

/** A connection that can serve. */
export interface ConnectedRedis {
  readonly client: Redis;
  readonly connection: Connection;
  readonly ask: Ask;
  /** What all keys begin with. */
  readonly prefix: string;
  readonly artifacts: ArtifactStore;
  readonly rateLimits: RateLimiterFactory;
}

/** @throws as {@link openRedis} does. */
export async function connectRedis(options: RedisOptions): Promise<ConnectedRedis> {
  const { url, clock, onWarning = () => undefined, patience = PATIENCE } = options;
  const address = readRedisAddress(url);
  if (typeof address === "string") throw new ConfigurationError([`config.artifacts: ${address}`]);
  const client = await createClient(address);
  try {
    await firstConnection(client, PURPOSE, patience);
    await lookAt(client, PURPOSE, onWarning);
    const connection = new Connection(client);
    const prefix = address.prefix ?? PREFIX;
    const ask = createAsk({ connection, prefix, clock });
    const artifacts = createArtifactStore({ connection, ask, prefix, clock });
    const rateLimits = redisRateLimits({ connection, ask, prefix, clock });
    await tryOut({ artifacts, rateLimits }, clock).catch((error: unknown) => {
      throw unusable(PURPOSE, error);
    });
    return { client, connection, ask, prefix, artifacts, rateLimits };
  } catch (error) {
    client.disconnect();
    throw error;
  }
}

/**
 * Connects to Redis. A connection that is lost later comes back by itself; until then every call is refused at once.
 * @throws ConfigurationError for a Redis Cluster, a replica, or an address that can't be read.
 * @throws StorageUnavailable when it does not answer in time, or does not let the user do what is needed.
 */
export async function openRedis(options: RedisOptions): Promise<RedisParts> {
  const { connection, artifacts, rateLimits } = await connectRedis(options);
  return {
    artifacts,
    rateLimits,
    parts: [
      {
        name: "artifacts",
        ping: () =>
          connection.during(async () => {
            // To the first Redis says that it still loads, or that it can't write to its disk.
            await connection.send((client) => client.ping());
            if (await connection.send(isPrimary)) return;
            connection.renew();
            throw new StorageUnavailable("this Redis is a replica");
          }),
      },
    ],
    close: () => connection.close(),
  };
}
