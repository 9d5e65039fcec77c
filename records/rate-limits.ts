/** Rate limits: points in fixed windows, which all processes with the storage share. */
import type { Clock } from "../core/clock.ts";
import { ConditionFailed, StorageUnavailable } from "../core/errors.ts";
import { KeyedBatches } from "../core/keyed-batches.ts";
import { defineKind, type Kind } from "./kinds.ts";
import { type Changes, type Records, type RefTo, Transaction } from "./records.ts";

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

/** The answer about one bucket. */
export interface LimitAnswer {
  /** False when no point was left: refuse the request, even if its secret is right. */
  readonly allowed: boolean;
  /** Seconds until there is a point again, for `Retry-After`. */
  readonly retryAfter: number;
  /** How many points of the window are consumed, with this one. */
  readonly used: number;
  /** Seconds until the window ends, and all points are there again. */
  readonly endsIn: number;
}

interface ConsumeOptions {
  /** How many points, all or none. Default 1. */
  readonly points?: number | undefined;
  readonly evenly?: boolean;
  readonly rider?: Rider | undefined;
}

/**
 * What is written in the commit that takes or refunds points, durably: both happen, or neither. A refused attempt writes
 * nothing. If a condition does not hold, the call rejects with `ConditionFailed`, and no point has moved.
 */
export interface Rider {
  readonly changes: Changes;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
  /** Gets the version of the written records. */
  readonly onWritten: (version: string) => void;
}

/**
 * A window begins with the first point that is consumed and ends as a whole. Refused requests are not counted, and
 * refunds never make more points than the limit. Calls take effect in order, even before they are awaited, and parallel
 * calls of any number of processes never get more points than there are. Faults reject with `StorageUnavailable`.
 */
export interface RateLimits {
  /**
   * Consumes one point of each bucket, or as many as asked for, or none if one of them has not as many left.
   * @param options.evenly a refusal writes as many records as a point, so that the time does not tell them apart.
   * @param options.rider what is written with the points.
   * @returns the answer of each bucket.
   */
  consume(buckets: readonly Bucket[], options?: ConsumeOptions): Promise<readonly LimitAnswer[]>;
  /** Whether each bucket has a point, without consuming it. */
  look(buckets: readonly Bucket[]): Promise<readonly LimitAnswer[]>;
  /** Refunds one point to each bucket after a success. @param rider what is written with them. */
  refund(buckets: readonly Bucket[], rider?: Rider): Promise<void>;
}

interface Window {
  readonly used: number;
  readonly ends_at_ms: number;
}

