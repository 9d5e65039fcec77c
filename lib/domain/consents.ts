/** What a person allowed a third-party client: remembered on the account. */
import type { AccountRecord, Consent } from "../directory/directory.ts";
import type { Caller } from "../audit/audit-event.ts";
import { ConditionFailed } from "../errors.ts";
import { type AccountDeps, bounded, changeAccount } from "./account-change.ts";
import { ownValue, withEntry, withoutEntries } from "./own-entries.ts";

const PAGE = 1000;

/** What the account has allowed the client so far. */
export function consentOf(record: Pick<AccountRecord, "consents">, clientId: string): Consent {
  return ownValue(record.consents, clientId) ?? { scopes: [], claims: [] };
}

/** What a person allows, and the `sessions_generation` of the session in which it is allowed. */
export interface NewConsent extends Consent {
  readonly sessionsGeneration: number;
}

function ended(): ConditionFailed {
  return new ConditionFailed("the session has ended in the meantime");
}

/** See `AccountInternals.rememberConsent`. */
export async function rememberConsent(
  deps: AccountDeps,
  sub: string,
  clientId: string,
  { scopes, claims, sessionsGeneration }: NewConsent,
  caller: Caller,
): Promise<AccountRecord> {
  const removed = await removedClients(deps, sub, clientId);
  const { record } = await changeAccount(deps, sub, caller, (before) => {
    if (before?.sessions_generation !== sessionsGeneration) throw ended();
    const earlier = consentOf(before, clientId);
    const consent = { scopes: [...earlier.scopes, ...scopes], claims: [...earlier.claims, ...claims] };
    const all = withEntry(withoutEntries(before.consents, removed), clientId, consent);
    const consents = bounded(all, deps.grantable);
    // Both came out of the storage or of the lines above and keep the order of their members.
    if (JSON.stringify(consents) === JSON.stringify(before.consents)) return undefined;
    return {
      action: "account.consented",
      record: { ...before, consents },
      client: clientId,
    };
  });
  if (record === undefined) throw ended();
  return record;
}

/** Clients that the account allowed something and that are gone, whose entries nobody reads any more. */
async function removedClients(
  { directory }: AccountDeps,
  sub: string,
  clientId: string,
): Promise<ReadonlySet<string>> {
  const { consents = {} } = (await directory.findAccount(sub)) ?? {};
  const others = Object.keys(consents).filter((id) => id !== clientId);
  const found = await Promise.all(others.map((id) => directory.findClient(id)));
  return new Set(others.filter((_id, index) => found[index] === undefined));
}

/** See `AccountInternals.forgetConsents`. */
export async function forgetConsents(deps: AccountDeps, clientId: string, caller: Caller): Promise<void> {
  let after: string | undefined;
  for (;;) {
    const page = await deps.directory.listAccounts({
      limit: PAGE,
      ...(after === undefined ? {} : { after }),
    });
    for (const { sub, consents } of page) {
      if (Object.hasOwn(consents, clientId)) await forgetConsent(deps, sub, clientId, caller);
    }
    if (page.length < PAGE) return;
    after = page.at(-1)?.sub;
  }
}

async function forgetConsent(
  deps: AccountDeps,
  sub: string,
  clientId: string,
  caller: Caller,
): Promise<void> {
  await changeAccount(deps, sub, caller, (before) => {
    if (before === undefined || !Object.hasOwn(before.consents, clientId)) return undefined;
    const consents = withoutEntries(before.consents, new Set([clientId]));
    return {
      action: "account.consent_forgotten",
      record: { ...before, consents },
      client: clientId,
    };
  });
}
