/** What a person allowed a third-party client: remembered on the account. */
import type { AccountRecord, Consent } from "../../adapters/directory.ts";
import { ConditionFailed } from "../errors.ts";
import { type AccountDeps, changeAccount } from "./account-change.ts";
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
): Promise<AccountRecord> {
  const { record } = await changeAccount(deps, sub, (before) => {
    if (before?.sessions_generation !== sessionsGeneration) throw ended();
    const earlier = consentOf(before, clientId);
    const consent = { scopes: union(earlier.scopes, scopes), claims: union(earlier.claims, claims) };
    const known = Object.hasOwn(before.consents, clientId) && sameSize(earlier, consent);
    if (known) return undefined;
    const after = { ...before, consents: withEntry(before.consents, clientId, consent) };
    return { action: "account.consented", record: after, detail: { client_id: clientId } };
  });
  if (record === undefined) throw ended();
  return record;
}

function union(earlier: readonly string[], added: readonly string[]): readonly string[] {
  return [...new Set([...earlier, ...added])];
}

function sameSize(one: Consent, other: Consent): boolean {
  return one.scopes.length === other.scopes.length && one.claims.length === other.claims.length;
}

/** See `AccountInternals.forgetConsents`. */
export async function forgetConsents(deps: AccountDeps, clientId: string): Promise<void> {
  let after: string | undefined;
  for (;;) {
    const page = await deps.directory.listAccounts({
      limit: PAGE,
      ...(after === undefined ? {} : { after }),
    });
    for (const { sub, consents } of page) {
      if (Object.hasOwn(consents, clientId)) await forgetConsent(deps, sub, clientId);
    }
    if (page.length < PAGE) return;
    after = page.at(-1)?.sub;
  }
}

async function forgetConsent(deps: AccountDeps, sub: string, clientId: string): Promise<void> {
  await changeAccount(deps, sub, (before) => {
    if (before === undefined || !Object.hasOwn(before.consents, clientId)) return undefined;
    const consents = withoutEntries(before.consents, new Set([clientId]));
    return {
      action: "account.consent_forgotten",
      record: { ...before, consents },
      detail: { client_id: clientId },
    };
  });
}
