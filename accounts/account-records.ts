/** The records of accounts that calls make and change, from their arguments. */
import { randomInt } from "node:crypto";
import type { AccountRecord } from "../records/directory/directory.ts";
import type { AccountChanges, ImportedAccount } from "./account-schema.ts";
import { invalid } from "./arguments.ts";
import { type AllowedWays, canSignIn, hasWay, isReplaceable } from "./ways/ways.ts";
import type { FieldValues, PersonFields } from "./profile-fields.ts";

/** The record of a new account. Its second factors and identities are added by whoever puts them. */
export function newRecord(
  input: ImportedAccount,
  fields: PersonFields,
  { now, ...identifiers }: Pick<AccountRecord, "sub" | "user_id"> & { readonly now: number },
): AccountRecord {
  return {
    ...identifiers,
    email: input.email,
    email_verified: input.email_verified ?? false,
    ...storedFields({}, input, fields),
    services: input.services ?? {},
    ...(input.roles !== undefined && { roles: input.roles }),
    ways: input.app === undefined ? {} : { app: true, generation: 1 },
    // Random, so that after a restore, sessions and tokens of an account that it forgot don't become valid again.
    sessions_generation: randomInt(1, 2 ** 31),
    tokens_generation: randomInt(1, 2 ** 31),
    service_generations: {},
    client_generations: {},
    consents: {},
    created_at: now,
    updated_at: now,
  };
}

/** The account after a change of its fields. An address that changes is unverified, unless the change says otherwise. */
export function applied(before: AccountRecord, changes: AccountChanges, fields: PersonFields): AccountRecord {
  const { attributes: _replaced, ...rest } = before;
  const { email = before.email, email_verified = email === before.email && before.email_verified } = changes;
  return { ...rest, email, email_verified, ...storedFields(before, changes, fields) };
}

/** @throws InvalidArgument if there are too many attributes in all. What is stored is known only here. */
function storedFields(
  before: FieldValues,
  changes: FieldValues,
  fields: PersonFields,
): ReturnType<PersonFields["stored"]> {
  const after = fields.stored(before, changes);
  if (changes.attributes !== undefined && fields.isTooLarge(after))
    throw invalid("account", [{ path: ["attributes"], message: "must have at most 8 KiB in all" }]);
  return after;
}

/** Why an account keeps its confirmed address: see {@link losesAddress}. */
export const CONFIRMED_ADDRESS =
  "email_verified must be true, because without a password the account depends on its mail";

/** Whether an account without a password would lose its confirmed address (decisions.md, Without a password). */
export function losesAddress(
  before: AccountRecord,
  after: AccountRecord,
  allowed: Pick<AllowedWays, "emailCode">,
): boolean {
  if (after.email_verified || !canSignIn(before, allowed) || hasWay(after, isReplaceable)) return false;
  return before.email_verified || before.email !== after.email;
}
