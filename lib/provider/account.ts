/** How an account looks to oidc-provider, and when what it was given has ended. */
import type { Account } from "oidc-provider";
import type { AccountRecord, ClientRecord } from "../directory/directory.ts";
import { isDisabled } from "../domain/account.ts";
import { generationsOf } from "../domain/generations.ts";
import { claimsAbout } from "./claims.ts";
import type { Generations } from "./patches.ts";

/** The library's account with the record behind it. */
export interface OidcAccount extends Account {
  readonly record: AccountRecord;
}

/** The generations that a code or token of this account at this client carries from now on. */
export function currentGenerations(account: AccountRecord, client: ClientRecord): Generations {
  const { tokens, service, client: own } = generationsOf(account, client.client_id, client.service);
  return { tokens, service, client: own };
}

/**
 * Whether a code or token that carries these generations may still be used. Deletion, unassignment and a
 * new password move a counter on the account, so nothing that was issued before is accepted after it; for an account
 * that is disabled nothing is.
 */
export function isCurrent(carried: unknown, account: AccountRecord, client: ClientRecord): boolean {
  if (isDisabled(account)) return false;
  const generations = carried as Partial<Generations> | undefined;
  const now = currentGenerations(account, client);
  return (
    generations?.tokens === now.tokens &&
    generations.service === now.service &&
    generations.client === now.client
  );
}

/** The library's view of an account. It filters the claims by scope itself. */
export function oidcAccount(record: AccountRecord): OidcAccount {
  return { accountId: record.sub, record, claims: () => claimsAbout(record) };
}
