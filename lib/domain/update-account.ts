/** `accounts.update`, `accounts.setPassword` and `accounts.delete`. */
import type { AccountRecord } from "../directory/directory.ts";
import { NotFound } from "../errors.ts";
import { type Account, type AccountChanges, toAccount } from "./account.ts";
import { type AccountDeps, changeAccount } from "./account-change.ts";
import { accountChanges } from "./account-schema.ts";
import { anyString, checked } from "./arguments.ts";
import { actor, type CallOptions, callerOf, named } from "./call-options.ts";

/** The error for a change of an account that is not there. */
export function noAccount(): NotFound {
  return new NotFound("this account");
}

/** See `Accounts.update`. */
export async function updateAccount(
  deps: AccountDeps,
  sub: string,
  input: AccountChanges,
  options: CallOptions | undefined,
): Promise<Account> {
  checked("sub", anyString, sub);
  const caller = callerOf(options);
  const changes = checked("changes", accountChanges, input);
  const { record } = await changeAccount(deps, sub, caller, (before) => {
    if (before === undefined) throw noAccount();
    const after = applied(before, changes);
    const fields = Object.keys(after) as (keyof AccountRecord)[];
    const changed = fields.filter((field) => before[field] !== after[field]);
    if (changed.length === 0) return undefined;
    return { action: "account.updated", record: after, detail: { fields: changed.join(" ") } };
  });
  if (record === undefined) throw noAccount();
  return toAccount(record);
}

function applied(before: AccountRecord, changes: AccountChanges): AccountRecord {
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
  const after: AccountRecord = { ...before, ...given };
  const moved = after.email !== before.email && changes.email_verified === undefined;
  return moved ? { ...after, email_verified: false } : after;
}

/** How `setPassword` treats the sessions of the account. */
export interface SetPasswordOptions extends CallOptions {
  /** The `uid` of a session that lives on: the one in which the person changed the password. Default: none. */
  readonly keepSession?: string | undefined;
}

/** What a session or grant has to carry from now on. */
export interface NewGenerations {
  readonly sessions_generation: number;
  readonly tokens_generation: number;
}

/** See `Accounts.setPassword`. */
export async function setPassword(
  deps: AccountDeps,
  sub: string,
  password: string,
  options: SetPasswordOptions,
): Promise<NewGenerations> {
  checked("sub", anyString, sub);
  const keepSession = checked("keepSession", anyString.optional(), options.keepSession);
  const caller = named(checked("options.actor", actor, options.actor));
  deps.passwords.check(password);
  if ((await deps.directory.findAccount(sub)) === undefined) throw noAccount();
  const hash = await deps.passwords.hash(password);
  const { record } = await changeAccount(deps, sub, caller, (before) => {
    if (before === undefined) throw noAccount();
    const after = {
      ...before,
      password_hash: hash,
      password_generation: (before.password_generation ?? 0) + 1,
      sessions_generation: before.sessions_generation + 1,
      tokens_generation: before.tokens_generation + 1,
    };
    return { action: "account.password_changed", record: after, keepSession };
  });
  if (record === undefined) throw noAccount();
  const { sessions_generation, tokens_generation } = record;
  return { sessions_generation, tokens_generation };
}

/** See `Accounts.delete`. */
export async function deleteAccount(
  deps: AccountDeps,
  sub: string,
  options: CallOptions | undefined,
): Promise<boolean> {
  checked("sub", anyString, sub);
  const caller = callerOf(options);
  const { changed } = await changeAccount(deps, sub, caller, (before) =>
    before === undefined ? undefined : { action: "account.deleted", record: undefined },
  );
  return changed;
}
