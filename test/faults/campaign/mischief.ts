/** The faults of the processes and servers while accounts are changed. */
import { setTimeout as pause } from "node:timers/promises";
import type { Callers } from "./callers.ts";
import type { Member } from "./member.ts";
import type { Random } from "./random.ts";
import type { RedisServer } from "./redis-servers.ts";
import type { StorageServer } from "./server.ts";

/** Milliseconds between two faults. */
const BETWEEN_WORKERS = 1000;
const BETWEEN_APPS = [1500, 3000] as const;
const BETWEEN_REDIS = [2500, 5000] as const;
/** Milliseconds for which Redis is down during a restart. */
const AWAY = [0, 600] as const;
const BETWEEN_SERVERS = [2000, 5000] as const;
/** Milliseconds for which a server of the storage hangs: now and then longer than a commit may wait. */
const STILL = [200, 1500] as const;
const LONG_STILL = 6000;
const LONG = 0.2;
/**
 * How many changes are answered between two faults of the storage. Otherwise, a slow machine would see nothing but
 * faults.
 */
const ANSWERS = 20;
/** The share of kills that hit a worker before it has started. */
const TOO_EARLY = 0.1;
/** Milliseconds between two checks for something to kill. */
const LOOK = 5;
/** An app is killed at most this many milliseconds after changes are seen in flight. */
const IN_THE_MIDDLE = 4;

export interface Targets {
  readonly workers: readonly Member[];
  readonly apps: readonly Member[];
  /** The queue, which may lose its data. */
  readonly redis: RedisServer | undefined;
  /** The servers of the storage. */
  readonly servers: readonly StorageServer[];
  readonly callers: Pick<Callers, "inFlight" | "answers">;
  readonly random: Random;
}

/** Counts of faults, without the kills of processes, which count their own. */
export interface ServerFaults {
  redisRestarts: number;
  redisFlushes: number;
  storageKills: number;
  storageStops: number;
  storageMoves: number;
}

export const NO_FAULTS: Readonly<ServerFaults> = {
  redisRestarts: 0,
  redisFlushes: 0,
  storageKills: 0,
  storageStops: 0,
  storageMoves: 0,
};

/**
 * Kills one worker every second, in turn: each has two seconds, minus the time that it needs to start. On a slower
 * machine it has more, because otherwise nothing would ever be delivered.
 */
async function killWorkers({ workers, random }: Targets, signal: AbortSignal): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    await pause(BETWEEN_WORKERS, undefined, { signal });
    const worker = workers[turn % workers.length]!;
    if (!random.chance(TOO_EARLY)) {
      while (!worker.hasWorked) await pause(LOOK, undefined, { signal });
    }
    worker.kill();
  }
}

async function killApps({ apps, callers, random }: Targets, signal: AbortSignal): Promise<void> {
  for (;;) {
    await pause(random.between(...BETWEEN_APPS), undefined, { signal });
    const app = random.pick(apps);
    while (!app.hasWorked || callers.inFlight(app) === 0) await pause(LOOK, undefined, { signal });
    await pause(random.below(IN_THE_MIDDLE), undefined, { signal });
    app.kill();
  }
}

async function spoilRedis(
  { redis, random }: Targets,
  faults: ServerFaults,
  signal: AbortSignal,
): Promise<void> {
  if (redis === undefined) return;
  for (;;) {
    await pause(random.between(...BETWEEN_REDIS), undefined, { signal });
    if (random.chance(0.5)) {
      await redis.empty();
      faults.redisFlushes += 1;
      continue;
    }
    await redis.kill();
    // Redis comes back even if the campaign ends meanwhile.
    await pause(random.between(...AWAY));
    await redis.start();
    faults.redisRestarts += 1;
  }
}

/** Kills each server in turn, lets it hang or moves its data, and always brings it back. */
async function strikeServers(
  { servers, callers, random }: Targets,
  faults: ServerFaults,
  signal: AbortSignal,
): Promise<void> {
  if (servers.length === 0) return;
  for (let turn = 0; ; turn += 1) {
    const enough = callers.answers + ANSWERS;
    await pause(random.between(...BETWEEN_SERVERS), undefined, { signal });
    while (callers.answers < enough) await pause(LOOK, undefined, { signal });
    const server = servers[Math.floor(turn / 2) % servers.length]!;
    if (turn % 2 === 0) {
      await server.kill();
      await pause(random.between(...AWAY));
      await server.start();
      faults.storageKills += 1;
    } else if (server.move !== undefined && faults.storageMoves < faults.storageStops) {
      await server.move();
      faults.storageMoves += 1;
    } else {
      server.pause();
      await pause(random.chance(LONG) ? LONG_STILL : random.between(...STILL));
      server.resume();
      faults.storageStops += 1;
    }
  }
}

export interface Mischief {
  readonly servers: Readonly<ServerFaults>;
  /** Resolves when there are no more faults; rejects when a fault could not be caused. */
  stop(): Promise<void>;
}

export function beginMischief(targets: Targets): Mischief {
  const faults: ServerFaults = { ...NO_FAULTS };
  const end = new AbortController();
  const { signal } = end;
  const running = [
    killWorkers(targets, signal),
    killApps(targets, signal),
    spoilRedis(targets, faults, signal),
    strikeServers(targets, faults, signal),
  ];
  const ended = Promise.allSettled(running);
  return {
    servers: faults,
    async stop() {
      end.abort();
      for (const each of await ended) {
        if (each.status === "rejected" && !isAbort(each.reason)) throw each.reason;
      }
    },
  };
}

function isAbort(error: unknown): boolean {
  return Error.isError(error) && error.name === "AbortError";
}
