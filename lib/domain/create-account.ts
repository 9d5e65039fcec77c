/** `accounts.create` and `accounts.import`. */
import { randomInt, randomUUID } from "node:crypto";
import type { AccountRecord } from "../directory/directory.ts";
import type { Caller } from "../audit/audit-event.ts";
import { seconds } from "../clock.ts";
import { AlreadyExists, IdentifierTaken } from "../errors.ts";
import { type Account, type ImportedAccount, type NewAccount, toAccount } from "./account.ts";
import { type AccountAction, type AccountDeps, changeAccount } from "./account-change.ts";
import { importedAccount, newAccount } from "./account-schema.ts";
import { checked } from "./arguments.ts";
import { type CallOptions, callerOf } from "./call-options.ts";

/** Numbers that the counter may hand out although an import took them a moment before. */
const TRIES = 20;

/** See `Accounts.create`. */
export async function createAccount(
  deps: AccountDeps,
  input: NewAccount,
  options: CallOptions | undefined,
): Promise<Account> {
  const account = checked("account", newAccount, input);
  const creation = { action: "account.created", caller: callerOf(options) } as const;
  return store(deps, creation, account, await passwordHash(deps, account));
}

/** See `Accounts.import`. */
export async function importAccount(
  deps: AccountDeps,
  input: ImportedAccount,
  options: CallOptions | undefined,
): Promise<Account> {
  const account = checked("account", importedAccount, input);
  const creation = { action: "account.imported", caller: callerOf(options) } as const;
  const hash = account.password_hash ?? (await passwordHash(deps, account));
  if (account.user_id !== undefined) await deps.directory.passUserId(account.user_id);
  return store(deps, creation, account, hash);
}

async function passwordHash(deps: AccountDeps, { password }: NewAccount): Promise<string | null> {
  if (password === undefined || password === null) return null;
  deps.passwords.check(password);
  return deps.passwords.hash(password);
}

async function store(
  deps: AccountDeps,
  { action, caller }: { readonly action: AccountAction; readonly caller: Caller },
  input: ImportedAccount,
  hash: string | null,
): Promise<Account> {
  const sub = input.sub ?? randomUUID();
  let subTaken = false;
  for (let attempt = 1; ; attempt += 1) {
    const userId = input.user_id ?? (await deps.directory.nextUserId());
    const record = newRecord(input, sub, userId, hash, seconds(deps.clock));
    try {
      await changeAccount(deps, sub, caller, (before) => {
        subTaken = before !== undefined;
        if (subTaken) throw new AlreadyExists("an account with this sub");
        return { action, record };
      });
      return toAccount(record);
    } catch (error) {
      if (error instanceof IdentifierTaken) throw error;
      // An import took this number between the counter and the commit; the counter is past it by now.
      const numberTaken = error instanceof AlreadyExists && !subTaken && input.user_id === undefined;
      if (!numberTaken || attempt === TRIES) throw error;
    }
  }
}

function newRecord(
  input: ImportedAccount,
  sub: string,
  userId: number,
  hash: string | null,
  now: number,
): AccountRecord {
  return {
    sub,
    user_id: userId,
    email: input.email,
    email_verified: input.email_verified ?? false,
    username: input.username ?? null,
    name: input.name ?? null,
    surname: input.surname ?? null,
    date_of_birth: input.date_of_birth ?? null,
    gender: input.gender ?? null,
    portal: input.portal ?? null,
    services: input.services ?? {},
    password_hash: hash,
    // Not from 0: sessions and tokens of an account that had this sub before must not come back to life.
    sessions_generation: randomInt(1, 2 ** 31),
    tokens_generation: randomInt(1, 2 ** 31),
    service_generations: {},
    client_generations: {},
    consents: {},
    created_at: now,
    updated_at: now,
    version: 1,
  };
}
