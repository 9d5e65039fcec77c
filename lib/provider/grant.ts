/** Each authorization creates its own grant: the head of the family of everything that descends from it. */
import { randomBytes } from "node:crypto";
import type { Grant, KoaContextWithOIDC, Provider } from "oidc-provider";
import type { ClientRecord, Consent } from "../directory/directory.ts";
import { consentOf } from "../domain/consents.ts";
import { currentGenerations, type OidcAccount } from "./account.ts";
import { KNOWN_CLAIMS } from "./claims.ts";
import { clientRecord } from "./clients.ts";
import { ALL_FIELDS, PUBLIC_SCOPES } from "./scopes.ts";
import type { Generations } from "./patches.ts";

/** Everything that a person can allow a client. */
export const GRANTABLE: Consent = { scopes: [...PUBLIC_SCOPES, ALL_FIELDS], claims: [...KNOWN_CLAIMS] };

type GrantWithGenerations = Grant & { generations?: Generations };

/** A grant that is not written yet, with the generations that decide how long it is good. */
export function newGrant(provider: Provider, account: OidcAccount, client: ClientRecord): Grant {
  const grant: GrantWithGenerations = new provider.Grant({
    accountId: account.accountId,
    clientId: client.client_id,
  });
  grant.jti = randomBytes(32).toString("base64url");
  grant.generations = currentGenerations(account.record, client);
  return grant;
}

/**
 * `loadExistingGrant` of oidc-provider. A first-party client gets what it asks for; a third-party client what
 * the person allowed, now or before: the page writes it to the account, so what was withdrawn since is not there.
 * The grant is written by the last check of the policy.
 */
export async function loadGrant(ctx: KoaContextWithOIDC): Promise<Grant | undefined> {
  const { account, client, provider, requestParamOIDCScopes, requestParamClaims } = ctx.oidc;
  if (!account || !client) return undefined;
  const record = clientRecord(client);
  const grant = newGrant(provider, account as OidcAccount, record);
  if (record.first_party) {
    grant.addOIDCScope([...requestParamOIDCScopes].join(" "));
    grant.addOIDCClaims([...requestParamClaims]);
    return grant;
  }
  const { scopes, claims } = consentOf((account as OidcAccount).record, record.client_id);
  if (scopes.length > 0) grant.addOIDCScope(scopes.join(" "));
  if (claims.length > 0) grant.addOIDCClaims([...claims]);
  return grant;
}

/** Whether a token of this client and scope opens the e-mail address and the documented profile. */
export function openedFields(
  client: ClientRecord,
  scope: string,
): { readonly email: boolean; readonly profile: boolean } {
  if (client.first_party) return { email: true, profile: true };
  const scopes = new Set(scope.split(" "));
  const all = scopes.has(ALL_FIELDS);
  return { email: all || scopes.has("email") || scopes.has("openid"), profile: all || scopes.has("profile") };
}
