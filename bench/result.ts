/** The result of a measurement. */
import type { Effort } from "./rounds.ts";

/** One line of the table. */
export interface Row {
  readonly work: string;
  readonly against: string;
  /** The ratio, or the value in `unit`. */
  readonly value: number;
  /** `×` for ratios, `/s` for rates. */
  readonly unit: "×" | "/s" | "ms" | "MB" | "trips" | "bytes";
  /** Missing: for information only. */
  readonly target?: number;
  /** Whether the ratio must stay below the target instead of reaching it. */
  readonly atMost?: boolean;
  /** The interval that may contain the true value; missing if it was not calculated. */
  readonly interval?: readonly [low: number, high: number];
  /** What was measured on both sides, with units. */
  readonly raw: string;
}

/** One file of `bench/measurements`. */
export interface Measurement {
  readonly name: string;
  /** @param folder an empty folder for files. */
  readonly run: (effort: Effort, folder: string) => Promise<readonly Row[]>;
}

/**
 * Whether a value must reach its target or stay below it. By default a ratio or a rate must reach it, and a time,
 * size or count must stay below.
 */
export function hasToReach({
  unit,
  atMost = unit !== "×" && unit !== "/s",
}: Pick<Row, "unit" | "atMost">): boolean {
  return !atMost;
}

/** Whether the target is reached. `unclear` if it is within the interval; empty without a target. */
export function verdict(row: Row): "ok" | "short" | "unclear" | "" {
  const { value, target, interval: [low, high] = [value, value] } = row;
  if (target === undefined) return "";
  if (low < target && target < high) return "unclear";
  return (hasToReach(row) ? value >= target : value <= target) ? "ok" : "short";
}

export const perSecond = (value: number): string => `${Math.round(value)}/s`;
