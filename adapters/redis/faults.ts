/** What errors of the driver mean to the callers. Its errors carry the command with all that was sent: none is passed on. */
import { StorageUnavailable } from "../errors.ts";

/** Nobody knows whether Redis has run the command. */
export class Unanswered extends StorageUnavailable {}

/** What Redis says, under the code `ERR`, when a command inside of a script is not allowed to the user. */
const NOT_ALLOWED = /\bNOPERM\b|can't run this command/u;

function codeOf(said: string): string {
  if (NOT_ALLOWED.test(said)) return "NOPERM";
  return /^[A-Z]{3,}\b/u.exec(said)?.[0] ?? "ERR";
}

/** The code at the front of an answer of Redis, such as `OOM` or `NOSCRIPT`; `undefined` when it was no answer. */
export function answerCode(error: unknown): string | undefined {
  return Error.isError(error) && error.name === "ReplyError" ? codeOf(error.message) : undefined;
}

/** What is wrong, in one word that holds nothing of what was sent. */
export function reason(error: unknown): string {
  const code: unknown = Error.isError(error) ? Reflect.get(error, "code") : undefined;
  return answerCode(error) ?? (typeof code === "string" ? code : "no answer");
}

/** An error with which Redis has answered. */
export function refusedFault(said: string): StorageUnavailable {
  return new StorageUnavailable(`Redis answered ${codeOf(said)}`);
}

/** An error of a command. */
export function asFault(error: unknown): StorageUnavailable {
  return answerCode(error) === undefined
    ? new Unanswered(`Redis did not answer (${reason(error)})`)
    : refusedFault((error as Error).message);
}

/** What every call gets after `close()`. */
export function closedFault(): StorageUnavailable {
  return new StorageUnavailable("the connection to Redis is closed");
}
