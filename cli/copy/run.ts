/** What a running copy asks for and tells. */
import type { PartName } from "../../adapters/transfer.ts";
import type { Clock } from "../../lib/clock.ts";

/** How far it is: so many records of about so many. */
export interface CopyProgress {
  readonly step: "copying" | "comparing";
  readonly part: PartName;
  readonly done: number;
  readonly total: number;
}

/** How a copy is run. */
export interface CopyRun {
  readonly clock: Clock;
  /** Stops it between two pages. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: CopyProgress) => void;
}
