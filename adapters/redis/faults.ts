/** What errors of the driver mean to the callers. Its errors carry the command with all that was sent: none is passed on. */
import { StorageUnavailable } from "../../lib/errors.ts";

/** Nobody knows whether Redis has run the command. */
export class Unanswered extends StorageUnavailable {}

/** What Redis says, under the code `ERR`, when a command inside of a script is not allowed to the user. */
const NOT_ALLOWED = /\bNOPERM\b|can't run this command/u;

/** The code at the front of an answer of Redis, such as `OOM` or `NOSCRIPT`; `undefined` when it was no answer. */
export function answerCode(error: unknown): string | undefined {
  if (!Error.isError(error) || error.name !== "ReplyError") return undefined;
  if (NOT_ALLOWED.test(error.message)) return "NOPERM";
  return /^[A-Z]{3,}\b/u.exec(error.message)?.[0] ?? "ERR";
}

/** What is wrong, in one word that holds nothing of what was sent. */
export function reason(error: unknown): string {
  const code: unknown = Error.isError(error) ? Reflect.get(error, "code") : undefined;
  return answerCode(error) ?? (typeof code === "string" ? code : "no answer");
}

/** An error of a command. */
export function asFault(error: unknown): StorageUnavailable {
  const code = answerCode(error);
  return code === undefined
    ? new Unanswered(`Redis did not answer (${reason(error)})`)
    : new StorageUnavailable(`Redis answered ${code}`);
}

/** What every call gets after `close()`. */
export function closedFault(): StorageUnavailable {
  return new StorageUnavailable("the connection to Redis is closed");
}
