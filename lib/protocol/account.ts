/** How an account looks to oidc-provider, and when what it was given has ended. */
import type { Account, AccountClaims } from "oidc-provider";
import type { AccountRecord, ClientRecord } from "../../adapters/directory.ts";
import { generationsOf } from "../domain/generations.ts";
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
 * new password move a counter on the account, so nothing that was issued before is accepted after it.
 */
export function isCurrent(carried: unknown, account: AccountRecord, client: ClientRecord): boolean {
  const generations = carried as Partial<Generations> | undefined;
  const now = currentGenerations(account, client);
  return (
    generations?.tokens === now.tokens &&
    generations.service === now.service &&
    generations.client === now.client
  );
}

/** What every claim of the standard scopes is made of; a claim without a value is left out. */
export const claimSources: Readonly<Record<string, (account: AccountRecord) => unknown>> = {
  sub: (account) => account.sub,
  email: (account) => account.email,
  email_verified: (account) => account.email_verified,
  given_name: (account) => account.name,
  family_name: (account) => account.surname,
  birthdate: (account) => account.date_of_birth,
  gender: (account) => account.gender,
  preferred_username: (account) => account.username,
  updated_at: (account) => account.updated_at,
};

/** Which claims a scope opens (OpenID Connect Core 1.0, section 5.4; `email` in `openid` as documented). */
export const scopeClaims = {
  openid: ["sub", "email", "acr", "amr"],
  email: ["email", "email_verified"],
  profile: ["given_name", "family_name", "birthdate", "gender", "preferred_username", "locale", "updated_at"],
} as const;

/** The library's view of an account. It filters the claims by scope itself. */
export function oidcAccount(record: AccountRecord): OidcAccount {
  return {
    accountId: record.sub,
    record,
    claims(): AccountClaims {
      const claims: AccountClaims = { sub: record.sub };
      for (const [claim, source] of Object.entries(claimSources)) {
        const value = source(record);
        if (value !== null && value !== undefined) claims[claim] = value;
      }
      return claims;
    },
  };
}
