/** The error of a command that failed. */
import { SignInError } from "../lib/errors.ts";

/** A problem was found, or the command failed. */
export const FAILED = 1;
/** The arguments are wrong. */
export const MISUSED = 2;

/** One sentence for the operator, without secrets, and the exit code of the process. */
export class CommandFailure extends SignInError {
  /** 1 or 2. */
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
