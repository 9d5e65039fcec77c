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
  /** What was measured on both sides, with units. */
  readonly raw: string;
}

/** One file of `bench/measurements`. */
export interface Measurement {
  readonly name: string;
  /** @param folder an empty folder for its files. */
  readonly run: (effort: Effort, folder: string) => Promise<readonly Row[]>;
}

/** A ratio has to reach its target; a time, a size or a count has to stay below it. */
export function isReached({ unit, value, target }: Row): boolean {
  return unit === "×" ? value >= target : value <= target;
}

export const perSecond = (value: number): string => `${Math.round(value)}/s`;
