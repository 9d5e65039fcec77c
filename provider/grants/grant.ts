/** Grants: each authorization creates one, and everything that is issued from it forms a family. */
import { randomBytes } from "node:crypto";
import { errors, type Grant, interactionPolicy, type KoaContextWithOIDC, type Provider } from "oidc-provider";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { Rider } from "../../records/rate-limits.ts";
import type { AccountRecord, ApiRecord, ClientRecord } from "../../records/directory/directory.ts";
import { protocolClientId } from "../../records/directory/document-kinds.ts";
import type { AccountInternals } from "../../accounts/account.ts";
import { generationAt } from "../../accounts/generations.ts";
import { noteLimited } from "../../accounts/limits/attempt-limits.ts";
import type { SessionGeneration } from "../../accounts/sign-in-sessions.ts";
import { ownValue } from "../../core/untrusted-keys.ts";
import { consentOf } from "../../accounts/clients/consents.ts";
import {
  apiGeneration,
  currentGenerations,
  isAssigned,
  type GrantGenerations,
  type OidcAccount,
  type SignedIn,
} from "../account.ts";
import { CODE_KEPT_SECONDS } from "../adapter.ts";
import { ALL_FIELDS } from "../claims.ts";
import { clientRecord } from "../clients.ts";
import { allowedScopes, apisOf } from "../apis.ts";
import { callerOf, exchangeOf } from "../exchange.ts";
import type { ProviderServices } from "../services.ts";

/** A grant that is not stored yet. Its generations decide how long it is valid. */
export function newGrant(
  provider: Provider,
  { account, atProvider }: Pick<SignedIn, "account" | "atProvider">,
  client: ClientRecord,
  apis: ReadonlyMap<string, ApiRecord> = new Map(),
): Grant {
  const grant: Grant & { generations?: GrantGenerations } = new provider.Grant({
    accountId: account.sub,
    clientId: protocolClientId(client),
  });
  grant.jti = randomBytes(32).toString("base64url");
  const generations = { ...currentGenerations(account, client), ...(atProvider && { atProvider }) };
  const ofApis = [...apis].map(([identifier, api]) => [identifier, apiGeneration(account, api)]);
  grant.generations =
    ofApis.length === 0
      ? generations
      : { ...generations, apis: Object.fromEntries(ofApis) as GrantGenerations["apis"] & {} };
  return grant;
}

/**
 * `loadExistingGrant` of oidc-provider. A first-party client gets everything it requests; a third-party client gets
 * what the user has allowed, now or earlier. Consent is stored with the account, so withdrawn consent is not granted.
 */
export async function loadGrant(ctx: KoaContextWithOIDC): Promise<Grant | undefined> {
  const { account, client, provider, requestParamOIDCScopes, requestParamClaims } = ctx.oidc;
  if (!account || !client) return undefined;
  const record = clientRecord(client);
  const apis = apisOf(ctx.oidc);
  const { atProvider } = (ctx.oidc.session ?? {}) as SessionGeneration;
  const person = { account: (account as OidcAccount).record, ...(atProvider && { atProvider }) };
  const grant = newGrant(provider, person, record, apis);
  // Nobody has registered such a client: each of its grants takes an answer of its own.
  const isAnswered = record.document === undefined || ctx.oidc.result?.consent !== undefined;
  const consented = isAnswered
    ? consentOf((account as OidcAccount).record, record.client_id)
    : { scopes: [], claims: [] };
  for (const [identifier, api] of apis) {
    const allowed = record.first_party
      ? ctx.oidc.requestParamScopes
      : ownValue(consented.apis ?? {}, identifier);
    const granted = allowedScopes(record, api).filter((scope) => new Set(allowed).has(scope));
    if (granted.length > 0) grant.addResourceScope(identifier, granted.join(" "));
  }
  if (record.first_party) {
    grant.addOIDCScope([...requestParamOIDCScopes].join(" "));
    grant.addOIDCClaims([...requestParamClaims]);
    return grant;
  }
  const { scopes, claims } = consented;
  if (scopes.length > 0) grant.addOIDCScope(scopes.join(" "));
  if (claims.length > 0) grant.addOIDCClaims([...claims]);
  return grant;
}

