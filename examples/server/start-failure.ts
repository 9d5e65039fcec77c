/** Why the server did not start, in words for the person who started it. */

/** Exit code when something is wrong with the surroundings: configuration, storage, port. */
export const FAILED = 1;
/** Exit code when the command line is wrong. */
export const MISUSED = 2;

/** Shown without a stack; the process ends with `exitCode`. */
export class StartFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = FAILED, options?: ErrorOptions) {
    super(message, options);
    this.name = "StartFailure";
    this.exitCode = exitCode;
  }
}
