/** Errors at the start, as messages for the person who started the server. */

import { SignInError } from "../../lib/index.ts";

/** Exit code for problems with the configuration, the storage or a port. */
export const FAILED = 1;
/** Exit code for invalid arguments. */
export const MISUSED = 2;

/** Printed without a stack trace. The process then exits with `exitCode`. */
export class StartFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = FAILED, options?: ErrorOptions) {
    super(message, options);
    this.name = "StartFailure";
    this.exitCode = exitCode;
  }
}

/** The message of an error, without a stack trace. */
function sentencesOf(error: unknown): string {
  if (error instanceof StartFailure || error instanceof SignInError) return error.message;
  const { name = "an unknown error", code } = error as { name?: string; code?: unknown };
  return `The service could not start: ${typeof code === "string" ? code : name}.`;
}

/** Prints the error and ends the process. */
export function endWith(error: unknown): never {
  console.error(sentencesOf(error));
  process.exit(error instanceof StartFailure ? error.exitCode : FAILED);
}
