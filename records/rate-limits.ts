/** Rate limits: points in fixed windows, which all processes with the storage share. */
import type { Clock } from "../core/clock.ts";
import { KeyedBatches } from "../core/keyed-batches.ts";
import { defineKind, type Kind } from "./kinds.ts";
import type { Records, RefTo } from "./records.ts";

/** A limit, and what it counts. */
export interface Bucket {
  /** The name of the limit. Limits with different names share no points. */
  readonly limit: string;
  /** How often it is allowed in each window. */
  readonly points: number;
  /** The length of a window. */
  readonly seconds: number;
  /** What is counted. Any string; the service uses keyed hashes. */
  readonly key: string;
}

/** The answer to a request for a point. */
export interface Taken {
  /** False when no point was left: refuse the request, even if its secret is right. */
  readonly allowed: boolean;
  /** Seconds until there is a point again, for `Retry-After`. */
  readonly retryAfter: number;
  /** How many points of the window are taken, with this one. */
  readonly used: number;
  /** Seconds until the window ends, and all points are there again. */
  readonly endsIn: number;
}

interface TakeOptions {
  readonly evenly?: boolean;
}

/**
 * A window begins with the first point that is taken and ends as a whole. Refused requests are not counted, and giving
 * points back never makes more than the limit. Calls take effect in order, even before they are awaited, and parallel
 * calls of any number of processes never get more points than there are. Faults reject with `StorageUnavailable`.
 */
export interface RateLimits {
  /**
   * Takes one point from each bucket, or none if one of them has none left.
   * @param options.evenly a refusal writes as many records as a point, so that the time does not tell them apart.
   * @returns the answer of each bucket.
   */
  take(buckets: readonly Bucket[], options?: TakeOptions): Promise<readonly Taken[]>;
  /** Whether each bucket has a point, without taking it. */
  look(buckets: readonly Bucket[]): Promise<readonly Taken[]>;
  /** Gives one point back to each bucket after a success. */
  giveBack(buckets: readonly Bucket[]): Promise<void>;
}

interface Window {
  readonly taken: number;
  readonly ends_at_ms: number;
}

/** The open window of a bucket. A power failure may lose it, so it is written relaxed. */
export const RATE_LIMIT: Kind<Window> = defineKind({
  name: "rate-limit",
  holds: "the points taken from a rate limit",
  key: "the limit, and a keyed hash of what it counts",
  expires: "with its window",
  expiresAt: ({ ends_at_ms }) => ends_at_ms,
  store: "artifacts",
  exported: false,
  afterRestore: "kept",
  personal: undefined,
});

/** Calls that one commit applies at most. */
const MAX_BATCH = 100;

interface Step {
  readonly buckets: readonly Bucket[];
  /** Points to add: 1 to take, -1 to give back, 0 to look. */
  readonly points: 1 | 0 | -1;
  readonly evenly?: boolean | undefined;
}

/** The windows of one batch while its steps are applied. */
class Windows {
  readonly #now: number;
  readonly #windows: ReadonlyMap<string, Window | undefined>;
  readonly changed = new Map<string, Window | undefined>();

  constructor(windows: ReadonlyMap<string, Window | undefined>, now: number) {
    this.#windows = windows;
    this.#now = now;
  }

  /** Applies a step. @returns the answer of each bucket. */
  apply({ buckets, points, evenly = false }: Step): Taken[] {
    const answers = buckets.map((bucket) => this.#answer(bucket));
    const isRefused = points === 1 && answers.some(({ allowed }) => !allowed);
    if (points === 0 || (isRefused && !evenly)) return answers;
    for (const bucket of buckets) {
      const { taken = 0, ends_at_ms = this.#latestEnd(bucket) } = this.#open(bucket) ?? {};
      const after = isRefused ? taken : taken + points;
      this.changed.set(nameOf(bucket), after > 0 || isRefused ? { taken: after, ends_at_ms } : undefined);
    }
    if (isRefused) return answers;
    return answers.map((answer) => Object.assign({}, answer, { used: answer.used + points }));
  }

  #answer(bucket: Bucket): Taken {
    const open = this.#open(bucket);
    const { taken: used, ends_at_ms } = open ?? { taken: 0, ends_at_ms: this.#latestEnd(bucket) };
    const endsIn = Math.max(1, Math.ceil((ends_at_ms - this.#now) / 1000));
    const allowed = used < bucket.points;
    return { allowed, retryAfter: allowed ? 0 : endsIn, used, endsIn };
  }

  #open(bucket: Bucket): Window | undefined {
    const name = nameOf(bucket);
    const window = this.changed.has(name) ? this.changed.get(name) : this.#windows.get(name);
    if (window === undefined || window.ends_at_ms <= this.#now) return undefined;
    // The limit may have been shortened since the window began.
    return { ...window, ends_at_ms: Math.min(window.ends_at_ms, this.#latestEnd(bucket)) };
  }

  #latestEnd({ seconds }: Bucket): number {
    return this.#now + seconds * 1000;
  }
}

function refOf({ limit, key }: Bucket): RefTo<Window> {
  return RATE_LIMIT.ref([limit, key]);
}

function nameOf(bucket: Bucket): string {
  return refOf(bucket).key;
}

/**
 * The rate limits in a store. What a process asks for while its last commit is under way goes into the next one, so its
 * requests never conflict with each other; those of other processes make it decide again.
 */
export function createRateLimits(records: Records, clock: Clock): RateLimits {
  const queue = new KeyedBatches<Step, readonly Taken[]>((_key, steps) => applyAll(steps), MAX_BATCH);

  function applyAll(steps: readonly Step[]): Promise<Taken[][]> {
    const buckets = new Map(
      steps.flatMap((step) => step.buckets.map((each) => [nameOf(each), each] as const)),
    );
    return records.transact(
      async (tx) => {
        const found = await tx.peekAll([...buckets.values()].map(refOf));
        const windows = new Windows(
          new Map([...buckets.keys()].map((name, at) => [name, found[at]])),
          clock.now(),
        );
        const answers = steps.map((step) => windows.apply(step));
        for (const [name, bucket] of buckets) {
          if (!windows.changed.has(name)) continue;
          const window = windows.changed.get(name);
          if (window === undefined) tx.remove(refOf(bucket));
          else tx.put(RATE_LIMIT.record(window, { key: [bucket.limit, bucket.key] }));
        }
        return answers;
      },
      { relaxed: true },
    );
  }

  const add = (step: Step): Promise<readonly Taken[]> => queue.add("", step);

  return {
    take: (buckets, options) => add({ buckets, points: 1, evenly: options?.evenly }),
    look: (buckets) => add({ buckets, points: 0 }),
    async giveBack(buckets) {
      await add({ buckets, points: -1 });
    },
  };
}

/** The same limits; `onRefused` is called for each bucket that refuses an attempt. */
export function tellingRefusals(limits: RateLimits, onRefused: (limit: string) => void): RateLimits {
  async function told(
    buckets: readonly Bucket[],
    asked: Promise<readonly Taken[]>,
  ): Promise<readonly Taken[]> {
    const answers = await asked;
    for (const [index, { allowed }] of answers.entries()) {
      const limit = buckets[index]?.limit;
      if (!allowed && limit !== undefined) onRefused(limit);
    }
    return answers;
  }
  return {
    take: (buckets, options) => told(buckets, limits.take(buckets, options)),
    look: (buckets) => told(buckets, limits.look(buckets)),
    giveBack: (buckets) => limits.giveBack(buckets),
  };
}
