/**
 * The base of all errors, and the errors of a storage. Every error that this package throws on purpose is a
 * {@link SignInError} with a stable `code`; a wrong argument is a `TypeError` that names the option.
 */
import { dirname } from "node:path";

/** Stable codes of {@link SignInError}: safe to switch on, never renamed. */
export type SignInErrorCode =
  | "configuration"
  | "storage_unavailable"
  | "condition_failed"
  | "version_conflict"
  | "name_taken"
  | "already_exists"
  | "not_found"
  | "unknown_reference"
  | "still_referenced"
  | "invalid_password"
  | "address_refused"
  | "invalid_notification"
  | "keys"
  | "backup"
  | "unexpected_answer";

/** The base of all errors of this package. */
export class SignInError extends Error {
  /** Stable, machine-readable. */
  readonly code: SignInErrorCode;

  constructor(code: SignInErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/**
 * The end of a message about a file that this process may not write: which user its folder needs. Empty for other reasons.
 *
 * @param code of the error of the file system.
 */
export function neededUser(code: string, path: string): string {
  const user = process.geteuid?.();
  if (user === undefined || (code !== "EACCES" && code !== "EPERM")) return "";
  return `; the folder ${dirname(path)} must be writable for user ${user}, as whom this process runs (chown ${user})`;
}

/** The configuration is wrong. `problems` has one line per problem, as `config.<path>: <problem>`. */
export class ConfigurationError extends SignInError {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super("configuration", problems.join("\n"));
    this.problems = problems;
  }
}

/** A store can't be reached, did not answer in time, or is too busy. Becomes 503; try again. */
export class StorageUnavailable extends SignInError {
  constructor(message: string, options?: ErrorOptions) {
    super("storage_unavailable", message, options);
  }
}

/** There is no storage at this address: no service has used it yet, or the address is wrong. */
export class StorageMissing extends StorageUnavailable {}

/** A condition of a commit did not hold, because another commit was first. Nothing was written. */
export class ConditionFailed extends SignInError {
  /** The records whose conditions did not hold, if the store names them. */
  readonly refs: readonly { readonly kind: string; readonly key: string }[];

  constructor(message: string, refs: readonly { readonly kind: string; readonly key: string }[] = []) {
    super("condition_failed", message);
    this.refs = refs;
  }
}
