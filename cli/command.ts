/** The interface of commands, and what they get from their process. */
import type { Clock } from "../lib/clock.ts";
import type { ReadVariable } from "./addresses.ts";
import type { Output } from "./progress.ts";

/** The environment of a command. */
export interface Surroundings {
  readonly clock: Clock;
  readonly readVariable: ReadVariable;
  /** Results. */
  readonly out: Output;
  /** Progress and errors. */
  readonly err: Output;
  /** Aborted when the process should stop. */
  readonly signal: AbortSignal;
  /** Asks the operator a yes-or-no question. Missing without a terminal. */
  readonly confirm?: ((question: string) => Promise<boolean>) | undefined;
}

export interface Command {
  /** The words that call it. */
  readonly words: readonly string[];
  /** One line for the list of commands. */
  readonly summary: string;
  /** What `--help` prints. */
  readonly usage: string;
  /**
   * @param args the arguments after its words.
   * @returns the exit code: 0, or 1 when a problem was found.
   * @throws CommandFailure, or an error of the storage.
   */
  run(args: readonly string[], surroundings: Surroundings): Promise<number>;
}
