/** Measures sides alternately, so that a disturbance of the machine affects all of them. */

/** How thorough a run is. */
export interface Effort {
  readonly rounds: number;
  /** Seconds of each round of a load that can be repeated. */
  readonly seconds: number;
  /** Requests of each round of a load that uses something up. */
  readonly requests: number;
  /** Complete sign-ins of each round. */
  readonly signIns: number;
}

export const FULL: Effort = { rounds: 5, seconds: 2, requests: 3_000, signIns: 120 };
export const QUICK: Effort = { rounds: 3, seconds: 1, requests: 800, signIns: 60 };

/** The median. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** Seconds of work after which the code of a server is compiled. */
export const WARM = 5;

/**
 * Measures every side once per round, after a round that does not count.
 * @returns the median of each.
 * @param warmUp seconds of work of each side before. Default: none except that round.
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
  /** Milliseconds of CPU time that the server used. */
  readonly cpu: number;
}

/** The figure that {@link inTurns} compares. */
export function rate(sample: () => Promise<Sample>): () => Promise<number> {
  return async () => (await sample()).perSecond;
}

/** The ratio of pairs of measurements. */
export interface Ratio {
  /** The median of the ratios of all rounds, which excludes what slows both down for a while. */
  readonly ratio: number;
  /** In 95 of 100 runs, the true median is in this interval. If it is wide, the ratio says little. */
  readonly interval: readonly [low: number, high: number];
}

/** The measurements of two sides in one round. */
export type Pair<T> = readonly [here: T, other: T];

/**
 * Measures two sides in each round, one directly after the other, alternating which is first.
 * @param warmUp seconds of work of each side before; each is measured at least once.
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

/** The 95 % confidence interval of the median, by the order of the values; all of them if there are few. */
function intervalOf(values: readonly number[]): readonly [number, number] {
  const sorted = values.toSorted((a, b) => a - b);
  const { length } = sorted;
  const low = Math.max(0, Math.floor(length / 2 - 0.98 * Math.sqrt(length)) - 1);
  return [sorted[low] ?? Number.NaN, sorted[length - 1 - low] ?? Number.NaN];
}

/** Compares one figure of the two sides. */
export function ratioOf<T>(pairs: readonly Pair<T>[], figure: (measured: T) => number): Ratio {
  const ratios = pairs.map(([here, other]) => figure(here) / figure(other));
  return { ratio: median(ratios), interval: intervalOf(ratios) };
}

/** The median of a figure on each side. */
export function mediansOf<T>(pairs: readonly Pair<T>[], figure: (measured: T) => number): Pair<number> {
  return [median(pairs.map(([here]) => figure(here))), median(pairs.map(([, other]) => figure(other)))];
}

/** The interval as text for the table. */
export function shownInterval([low, high]: Ratio["interval"]): string {
  return `95 %: ${low.toFixed(2)} to ${high.toFixed(2)}`;
}
