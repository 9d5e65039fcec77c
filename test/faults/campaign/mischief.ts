/** What is done to the processes and to Redis while accounts are changed. */
import { setTimeout as pause } from "node:timers/promises";
import type { OwnRedis } from "../../servers/redis.ts";
import type { Callers } from "./callers.ts";
import type { Member } from "./member.ts";
import type { Random } from "./random.ts";

/** Milliseconds between two faults. */
const BETWEEN_WORKERS = 1000;
const BETWEEN_APPS = [1500, 3000] as const;
const BETWEEN_REDIS = [2500, 5000] as const;
/** Milliseconds for which Redis is away when it is restarted. */
const AWAY = [0, 600] as const;
/** How often a worker is killed that has not started yet. */
const TOO_EARLY = 0.1;
/** Milliseconds between two looks for something to kill. */
const LOOK = 5;
/** An app is killed so many milliseconds at most after it is seen that changes are in flight. */
const IN_THE_MIDDLE = 4;

export interface Targets {
  readonly workers: readonly Member[];
  readonly apps: readonly Member[];
  readonly redis: OwnRedis | undefined;
  readonly callers: Pick<Callers, "inFlight">;
  readonly random: Random;
}

/** Counts of faults beside the kills, which the processes count themselves. */
export interface RedisFaults {
  restarts: number;
  flushes: number;
}

/**
 * One worker every second, in turns: each has two seconds, less what it needs to start. On a machine on which that
 * takes longer it has more, or nothing would ever be delivered.
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
  faults: RedisFaults,
  signal: AbortSignal,
): Promise<void> {
  if (redis === undefined) return;
  for (;;) {
    await pause(random.between(...BETWEEN_REDIS), undefined, { signal });
    if (random.chance(0.5)) {
      await redis.client.flushall();
      faults.flushes += 1;
      continue;
    }
    await redis.stop();
    // It is there again in any case, whenever the campaign ends.
    await pause(random.between(...AWAY));
    await redis.start();
    faults.restarts += 1;
  }
}

export interface Mischief {
  readonly redis: Readonly<RedisFaults>;
  /** Resolves when nothing more happens; rejects when a fault could not be made. */
  stop(): Promise<void>;
}

export function beginMischief(targets: Targets): Mischief {
  const faults: RedisFaults = { restarts: 0, flushes: 0 };
  const end = new AbortController();
  const { signal } = end;
  const running = [
    killWorkers(targets, signal),
    killApps(targets, signal),
    spoilRedis(targets, faults, signal),
  ];
  const ended = Promise.allSettled(running);
  return {
    redis: faults,
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
