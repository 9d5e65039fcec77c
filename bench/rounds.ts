/** Sides measured in turns, so that whatever disturbs the machine disturbs all of them. */

/** How thorough a run is. */
export interface Effort {
  readonly rounds: number;
  /** Seconds of each round of a load that can go on for ever. */
  readonly seconds: number;
  /** Requests of each round of a load that uses something up. */
  readonly requests: number;
  /** Whole sign-ins of each round. */
  readonly signIns: number;
}

export const FULL: Effort = { rounds: 5, seconds: 2, requests: 3_000, signIns: 120 };
export const QUICK: Effort = { rounds: 3, seconds: 1, requests: 800, signIns: 60 };

/** The middle one. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** Seconds of work after which a server is as one that has been at work for a while: its code is compiled. */
export const WARM = 5;

/**
 * Measures every side once in each round, after a round that does not count; the median of each.
 * @param warmUp seconds that each side is at work before; default: none beside the round that does not count.
 */
export async function inTurns<Name extends string>(
  { rounds }: Pick<Effort, "rounds">,
  sides: Readonly<Record<Name, () => Promise<number>>>,
  warmUp = 0,
): Promise<Record<Name, number>> {
  const entries = Object.entries(sides) as [Name, () => Promise<number>][];
  const seen = new Map<Name, number[]>(entries.map(([name]) => [name, []]));
  for (const [, measure] of entries) {
    const end = performance.now() + warmUp * 1000;
    while (performance.now() < end) await measure();
  }
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, measure] of entries) {
      const value = await measure();
      if (round > 0) seen.get(name)?.push(value);
    }
  }
  return Object.fromEntries(entries.map(([name]) => [name, median(seen.get(name) ?? [])])) as Record<
    Name,
    number
  >;
}

/** One round of one side. */
export interface Sample {
  readonly perSecond: number;
  readonly answered: number;
  /** Milliseconds of CPU that the server used meanwhile. */
  readonly cpu: number;
}

/** The figure that {@link inTurns} compares. */
export function rate(sample: () => Promise<Sample>): () => Promise<number> {
  return async () => (await sample()).perSecond;
}

/** A ratio of what was measured in pairs. */
export interface Ratio {
  /** The median of the ratios of all rounds: what slows both down for a while is not in it. */
  readonly ratio: number;
  /** The true median lies between these in 95 of 100 runs: where they are far apart, the ratio says little. */
  readonly interval: readonly [low: number, high: number];
}

/** What was measured of two sides in one round. */
export type Pair<T> = readonly [here: T, other: T];

/**
 * Measures two sides in each round, one right after the other and each first in every other round.
 * @param warmUp seconds that each side is at work before; it is measured once at least.
 */
export async function inPairs<T>(
  { rounds }: Pick<Effort, "rounds">,
  sides: Readonly<Record<"here" | "other", () => Promise<T>>>,
  warmUp = 0,
): Promise<Pair<T>[]> {
  for (const measure of [sides.here, sides.other]) {
    const end = performance.now() + warmUp * 1000;
    do await measure();
    while (performance.now() < end);
  }
  const pairs: Pair<T>[] = [];
  for (let round = 0; round < rounds; round += 1) {
    if (round % 2 === 0) {
      const here = await sides.here();
      pairs.push([here, await sides.other()]);
    } else {
      const other = await sides.other();
      pairs.push([await sides.here(), other]);
    }
  }
  return pairs;
}

/** The 95 % confidence interval of the median, by the order of the values; all of them when they are few. */
function intervalOf(values: readonly number[]): readonly [number, number] {
  const sorted = values.toSorted((a, b) => a - b);
  const { length } = sorted;
  const low = Math.max(0, Math.floor(length / 2 - 0.98 * Math.sqrt(length)) - 1);
  return [sorted[low] ?? Number.NaN, sorted[length - 1 - low] ?? Number.NaN];
}

/** How one figure of the two sides compares. */
export function ratioOf<T>(pairs: readonly Pair<T>[], figure: (measured: T) => number): Ratio {
  const ratios = pairs.map(([here, other]) => figure(here) / figure(other));
  return { ratio: median(ratios), interval: intervalOf(ratios) };
}

/** The median of a figure on each side. */
export function mediansOf<T>(pairs: readonly Pair<T>[], figure: (measured: T) => number): Pair<number> {
  return [median(pairs.map(([here]) => figure(here))), median(pairs.map(([, other]) => figure(other)))];
}

/** For the table. */
export function shownInterval([low, high]: Ratio["interval"]): string {
  return `95 %: ${low.toFixed(2)} to ${high.toFixed(2)}`;
}
