/** One account as a line of a file: what `accounts import` reads, and `accounts export` writes. */
import { z } from "zod";
import type { SignInErrorCode } from "../../core/errors.ts";
import { described } from "../../config/documented-schema.ts";
import { checkImported, importedFields, WHEN_CHECKED } from "../account-schema.ts";
import { type CallOptions, exactly, flag, integer, ruled } from "../arguments.ts";
import { identityProblem } from "../identities/identity.ts";
import { keyProblem } from "../text-rules.ts";

/** Seconds since the epoch. */
const time = integer(0);
const text = (name: string, most: number): z.ZodString =>
  ruled((value) => (value.length > 0 && value.length <= most ? undefined : `must be ${name}`));

const identity = exactly({
  /** The key of the provider in the configuration. */
  provider: ruled(keyProblem),
  /** The issuer there. Default: that of the provider. Another one is an error. */
  issuer: ruled(identityProblem).optional(),
  /** The `sub` there; of Microsoft `tid:oid`. */
  subject: ruled(identityProblem),
  /** When it was linked, in seconds since the epoch. Default: seven days ago. */
  linked_at: time.optional(),
});

const passkey = exactly({
  /** The credential id, Base64url. */
  id: text("a credential id", 1_400),
  /** The user handle of the account's passkeys, Base64url. */
  user_handle: text("a user handle", 128),
  /** A COSE key, Base64url. */
  public_key: text("a COSE key", 4_096),
  counter: integer(0),
  transports: z.array(text("a transport", 40)).max(10).readonly(),
  backup_eligible: flag(),
  backed_up: flag(),
  /** The domain that it was made for: it works there only. */
  rp_id: text("a domain", 253),
  name: text("a name", 64),
  added_at: time,
  last_used_at: time.nullable(),
});

const list = <T extends z.ZodType>(item: T, most: number) =>
  z
    .array(item, { error: "must be a list" })
    .max(most, { error: `must have at most ${most} entries` })
    .readonly()
    .optional();

const lineFields = {
  ...importedFields,
  /** The identifier of the account in another system, if that is no UUID. The `sub` is made from it. Default: none. */
  id: described(text("a text of 1 to 255 characters", 255).optional(), {
    form: "a text of 1 to 255 characters",
  }),
  /** Whether sign-in is blocked. Default: `false`. */
  disabled: flag().optional(),
  /** The accounts at other providers that the person signs in with. Default: none. */
  identities: list(identity, 50),
  /** Passkeys. They work under the domain that they were made for only. Default: none. */
  passkeys: list(passkey, 10),
};

/** The schema of a line, besides the rules that only the service knows: see `PersonFields.problems`. */
export const accountLine = exactly(lineFields).superRefine(checkImported, WHEN_CHECKED);

/** A line that has been checked. */
export type AccountLine = z.output<typeof accountLine>;

/** A line as it is written. */
export type WrittenLine = z.input<typeof accountLine>;

/** What changes of an account that exists: nothing, the fields of the person, or what the person signs in with as well. */
export type Updates = "none" | "profile" | "credentials";

/** How accounts are imported. */
export interface ImportOptions {
  /** Whether a `sub` that is no UUID is the identifier of another system. */
  readonly mapSub: boolean;
  /** What changes of accounts that exist. */
  readonly updates: Updates;
  /** Whether notifications and events are sent. */
  readonly notify: boolean;
  /** Whether nothing is written. */
  readonly isDry: boolean;
}

/** What became of one line. */
export type LineResult =
  /** `id`: the identifier in the other system that `sub` was made from. */
  | { readonly kind: "created" | "updated" | "same"; readonly sub: string; readonly id?: string }
  | { readonly kind: "refused"; readonly code: SignInErrorCode; readonly message: string };

/** Imports the accounts of a file. */
export interface AccountImport {
  /**
   * Imports accounts in one commit, or says of each why not.
   * @param lines values as they were parsed: nothing is trusted.
   * @param before of the lines before, whose import must end first: meanwhile these are read and decided. If it rejects, none of these
   *   is written.
   * @returns a result for each, in the same order.
   * @throws StorageUnavailable when the storage fails: then none of them is written.
   */
  importLines(
    lines: readonly unknown[],
    options: ImportOptions,
    by: CallOptions,
    before?: Promise<unknown>,
  ): Promise<readonly LineResult[]>;
}

/** Exports all accounts. */
export interface AccountExport {
  /**
   * The next accounts, ordered by `user_id`.
   * @param options.after the `user_id` of the last one before. Default: from the beginning.
   * @param options.credentials whether the lines have what people sign in with: password hashes, the secrets of apps, identities and
   *   passkeys.
   */
  exportLines(options: {
    readonly after: number | undefined;
    readonly limit: number;
    readonly credentials: boolean;
  }): Promise<readonly WrittenLine[]>;
}
