/** Comparing passwords: at sign-in by name, and for `accounts.verifyPassword` by `sub`. */
import type { AccountRecord } from "../directory/directory.ts";
import { SYSTEM } from "../audit/audit-event.ts";
import { isDisabled } from "./account.ts";
import { type AccountDeps, changeAccount, harmless } from "./account-change.ts";
import { anyString, checked } from "./arguments.ts";
import { typedName } from "./names.ts";

/** The outcome of a sign-in with name and password. */
export interface Authenticated {
  /** Whether the password is the account's, and the account is not disabled. */
  readonly ok: boolean;
  /** Why not. What somebody is told is the same for both. */
  readonly refusal?: "credentials" | "disabled";
  /** The account, as it was before the password was compared: also when the password is wrong. */
  readonly record?: AccountRecord;
}

/** Work that goes on after the answer. */
export interface Background {
  /** Starts it; a failure is harmless. */
  readonly run: (where: string, work: () => Promise<void>) => void;
}

/** The account with this sign-in name. */
export async function recordByLogin(deps: AccountDeps, login: string): Promise<AccountRecord | undefined> {
  const name = typedName(login);
  return name === undefined ? undefined : deps.directory.findAccountByName(name);
}

/** See `AccountInternals.authenticate`. */
export async function authenticate(
  deps: AccountDeps,
  background: Background,
  login: string,
  password: string,
): Promise<Authenticated> {
  const record = await recordByLogin(deps, login);
  const refusal = await compare(deps, background, record, password);
  return {
    ok: refusal === undefined,
    ...(refusal === undefined ? {} : { refusal }),
    ...(record === undefined ? {} : { record }),
  };
}

/** See `Accounts.verifyPassword`. */
export async function verifyPassword(
  deps: AccountDeps,
  background: Background,
  sub: string,
  password: string,
): Promise<boolean> {
  checked("sub", anyString, sub);
  checked("password", anyString, password);
  const record = await deps.directory.findAccount(sub);
  return (await compare(deps, background, record, password)) === undefined;
}

/** The same work whatever comes of it. @returns why somebody who shows this password must not go on. */
async function compare(
  deps: AccountDeps,
  background: Background,
  record: AccountRecord | undefined,
  password: string,
): Promise<Authenticated["refusal"]> {
  const hash = record?.password_hash ?? null;
  const matches = await deps.passwords.verify(hash, password);
  if (!matches || record === undefined || hash === null) return "credentials";
  if (isDisabled(record)) return "disabled";
  if (deps.passwords.needsRehash(hash)) {
    background.run("rehash", () => rehash(deps, record.sub, hash, password));
  }
  return undefined;
}

/** Replaces the hash that was compared; if the password was changed in the meantime, nothing happens. */
async function rehash(deps: AccountDeps, sub: string, compared: string, password: string): Promise<void> {
  const hash = await deps.passwords.hash(password);
  await changeAccount(deps, sub, SYSTEM, (before) =>
    before?.password_hash === compared
      ? { action: "account.rehashed", record: { ...before, password_hash: hash } }
      : undefined,
  );
}

/** Work of which the end can be waited for, so that a service that closes loses none of it. */
export function createBackground(deps: Pick<AccountDeps, "events">): Background & {
  readonly settled: () => Promise<void>;
} {
  const running = new Set<Promise<void>>();
  return {
    run(where, work) {
      const promise = harmless(deps, where, work).finally(() => running.delete(promise));
      running.add(promise);
    },
    async settled() {
      await Promise.all(running);
    },
  };
}
