/** userinfo and profile: three reads and an answer, without oidc-provider. */
import { artifactKey, isPresentable } from "../provider/adapter.ts";
import type { AccountRecord, ClientRecord } from "../records/directory/directory.ts";
import { DOCUMENTED_FIELDS } from "../accounts/profile-fields.ts";
import { isCurrent } from "../provider/account.ts";
import { openedFields } from "../provider/grants/grant.ts";
import type { ProviderServices } from "../provider/services.ts";
import { requireProfile } from "./client-credentials.ts";
import { badRequest, type EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange, Handler } from "./exchange.ts";
import { queryFields } from "./form-fields.ts";
import { boundToken, type ProofChecks } from "./proofs.ts";

/** RFC 6750 section 2.1; tokens are accepted in no other place. A JWT may be long. */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]{1,8000}=*) *$/i;

/** One answer for every reason, so that it reveals none. */
export const invalidToken = (): EndpointError => badRequest("invalid_token", "the access token is not valid");

/** How many tokens are remembered. */
const MAX_OWNERS = 10_000;

/**
 * Remembers the owners of the access tokens that this process has issued or seen, so that token and account are read
 * together: one round trip to the store instead of two. An owner never changes, and is checked against the token.
 */
export class TokenOwners {
  /** The `sub` by the key of the token, the latest last. */
  readonly #subs = new Map<string, string>();

  add(key: string, sub: string): void {
    const [oldest] = this.#subs.keys();
    if (oldest !== undefined && this.#subs.size >= MAX_OWNERS) this.#subs.delete(oldest);
    this.#subs.set(key, sub);
  }

  of(key: string): string | undefined {
    return this.#subs.get(key);
  }
}

/** A valid bearer token. */
export interface BearerToken {
  readonly key: string;
  readonly scope: string;
  readonly client: ClientRecord;
  readonly account: AccountRecord;
}

/** Answers a request with a valid token. */
export type TokenStep = (exchange: EndpointExchange, token: BearerToken) => Promise<void>;

/** Requires a valid token, with a proof if it is bound to a key, that belongs to the client in the query. */
export function bearer(
  {
    configuration,
    storage,
    clients,
    accounts,
    proofs,
  }: Pick<ProviderServices, "configuration" | "storage" | "clients" | "accounts" | "proofs">,
  owners: TokenOwners,
  checks: Pick<ProofChecks, "ofToken">,
): (step: TokenStep) => Handler {
  const { artifacts } = storage;
  return (step) => async (exchange) => {
    const { authorization } = exchange.ctx.req.headers;
    const ids = queryFields(exchange.ctx.querystring).all("client_id");
    if (ids.length !== 1 || !ids[0]) throw invalidRequest("client_id must be in the query exactly once");
    const bound = boundToken(authorization);
    const token = bound ?? BEARER.exec(authorization ?? "")?.[1];
    const key = token !== undefined && isPresentable(token) ? artifactKey(token) : undefined;
    const owner = key && owners.of(key);
    const [client, family, known] = await Promise.all([
      clients.record(ids[0]),
      key === undefined ? undefined : artifacts.find("AccessToken", key),
      owner === undefined ? undefined : accounts.record(owner),
    ]);
    // Comes before every check: the client's registration decides which status an error gets.
    if (client !== undefined && !client.disabled) exchange.client = client;
    await requireProfile("token", exchange, exchange.client);
    if (authorization === undefined) throw invalidRequest("the Authorization header is missing");
    if (token === undefined || (bound !== undefined && !proofs.isOn(exchange.client)))
      throw invalidRequest("the Authorization header is malformed");
    const found = family?.artifact;
    if (
      exchange.client === undefined ||
      key === undefined ||
      found === undefined ||
      found.clientId !== exchange.client.client_id ||
      found.accountId === undefined
    )
      throw invalidToken();
    const { payload } = found;
    const { client: holder } = exchange;
    // A token for an API is not valid here. One that is bound to a key is no bearer token.
    if (payload["aud"] !== undefined || payload["x5t#S256"] !== undefined) throw invalidToken();
    const { jkt } = payload;
    if ((jkt === undefined) !== (bound === undefined)) throw invalidToken();
    if (bound !== undefined && (await checks.ofToken(exchange, bound)) !== jkt) throw invalidToken();
    const account = found.accountId === owner ? known : await accounts.record(found.accountId);
    if (account === undefined || !isCurrent(payload["generations"], account, holder, configuration))
      throw invalidToken();
    if (owner === undefined) owners.add(key, account.sub);
    const scope = typeof payload["scope"] === "string" ? payload["scope"] : "";
    await step(exchange, { key, scope, client: holder, account });
  };
}

/** Basic user information, with exactly the documented members. */
export const basicClaims: TokenStep = async ({ ctx }, token) => {
  const { sub, email } = accountWith(token, "email");
  ctx.body = { sub, email };
};

/** Extended user information, with exactly the documented members; `null` for what the account lacks. */
export const profileClaims: TokenStep = async ({ ctx }, token) => {
  const account = accountWith(token, "all");
  const { sub, email } = account;
  const fields = DOCUMENTED_FIELDS.map((field) => [field, account[field] ?? null] as const);
  ctx.body = { sub, email, ...Object.fromEntries(fields) };
};

/** The account, if the token's scope covers these fields. */
function accountWith({ client, scope, account }: BearerToken, fields: "email" | "all"): AccountRecord {
  const { email, profile } = openedFields(client, scope);
  if (!email || (fields === "all" && !profile)) {
    throw badRequest("insufficient_scope", "the access token does not cover these fields");
  }
  return account;
}
