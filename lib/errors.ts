/** What the rules of accounts, clients and the directory refuse, beside the errors of a storage. Protocol errors are oidc-provider's own. */
import { SignInError } from "../adapters/errors.ts";

export {
  ConditionFailed,
  ConfigurationError,
  SignInError,
  type SignInErrorCode,
  StorageUnavailable,
} from "../adapters/errors.ts";

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
