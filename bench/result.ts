/** What a measurement says. */
import type { Effort } from "./rounds.ts";

/** One line of the table. */
export interface Row {
  readonly work: string;
  readonly against: string;
  /** The ratio, or the value in `unit`. */
  readonly value: number;
  /** `×` for ratios. */
  readonly unit: "×" | "ms" | "MB" | "trips";
  readonly target: number;
  /** The ratio is to stay below the target, not to reach it. */
  readonly atMost?: boolean;
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

export function isReached(row: Row): boolean {
  return hasToReach(row) ? row.value >= row.target : row.value <= row.target;
}

export const perSecond = (value: number): string => `${Math.round(value)}/s`;
