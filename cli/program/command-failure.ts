/** The error of a command that failed, and the message for any error. */
import { nearestKey } from "../../config/nearest-key.ts";
import { adviceFor } from "./fault-advice.ts";
import {
  ConfigurationError,
  ERRORS,
  InvalidArgument,
  SignInError,
  type SignInErrorCode,
  StorageUnavailable,
} from "../../core/errors.ts";

/** A problem was found, or the command failed. */
export const FAILED = 1;
/** The arguments or the configuration are wrong. */
const MISUSED = 2;
/** The storage or another server can't be reached. */
export const UNREACHABLE = 3;
/** Stopped by a signal. */
export const INTERRUPTED = 130;

/** One sentence for the operator, without secrets. The exit code of the process follows from the code. */
export class CommandFailure extends SignInError {
  constructor(
    sentence: string,
    { code = "not_applicable", cause }: { readonly code?: SignInErrorCode; readonly cause?: unknown } = {},
  ) {
    super(code, sentence, { cause });
  }
}

/** The arguments are wrong. */
export function misused(sentence: string, cause?: unknown): CommandFailure {
  return new CommandFailure(`${sentence}${sentence.endsWith("?") ? "" : "."} See --help.`, {
    code: "invalid_argument",
    cause,
  });
}

/** The end of the sentence about an unknown option: the known one that was probably meant, if any. */
export function nearestOption(unknown: string, known: readonly string[]): string {
  const nearest = nearestKey(unknown, known, []);
  return nearest?.close === true ? `; did you mean --${nearest.path}?` : "";
}

const capitalized = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** The error as a sentence, or a line for each problem, without a stack trace or an address. */
export function sentenceOf(error: unknown): string {
  if (error instanceof CommandFailure) return error.message;
  if (error instanceof ConfigurationError) return error.problems.join("\n");
  if (error instanceof StorageUnavailable && error.reason !== undefined)
    return `${capitalized(error.message)}. ${adviceFor(error)}`;
  if (error instanceof SignInError || error instanceof InvalidArgument) {
    const message = /[.?]$/u.test(error.message) ? error.message : `${error.message}.`;
    // The name of an argument stays as it is written.
    return error instanceof InvalidArgument ? message : capitalized(message);
  }
  const { name = "unknown error", code } = Object(error) as { name?: string; code?: unknown };
  return `An unexpected error: ${typeof code === "string" ? code : name}.`;
}

/** The exit code of a process that ends with this error. */
export function exitCodeOf(error: unknown): number {
  if (!(error instanceof SignInError || error instanceof InvalidArgument)) return FAILED;
  const status = ERRORS[error.code];
  if (status === 503 || status === 504) return UNREACHABLE;
  return status === 422 ? MISUSED : FAILED;
}
