/** Which services an account belongs to: `accounts.assign`, `accounts.unassign`, and the first sign-in. */
import type { AccountRecord } from "../directory/directory.ts";
import type { Caller } from "../audit/audit-event.ts";
import { ConditionFailed } from "../errors.ts";
import { type Account, toAccount } from "./account.ts";
import { type AccountDeps, changeAccount } from "./account-change.ts";
import { clientsOf } from "./account-endings.ts";
import { serviceKey, serviceKeys, userIdInService } from "./account-schema.ts";
import { anyString, checked } from "./arguments.ts";
import { type CallOptions, callerOf } from "./call-options.ts";
import { generationAt, raised } from "./generations.ts";
import { ownValue, withEntry, withoutEntries } from "./own-entries.ts";
import { noAccount } from "./update-account.ts";

/** See `Accounts.assign`. Without a number an assignment that is there keeps the one that it has. */
export async function assign(
  deps: AccountDeps,
  sub: string,
  service: string,
  number: number | null | undefined,
  options: CallOptions | undefined,
): Promise<Account> {
  checked("sub", anyString, sub);
  const caller = callerOf(options);
  const key = checked("serviceKey", serviceKey, service);
  const given = checked("userIdInService", userIdInService.optional(), number);
  const { record } = await changeAccount(deps, sub, caller, (before) => {
    if (before === undefined) throw noAccount();
    const value = given === undefined ? (ownValue(before.services, key) ?? null) : given;
    return ownValue(before.services, key) === value ? undefined : assigned(before, key, value);
  });
  if (record === undefined) throw noAccount();
  return toAccount(record);
}

function assigned(
  before: AccountRecord,
  service: string,
  value: number | null,
): {
  readonly action: "account.assigned";
  readonly record: AccountRecord;
  readonly detail: { readonly service: string };
} {
  const record = { ...before, services: withEntry(before.services, service, value) };
  return { action: "account.assigned", record, detail: { service } };
}

/** See `Accounts.unassign`. */
export async function unassign(
  deps: AccountDeps,
  sub: string,
  services: string | readonly string[],
  options: CallOptions | undefined,
): Promise<boolean> {
  checked("sub", anyString, sub);
  const caller = callerOf(options);
  const keys = checked("serviceKeys", serviceKeys, services);
  const clients = new Set(await clientsOf(deps.directory, keys));
  const { changed } = await changeAccount(deps, sub, caller, (before) => {
    const leaving = keys.filter((key) => before !== undefined && Object.hasOwn(before.services, key));
    if (before === undefined || leaving.length === 0) return undefined;
    const record = {
      ...before,
      services: withoutEntries(before.services, new Set(leaving)),
      service_generations: raised(before.service_generations, leaving),
      consents: withoutEntries(before.consents, clients),
    };
    return { action: "account.unassigned", record, detail: { services: leaving.join(" ") } };
  });
  return changed;
}

/** The generations that were read when the person signed in. */
export interface SeenGenerations {
  readonly serviceGeneration: number;
  readonly tokensGeneration: number;
}

/** See `AccountInternals.assignAtSignIn`. */
export async function assignAtSignIn(
  deps: AccountDeps,
  sub: string,
  service: string,
  seen: SeenGenerations,
  caller: Caller,
): Promise<AccountRecord> {
  const { record } = await changeAccount(deps, sub, caller, (before) => {
    const current =
      before !== undefined &&
      before.tokens_generation === seen.tokensGeneration &&
      generationAt(before.service_generations, service) === seen.serviceGeneration;
    if (!current) throw new ConditionFailed("what this sign-in rests on has ended in the meantime");
    return Object.hasOwn(before.services, service) ? undefined : assigned(before, service, null);
  });
  if (record === undefined) throw new ConditionFailed("the account has ended in the meantime");
  return record;
}