/** The services that somebody is assigned to by signing in: that of the client, and those of the APIs that assign. */
function missingServices(
  record: AccountRecord,
  client: ClientRecord,
  apis: readonly ApiRecord[],
): readonly string[] {
  const assigning = apis.filter(({ assign }) => assign);
  const services = new Set([client.service, ...assigning.map(({ service }) => service)]);
  return [...services].filter((service) => service !== null && !isAssigned(record, service)) as string[];
}

/**
 * Assigns the person to the service of the client, and to those of the APIs that assign.
 * @throws ConditionFailed when the person's access to one of them has ended meanwhile.
 */
export async function assignServices(
  accounts: Pick<AccountInternals, "assignAtSignIn">,
  record: AccountRecord,
  client: ClientRecord,
  apis: readonly ApiRecord[],
  caller: Caller,
): Promise<void> {
  for (const service of missingServices(record, client, apis)) {
    const expected = {
      serviceGeneration: generationAt(record.service_generations, service),
      tokensGeneration: record.tokens_generation,
    };
    await accounts.assignAtSignIn(record.sub, service, expected, caller);
  }
}

/**
 * Gives a grant that is not stored yet the lifetime of the code from which it will be exchanged.
 * @param codeSeconds of the code.
 */
export function untilExchanged(grant: Grant, codeSeconds: number): Grant {
  return Object.assign(grant, { expiresIn: codeSeconds + CODE_KEPT_SECONDS });
}

const tooManyCodes = (): errors.OIDCProviderError =>
  new errors.TemporarilyUnavailable("too many authorizations of this account");

/**
 * Assigns the user to the client's service and stores the grant, when the policy has no more questions. oidc-provider
 * awaits nothing else between its last check and the code, so this is a check that always passes, in a prompt of its
 * own: the checks of one prompt run in parallel. A person who sees no page needs a point of the account's limit, which the commit
 * of the code consumes; if there is something to store before, it is consumed first.
 */
export function writeGrant({
  accounts,
  limits,
  audit,
  units,
  configuration,
}: Pick<
  ProviderServices,
  "accounts" | "limits" | "audit" | "units" | "configuration"
>): interactionPolicy.Prompt {
  async function consumePoint(ctx: KoaContextWithOIDC, sub: string, rider?: Rider): Promise<void> {
    const attempt = await limits.authorization(sub, rider);
    if (attempt.allowed) return;
    const caller = callerOf(ctx, { kind: "account", id: sub });
    noteLimited(audit, { ...caller, action: "grant.created", subject: sub }, attempt);
    exchangeOf(ctx).retryAfter = attempt.retryAfter;
    throw tooManyCodes();
  }

  async function write(ctx: KoaContextWithOIDC): Promise<false> {
    const { account, client, grant, result } = ctx.oidc;
    if (!account || !client || !grant) return false;
    const { record } = account as OidcAccount;
    const { sub } = record;
    const apis = [...apisOf(ctx.oidc).values()];
    if (result === undefined) {
      // The commit found no point: the request runs again for its answer.
      if (exchangeOf(ctx).retryAfter > 0) throw tooManyCodes();
      if (missingServices(record, clientRecord(client), apis).length > 0) await consumePoint(ctx, sub);
      else units.required().consumePoints((rider) => consumePoint(ctx, sub, rider));
    }
    const caller = callerOf(ctx, { kind: "account", id: sub });
    await assignServices(accounts, record, clientRecord(client), apis, caller);
    await untilExchanged(grant, configuration.lifetimes.authorizationCode).save();
    return false;
  }
  return new interactionPolicy.Prompt(
    { name: "write_grant", requestable: false },
    new interactionPolicy.Check("unwritten", "the grant is not written", "server_error", write),
  );
}

/** Whether a token of this client and scope gives access to the e-mail address and to the documented profile. */
export function openedFields(
  client: ClientRecord,
  scope: string,
): { readonly email: boolean; readonly profile: boolean } {
  if (client.first_party) return { email: true, profile: true };
  const scopes = new Set(scope.split(" "));
  const all = scopes.has(ALL_FIELDS);
  return { email: all || scopes.has("email") || scopes.has("openid"), profile: all || scopes.has("profile") };
}
