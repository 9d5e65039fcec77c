/** Accounts as oidc-provider sees them: found by `sub`, by a code or token, or by the session of a browser. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "koa";
import type { Account, AccountClaims, Client, KoaContextWithOIDC, Provider } from "oidc-provider";
import { consentOf } from "../accounts/clients/consents.ts";
import type { AccountRecord, ApiRecord, ClientRecord } from "../records/directory/directory.ts";
import { isDisabled } from "../accounts/account.ts";
import { isProvided, type ProviderRules, type ProviderSignIn } from "../accounts/providers.ts";
import { isSessionCurrent, type SessionGeneration } from "../accounts/sign-in-sessions.ts";
import { generationAt, generationsOf } from "../accounts/generations.ts";
import { findRoles } from "../accounts/roles.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import { type Claims, OPENID_CLAIMS, ROLES } from "./claims.ts";
import { clientRecord } from "./clients.ts";
import { withoutDoubleCookie } from "./sessions/cookies.ts";
import type { CurrentProvider } from "./current-provider.ts";
import type { ProviderServices } from "./services.ts";

/** An account of oidc-provider with our record behind it. */
export interface OidcAccount extends Account {
  readonly record: AccountRecord;
}

/**
 * oidc-provider filters the claims by scope. The scope of an ID token is `openid` to that filter, which lets roles pass; here it
 * is the one that was granted.
 * @param client who reads them.
 * @param rolesOf reads the roles in the service of the client.
 */
export function oidcAccount(
  record: AccountRecord,
  supported: Claims,
  client: ClientRecord | undefined,
  rolesOf: (record: AccountRecord) => Promise<readonly string[]>,
): OidcAccount {
  // Without a client, nothing is read that only some may read.
  const readable = supported.readBy(client ?? NOBODY);
  // A third party reads the attributes that the person has seen: not one that has joined a scope since.
  const allowed = client?.first_party
    ? undefined
    : (consentOf(record, client?.client_id ?? "").attributes ?? []);
  return {
    accountId: record.sub,
    record,
    async claims(use, scope, requested) {
      const roles = scope.split(" ").includes(ROLES) ? await rolesOf(record) : [];
      const claims = { ...readable.about(record, allowed), ...(roles.length > 0 && { [ROLES]: roles }) };
      return use === "id_token" ? ofIdToken(claims, requested) : claims;
    },
  };
}

const NOBODY = { service: null, first_party: false } as const;

/** Other scopes than `openid` ask for what userinfo says (OpenID Connect Core 1.0 section 5.4). */
const OF_ID_TOKEN: ReadonlySet<string> = new Set([...OPENID_CLAIMS, ROLES]);

/**
 * What an ID token may say. Beside a token for an API, which does not open userinfo, oidc-provider would add what other scopes
 * ask for.
 */
function ofIdToken(claims: AccountClaims, requested: object): AccountClaims {
  const own = Object.entries(claims).filter(
    ([claim]) => OF_ID_TOKEN.has(claim) || Object.hasOwn(requested, claim),
  );
  return { sub: claims.sub, ...Object.fromEntries(own) };
}

/** The counters of an account that a grant copies at sign-in, and its codes and tokens from the grant. */
export interface GrantGenerations {
  readonly tokens: number;
  readonly service: number;
  readonly client: number;
  /** Of the client. It changes when all codes and tokens of the client end. */
  readonly epoch: string;
  /** What a token for an API also carries. */
  readonly api?: ApiGeneration;
  /** Of the session. It decides for accounts that sign in at a provider only. */
  readonly atProvider?: ProviderSignIn;
  /** Grants only: that of each authorized API, by its identifier. */
  readonly apis?: Readonly<Record<string, ApiGeneration>>;
}

/** What a person's access to an API depends on. It ends when either value changes. */
interface ApiGeneration {
  /** Of the account at the service of the API. */
  readonly service: number;
  readonly epoch: string;
}

/** The generation that a grant for this API carries if it is made now. */
export function apiGeneration(account: AccountRecord, { service, tokens_epoch }: ApiRecord): ApiGeneration {
  return { service: generationAt(account.service_generations, service), epoch: tokens_epoch };
}

/** Whether what was granted for this API still holds for the account. Its own generations are checked by {@link isCurrent}. */
export function isCurrentForApi(
  carried: ApiGeneration | undefined,
  account: AccountRecord,
  api: ApiRecord,
): boolean {
  const now = apiGeneration(account, api);
  return carried?.epoch === now.epoch && carried.service === now.service && isAssigned(account, api.service);
}

export const isAssigned = ({ services }: AccountRecord, service: string): boolean =>
  Object.hasOwn(services, service);

/** The generations that a grant of this account at this client carries if it is issued now. */
export function currentGenerations(account: AccountRecord, client: ClientRecord): GrantGenerations {
  const { tokens, service, client: own } = generationsOf(account, client.client_id, client.service);
  return { tokens, service, client: own, epoch: client.tokens_epoch };
}

/**
 * Whether a code or token with these generations is still valid. Deleting an account, unassigning it and changing its
 * password raise a counter, and disabling or moving a client gives it another epoch, so everything that was issued before
 * is refused immediately. A disabled account has no valid tokens, and one that signs in at a provider only has none without
 * a sign-in there.
 */
