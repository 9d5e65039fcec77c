/** Why a command ends without having done what it was told to. */
import { SignInError } from "../lib/errors.ts";

/** A problem was found, or the command could not do its work. */
export const FAILED = 1;
/** The command was called in a wrong way. */
export const MISUSED = 2;

/** One sentence for a person, and the exit code of the process. It holds no secret. */
export class CommandFailure extends SignInError {
  /** 1 or 2. */
  readonly exitCode: number;

  constructor(sentence: string, { exitCode = FAILED, cause }: { exitCode?: number; cause?: unknown } = {}) {
    super("configuration", sentence, { cause });
    this.exitCode = exitCode;
  }
}

/** The command was called in a wrong way. */
export function misused(sentence: string, cause?: unknown): CommandFailure {
  return new CommandFailure(`${sentence}. See --help.`, { exitCode: MISUSED, cause });
}
