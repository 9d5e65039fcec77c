/** What went wrong in a call to Redis. The driver's errors contain the whole command, so they are never passed on. */
import { StorageUnavailable } from "../../core/errors.ts";

/** It is unknown whether Redis has run the command. */
export class Unanswered extends StorageUnavailable {}

/** Redis's message under the code `ERR` when a script runs a command that the user may not use. */
const NOT_ALLOWED = /\bNOPERM\b|can't run this command/u;

function codeOf(said: string): string {
  if (NOT_ALLOWED.test(said)) return "NOPERM";
  return /^[A-Z]{3,}\b/u.exec(said)?.[0] ?? "ERR";
}

/** The code of an error that Redis sent, such as `OOM` or `NOSCRIPT`; `undefined` for other errors. */
export function answerCode(error: unknown): string | undefined {
  return Error.isError(error) && error.name === "ReplyError" ? codeOf(error.message) : undefined;
}

/** The reason in one word, without values. */
export function reason(error: unknown): string {
  if (error instanceof StorageUnavailable && error.reason !== undefined) return error.reason;
  const code: unknown = Error.isError(error) ? Reflect.get(error, "code") : undefined;
  return answerCode(error) ?? (typeof code === "string" ? code : "no answer");
}

/** The fault for an error that Redis sent. */
function refusedFault(message: string): StorageUnavailable {
  const code = codeOf(message);
  return new StorageUnavailable(`Redis answered ${code}`, { reason: code });
}

/**
 * The fault for an error of a command.
 * @param lost why there is no connection, if there is none: the driver does not say so in the error of a command.
 */
export function asFault(error: unknown, lost?: string): StorageUnavailable {
  if (answerCode(error) !== undefined) return refusedFault((error as Error).message);
  const why = lost ?? reason(error);
  return new Unanswered(`Redis did not answer (${why})`, { reason: why });
}

/** The error of every call after `close()`. */
export function closedFault(): StorageUnavailable {
  return new StorageUnavailable("the connection to Redis is closed", { reason: "closed" });
}
