/** What a measurement says. */
import type { Effort } from "./rounds.ts";

/** One line of the table. */
export interface Row {
  readonly work: string;
  readonly against: string;
  /** The ratio, or the value in `unit`. */
  readonly value: number;
  /** `×` for ratios. */
  readonly unit: "×" | "ms" | "MB" | "trips" | "bytes";
  /** Left out: it is only to be known. */
  readonly target?: number;
  /** The ratio is to stay below the target, not to reach it. */
  readonly atMost?: boolean;
  /** Where the true value may lie as well; left out: it was not worked out. */
  readonly interval?: readonly [low: number, high: number];
  /** What was measured on both sides, with units. */
  readonly raw: string;
}

/** One file of `bench/measurements`. */
export interface Measurement {
  readonly name: string;
  /** @param folder an empty folder for its files. */
  readonly run: (effort: Effort, folder: string) => Promise<readonly Row[]>;
}

/** A ratio has to reach its target, unless it says something else; a time, a size or a count has to stay below it. */
export function hasToReach({ unit, atMost = unit !== "×" }: Pick<Row, "unit" | "atMost">): boolean {
  return !atMost;
}

/** Whether the target is reached; `unclear` where the target lies within the interval, nothing without a target. */
export function verdict(row: Row): "ok" | "short" | "unclear" | "" {
  const { value, target, interval: [low, high] = [value, value] } = row;
  if (target === undefined) return "";
  if (low < target && target < high) return "unclear";
  return (hasToReach(row) ? value >= target : value <= target) ? "ok" : "short";
}

export const perSecond = (value: number): string => `${Math.round(value)}/s`;