/** The open window of a bucket. A power failure may lose it, so it is written relaxed. */
export const RATE_LIMIT: Kind<Window> = defineKind({
  name: "rate-limit",
  holds: "the consumed points of a rate limit",
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
  /** Points to add: 1 or more to consume, -1 to refund, 0 to look. */
  readonly points: number;
  readonly evenly?: boolean | undefined;
  readonly rider?: Rider | undefined;
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
  apply({ buckets, points, evenly = false }: Step): LimitAnswer[] {
    const answers = buckets.map((bucket) => this.#answer(bucket, Math.max(1, points)));
    const isRefused = points > 0 && answers.some(({ allowed }) => !allowed);
    if (points === 0 || (isRefused && !evenly)) return answers;
    for (const bucket of buckets) {
      const { used = 0, ends_at_ms = this.#latestEnd(bucket) } = this.#open(bucket) ?? {};
      const after = isRefused ? used : used + points;
      this.changed.set(nameOf(bucket), after > 0 || isRefused ? { used: after, ends_at_ms } : undefined);
    }
    if (isRefused) return answers;
    return answers.map((answer) => Object.assign({}, answer, { used: answer.used + points }));
  }

  #answer(bucket: Bucket, wanted: number): LimitAnswer {
    const open = this.#open(bucket);
    const { used, ends_at_ms } = open ?? { used: 0, ends_at_ms: this.#latestEnd(bucket) };
    const endsIn = Math.max(1, Math.ceil((ends_at_ms - this.#now) / 1000));
    const allowed = used + wanted <= bucket.points;
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
 * Splits steps so that no two riders of a part are about one record, unless both expect the same of it and write it not: so do the
 * authorizations of one session. Each part is a commit, one after the other.
 */
function apart(steps: readonly Step[]): readonly (readonly Step[])[] {
  const parts: Step[][] = [[]];
  const taken = new Map<string, string | undefined>();
  for (const step of steps) {
    const touched = [...(step.rider?.changes.touched() ?? [])];
    if (
      touched.some(
        ([name, version]) => taken.has(name) && (version === undefined || version !== taken.get(name)),
      )
    ) {
      parts.push([]);
      taken.clear();
    }
    for (const [name, version] of touched) taken.set(name, version);
    parts.at(-1)?.push(step);
  }
  return parts;
}

/** What became of a step. */
type Applied = readonly LimitAnswer[] | Error;

/**
 * The rate limits in a store. What a process asks for while its last commit is under way goes into the next one, so its
 * requests never conflict with each other; after a conflict with another process it retries.
 */
export function createRateLimits(records: Records, clock: Clock): RateLimits {
  const queue = new KeyedBatches<Step, Applied>(async (_key, steps) => {
    const applied: Applied[] = [];
    for (const part of apart(steps))
      applied.push(...(await applyAll(part).catch((error: unknown) => part.map(() => error as Error))));
    return applied;
  }, MAX_BATCH);

  function applyAll(steps: readonly Step[]): Promise<Applied[]> {
    const buckets = new Map(
      steps.flatMap((step) => step.buckets.map((each) => [nameOf(each), each] as const)),
    );
    /** Steps whose rider can't be written. They move no points. */
    const failures = new Map<Step, Error>();

    async function attempt(): Promise<Applied[]> {
      const tx = new Transaction(records.store);
      const found = await tx.peekAll([...buckets.values()].map(refOf));
      const now = clock.now();
      const windows = new Windows(new Map([...buckets.keys()].map((name, at) => [name, found[at]])), now);
      const riders: Rider[] = [];
      const applied = steps.map((step): Applied => {
        const { rider, points } = step;
        const failure = failures.get(step);
        if (failure !== undefined) return failure;
        if (rider !== undefined && rider.deadline <= now)
          return new StorageUnavailable("the deadline of this commit has passed", { reason: "deadline" });
        const answers = windows.apply(step);
        const isRefused = points > 0 && answers.some(({ allowed }) => !allowed);
        if (rider !== undefined && !isRefused) riders.push(rider);
        return answers;
      });
      for (const [name, bucket] of buckets) {
        if (!windows.changed.has(name)) continue;
        const window = windows.changed.get(name);
        if (window === undefined) tx.remove(refOf(bucket));
        else tx.put(RATE_LIMIT.record(window, { key: [bucket.limit, bucket.key] }));
      }
      const { changes } = tx;
      for (const rider of riders) changes.merge(rider.changes);
      const version = await commit(changes, riders);
      for (const rider of riders) if (version !== undefined) rider.onWritten(version);
      return applied;
    }

    async function commit(changes: Changes, riders: readonly Rider[]): Promise<string | undefined> {
      if (riders.length === 0) return records.commit(changes, { relaxed: true });
      try {
        return await records.commit(changes, { deadline: Math.min(...riders.map((each) => each.deadline)) });
      } catch (error) {
        if (error instanceof ConditionFailed)
          for (const step of steps) if (step.rider?.changes.concerns(error)) failures.set(step, error);
        throw error;
      }
    }

    return records.retry(attempt);
  }

  async function add(step: Step): Promise<readonly LimitAnswer[]> {
    const applied = await queue.add("", step);
    if (applied instanceof Error) throw applied;
    return applied;
  }

  return {
    consume: (buckets, options) =>
      add({
        buckets,
        points: options?.points ?? 1,
        evenly: options?.evenly,
        rider: options?.rider,
      }),
    look: (buckets) => add({ buckets, points: 0 }),
    async refund(buckets, rider) {
      await add({ buckets, points: -1, rider });
    },
  };
}

/** The same limits; `onRefused` is called for each bucket that refuses an attempt. */
export function tellingRefusals(limits: RateLimits, onRefused: (limit: string) => void): RateLimits {
  async function told(
    buckets: readonly Bucket[],
    asked: Promise<readonly LimitAnswer[]>,
  ): Promise<readonly LimitAnswer[]> {
    const answers = await asked;
    for (const [index, { allowed }] of answers.entries()) {
      const limit = buckets[index]?.limit;
      if (!allowed && limit !== undefined) onRefused(limit);
    }
    return answers;
  }
  return {
    consume: (buckets, options) => told(buckets, limits.consume(buckets, options)),
    look: (buckets) => told(buckets, limits.look(buckets)),
    refund: (buckets, rider) => limits.refund(buckets, rider),
  };
}
