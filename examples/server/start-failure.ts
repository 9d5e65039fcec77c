/** Why the server did not start, in words for the person who started it. */

import { SignInError } from "../../lib/index.ts";

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

/** What is wrong, for a person: sentences, never a stack. */
function sentencesOf(error: unknown): string {
  if (error instanceof StartFailure || error instanceof SignInError) return error.message;
  const { name = "an unknown error", code } = error as { name?: string; code?: unknown };
  return `The service could not start: ${typeof code === "string" ? code : name}.`;
}

/** Says why nothing was started, and ends the process. */
export function endWith(error: unknown): never {
  console.error(sentencesOf(error));
  process.exit(error instanceof StartFailure ? error.exitCode : FAILED);
}
