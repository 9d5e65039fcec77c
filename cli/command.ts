/** What a command is, and what it gets from the process that runs it. */
import type { Clock } from "../lib/clock.ts";
import type { ReadVariable } from "./addresses.ts";
import type { Output } from "./progress.ts";

/** The world around a command. */
export interface Surroundings {
  readonly clock: Clock;
  readonly readVariable: ReadVariable;
  /** Results. */
  readonly out: Output;
  /** Progress and what went wrong. */
  readonly err: Output;
  /** Aborted when the process is told to stop. */
  readonly signal: AbortSignal;
  /** Asks a person a question that is answered with yes or no. Left out where there is none to ask. */
  readonly confirm?: ((question: string) => Promise<boolean>) | undefined;
}

export interface Command {
  /** The words that call it. */
  readonly words: readonly string[];
  /** In the list of all commands: one line. */
  readonly summary: string;
  /** What `--help` prints. */
  readonly usage: string;
  /**
   * @param args what comes after its words.
   * @returns the exit code: 0, or 1 when a problem was found.
   * @throws CommandFailure, or an error of the storage.
   */
  run(args: readonly string[], surroundings: Surroundings): Promise<number>;
}
