/** The error of a command that failed. */
import { SignInError } from "../../lib/errors.ts";

/** A problem was found, or the command failed. */
export const FAILED = 1;
/** The arguments or the configuration are wrong. */
export const MISUSED = 2;
/** The storage or another server can't be reached. */
export const UNREACHABLE = 3;
/** Stopped by a signal. */
export const INTERRUPTED = 130;

/** One sentence for the operator, without secrets, and the exit code of the process. */
export class CommandFailure extends SignInError {
  readonly exitCode: number;

  constructor(sentence: string, { exitCode = FAILED, cause }: { exitCode?: number; cause?: unknown } = {}) {
    super("configuration", sentence, { cause });
    this.exitCode = exitCode;
  }
}

/** The arguments are wrong. */
export function misused(sentence: string, cause?: unknown): CommandFailure {
  return new CommandFailure(`${sentence}. See --help.`, { exitCode: MISUSED, cause });
}
