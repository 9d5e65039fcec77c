/**
 * Every error that this package throws on purpose is a {@link SignInError} with a stable `code`;
 * wrong arguments are a `TypeError` that names the option. Protocol errors are oidc-provider's own.
 */

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

/** The configuration is wrong. `problems` has one line for each, as `config.<path>: <problem>`. */
export class ConfigurationError extends SignInError {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super("configuration", problems.join("\n"));
    this.problems = problems;
  }
}

/** A store could not be reached, did not answer in time, or is too busy: 503 at the edge, try again. */
export class StorageUnavailable extends SignInError {
  constructor(message: string, options?: ErrorOptions) {
    super("storage_unavailable", message, options);
  }
}

/** A condition of a commit did not hold: somebody else was first. Nothing was written. */
export class ConditionFailed extends SignInError {
  /** The records whose conditions did not hold, where the store names them. */
  readonly refs: readonly { readonly kind: string; readonly key: string }[];

  constructor(message: string, refs: readonly { readonly kind: string; readonly key: string }[] = []) {
    super("condition_failed", message);
    this.refs = refs;
  }
}

/** The record was changed since it was read. Nothing was written; read again and decide again. */
export class VersionConflict extends SignInError {
  constructor(message: string) {
    super("version_conflict", message);
  }
}

/** An e-mail address or username belongs to another account. */
export class NameTaken extends SignInError {
  constructor() {
    super("name_taken", "this e-mail address or username belongs to another account");
  }
}

/** A record with this identifier is there already. */
export class AlreadyExists extends SignInError {
  constructor(what: string) {
    super("already_exists", `${what} exists already`);
  }
}

/** A new `client_id` is the `sub` of an account, or the other way round: each identifier means one thing. */
export class IdentifierTaken extends AlreadyExists {}

/** A change names a service, group or portal that is not in the directory. */
export class UnknownReference extends SignInError {
  constructor(what: string) {
    super("unknown_reference", `${what} is not known`);
  }
}

/** A service, group or portal can't be removed while others refer to it; the message names them. */
export class StillReferenced extends SignInError {
  readonly references: readonly string[];

  constructor(what: string, references: readonly string[]) {
    super("still_referenced", `${what} is still referenced by ${references.join(", ")}`);
    this.references = references;
  }
}

/** A call changes something that is not there. */
export class NotFound extends SignInError {
  constructor(what: string) {
    super("not_found", `${what} does not exist`);
  }
}

/** A new password breaks a rule; the message says which. It never holds the password. */
export class InvalidPassword extends SignInError {
  constructor(message: string) {
    super("invalid_password", message);
  }
}
