/**
 * The errors of the rules for accounts, clients and the directory, in addition to those of the storage. Protocol
 * errors are classes of oidc-provider.
 */
import { SignInError } from "../adapters/errors.ts";

export {
  ConditionFailed,
  ConfigurationError,
  neededUser,
  SignInError,
  type SignInErrorCode,
  StorageMissing,
  StorageUnavailable,
} from "../adapters/errors.ts";

/** The record was changed since it was read. Nothing was written; read it again and decide again. */
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

/** A call refers to something that does not exist. */
export class NotFound extends SignInError {
  constructor(what: string) {
    super("not_found", `${what} does not exist`);
  }
}

/** A code or link was used, replaced or tried since it was read. Read it again and decide again. */
export class UsedUp extends SignInError {
  constructor() {
    super("version_conflict", "the confirmation was used, replaced or tried in between");
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