export function isCurrent(
  carried: unknown,
  account: AccountRecord,
  client: ClientRecord,
  rules: ProviderRules,
): boolean {
  if (isDisabled(account)) return false;
  const generations = carried as Partial<GrantGenerations> | undefined;
  if (!isProvided(rules, account, generations?.atProvider)) return false;
  const now = currentGenerations(account, client);
  return (
    generations?.tokens === now.tokens &&
    generations.service === now.service &&
    generations.client === now.client &&
    generations.epoch === now.epoch
  );
}

/** What a token of a `machine` client depends on. It ends when either value changes. */
export interface TokenEpochs {
  readonly client: string;
  readonly api: string;
}

/** The epochs that a token of this client for this API carries if it is issued now. */
export function currentEpochs(client: ClientRecord, api: ApiRecord): TokenEpochs {
  return { client: client.tokens_epoch, api: api.tokens_epoch };
}

/**
 * `findAccount` of oidc-provider: called without a token for a session, and with it for each use of a code or token.
 */
export async function findAccount(
  ctx: KoaContextWithOIDC,
  sub: string,
  token: unknown,
  {
    accounts,
    claims,
    configuration,
    storage: { directory },
  }: Pick<ProviderServices, "accounts" | "claims" | "configuration" | "storage">,
): Promise<OidcAccount | undefined> {
  const record = await accounts.record(sub);
  if (record === undefined || isDisabled(record)) return undefined;
  if (token !== undefined) {
    const { client } = ctx.oidc;
    const { generations } = token as { readonly generations?: unknown };
    if (client === undefined || !isCurrent(generations, record, clientRecord(client), configuration))
      return undefined;
  }
  const { client } = ctx.oidc;
  return oidcAccount(record, claims, client && clientRecord(client), (account) =>
    rolesAtClient(directory, account, client),
  );
}

/** The roles of an account in the service of the client. */
export async function rolesAtClient(
  directory: Pick<DirectoryRecords, "findEntry">,
  account: AccountRecord,
  client: Client | undefined,
): Promise<readonly string[]> {
  return client === undefined ? [] : findRoles(directory, account, clientRecord(client).service);
}

/** The result that the sign-in form reports to oidc-provider. */
interface LoginResult {
  readonly accountId: string;
  readonly generation?: number;
  readonly remembered?: boolean;
  /** Left out: the person was not there now, and may have been before. */
  readonly atProvider?: ProviderSignIn;
  readonly undated?: boolean;
}

/** Copies the generation from the result of the sign-in form to the session, before any rule reads it. */
export function storeSessionGeneration(provider: Provider): void {
  provider.on("interaction.ended", ({ oidc: { session, result } }) => {
    const login = result?.["login"] as LoginResult | undefined;
    if (login?.generation === undefined || login.accountId !== session?.accountId) return;
    Object.assign(session as SessionGeneration, {
      generation: login.generation,
      remembered: login.remembered === true ? true : undefined,
      ...(login.atProvider && { atProvider: login.atProvider }),
      undated: login.undated === true ? true : undefined,
    });
  });
}

/** Someone with a valid session. */
export interface SignedIn {
  readonly account: AccountRecord;
  /** The session's `uid`, which is different in each browser. */
  readonly session: string;
  /** When the person last signed in there, in seconds since the epoch. */
  readonly signedInAt: number;
  /** Nobody knows how long before that: the sign-in is never recent. */
  readonly undated?: true;
  /** How the person signed in. */
  readonly acr?: string;
  readonly amr?: readonly string[];
  readonly atProvider?: ProviderSignIn;
}

/** A request, and whether the browser used https. */
export interface SessionRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly secure: boolean;
}

/** @returns `undefined` when no one is signed in. Storage faults reject. */
export type FindSignedIn = (request: SessionRequest) => Promise<SignedIn | undefined>;

/**
 * Finds out who is signed in, by the rules of the authorization endpoint.
 * @param sessionCookie name of the cookie that holds the session.
 */
export function createSignedIn(
  currentProvider: CurrentProvider,
  { accounts, configuration }: Pick<ProviderServices, "accounts" | "configuration">,
  sessionCookie: string,
): FindSignedIn {
  return async ({ req, res, secure }) => {
    const { cookie: sent, ...headers } = req.headers;
    const cookie = withoutDoubleCookie(sent, sessionCookie);
    if (!cookie?.includes(`${sessionCookie}=`)) return undefined;
    const request = Object.create(req, { headers: { value: { ...headers, cookie } } }) as IncomingMessage;
    const { provider } = currentProvider();
    const ctx = provider.createContext(request, res) as unknown as Context;
    Object.defineProperty(ctx, "secure", { value: secure });
    const session = await provider.Session.get(ctx);
    if (session.accountId === undefined) return undefined;
    const account = await accounts.record(session.accountId);
    if (account === undefined || isDisabled(account)) return undefined;
    const { atProvider, undated } = session as typeof session & SessionGeneration;
    if (!isSessionCurrent(session as SessionGeneration, account, configuration)) return undefined;
    const { uid, loginTs = 0, acr, amr } = session;
    return {
      account,
      session: uid,
      signedInAt: loginTs,
      ...(undated === true && { undated }),
      ...(acr !== undefined && { acr }),
      ...(amr !== undefined && { amr }),
      ...(atProvider !== undefined && { atProvider }),
    };
  };
}
