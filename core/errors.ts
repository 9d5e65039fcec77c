/**
 * The errors of the storage and of the rules for accounts, clients and the directory. Protocol errors are classes of
 * oidc-provider. Every error that this package throws on purpose is a {@link SignInError}, or an {@link InvalidArgument}, with a
 * stable `code`.
 */
import { dirname } from "node:path";

/**
 * Every code of an error, and the HTTP status that says the same. The exit codes of commands follow from it: 2 for 422, 3 for 503
 * and 504, else 1.
 */
export const ERRORS = {
  not_found: 404,
  gone: 410,
  role_required: 403,
  operator_protected: 403,
  stale: 412,
  limit_reached: 429,
  invalid_argument: 422,
  invalid_password: 422,
  invalid_configuration: 422,
  invalid_backup: 409,
  invalid_notification: 400,
  unknown_reference: 422,
  search_required: 422,
  search_too_wide: 422,
  too_large: 422,
  idempotency_key_reused: 422,
  idempotency_key_in_use: 409,
  secret_already_shown: 409,
  name_taken: 409,
  already_exists: 409,
  still_referenced: 409,
  last_sign_in_method: 409,
  not_applicable: 409,
  configured_elsewhere: 409,
  superseded: 409,
  not_waiting: 409,
  search_incomplete: 409,
  behind: 409,
  receiver_stopped: 409,
  purged: 409,
  condition_failed: 409,
  address_refused: 403,
  unusable_secrets: 500,
  unexpected_answer: 502,
  provider_failed: 502,
  storage_unavailable: 503,
  server_unreachable: 504,
} as const;

/** Stable codes of {@link SignInError} and {@link InvalidArgument}: safe to switch on, never renamed. */
export type SignInErrorCode = keyof typeof ERRORS;

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

/** What is wrong with an argument of a call. */
export interface ArgumentProblem {
  /** The place, such as `client.redirect_uris[0]`. */
  readonly path: string;
  /** Such as `must be a string`. It never repeats the value. */
  readonly message: string;
}

/** Arguments of a call are wrong. The message has one part for each of its `problems`, such as `sub: must be a string`. */
export class InvalidArgument extends TypeError {
  readonly code = "invalid_argument" satisfies SignInErrorCode;
  readonly problems: readonly ArgumentProblem[];

  constructor(...problems: readonly ArgumentProblem[]) {
    super(problems.map(({ path, message }) => `${path}: ${message}`).join("; "));
    this.name = new.target.name;
    this.problems = problems;
  }
}

/**
 * The end of a message about a file that this process may not write: the user that its folder must be writable for.
 * Empty for other causes.
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
    super("invalid_configuration", problems.join("\n"));
    this.problems = problems;
  }
}

/** A store can't be reached, did not answer in time, or is too busy. Becomes 503; try again. */
export class StorageUnavailable extends SignInError {
  /** What the server or the system said, such as `ECONNREFUSED`, `53300` or `OOM`. */
  readonly reason: string | undefined;
  /** The store and the call that failed, once it is known. */
  call?: { readonly store: string; readonly operation: string };

  constructor(message: string, { reason, ...options }: ErrorOptions & { readonly reason?: string } = {}) {
    super("storage_unavailable", message, options);
    this.reason = reason;
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

/** An e-mail address or username belongs to another account. */
export class NameTaken extends SignInError {
  constructor() {
    super("name_taken", "this e-mail address or username belongs to another account");
  }
}

/** A record with this identifier exists already. */
export class AlreadyExists extends SignInError {
  constructor(what: string) {
    super("already_exists", `${what} exists already`);
  }
}

/** A new `client_id` is the `sub` of an account, or the reverse. An identifier belongs to one of them only. */
export class IdentifierTaken extends AlreadyExists {}

/** A change names a service, group or portal that is not in the directory. */
export class UnknownReference extends SignInError {
  constructor(what: string) {
    super("unknown_reference", `${what} is not known`);
  }
}

/** A service, group or portal can't be removed while other records refer to it; the message names them. */
export class StillReferenced extends SignInError {
  readonly references: readonly string[];

  constructor(what: string, references: readonly string[]) {
    super("still_referenced", `${what} is still referenced by ${references.join(", ")}`);
    this.references = references;
  }
}

/** The call is right, but not for this account, client or API, such as a new secret for a client that can't keep one. */
export class NotApplicable extends SignInError {
  constructor(message: string) {
    super("not_applicable", message);
  }
}

/** A call refers to something that does not exist. */
export class NotFound extends SignInError {
  constructor(what: string) {
    super("not_found", `${what} does not exist`);
  }
}

/** A new password breaks a rule. The message names the rule and never contains the password. */
export class InvalidPassword extends SignInError {
  /** `too-short`, `too-long`, `characters`, `common`, `name` or `breached`. */
  readonly problem: string;

  constructor(problem: string, message: string) {
    super("invalid_password", message);
    this.problem = problem;
  }
}

/** Somebody has asked for too much in an hour or a day. */
export class LimitReached extends SignInError {
  /** Seconds until there is room again. */
  readonly retryAfter: number;
  /** What was counted, and how many there may be; `undefined` when people are not told. */
  readonly counted: { readonly what: string; readonly most: number } | undefined;

  constructor(retryAfter: number, counted?: LimitReached["counted"]) {
    super("limit_reached", "too many in this time");
    this.retryAfter = retryAfter;
    this.counted = counted;
  }
}
