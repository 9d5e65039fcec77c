/** userinfo, profile and revoke: three reads and an answer, without the library. */
import type { AccountRecord } from "../lib/directory/directory.ts";
import { artifactKey } from "../adapters/oidc/adapter.ts";
import { artifactRef } from "../lib/artifacts/records.ts";
import { isCurrent } from "../lib/provider/account.ts";
import { openedFields } from "../lib/provider/grant.ts";
import { ConditionFailed } from "../lib/errors.ts";
import { Changes } from "../lib/records.ts";
import { EndpointError } from "./endpoint-error.ts";
import type { CompatDependencies, Exchange, Step } from "./exchange.ts";
import { parseFields } from "./form-fields.ts";

/** RFC 6750 section 2.1: the only place where a token is accepted. */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]{1,255}=*) *$/i;

const invalidToken = (): EndpointError =>
  new EndpointError(400, "invalid_token", "the access token is not valid");
const invalidRequest = (text: string): EndpointError => new EndpointError(400, "invalid_request", text);

/** The client in the query decides how an error looks, so it is read first, and the token beside it. */
export function queriedClient({ artifacts, clients }: CompatDependencies): Step {
  return async (exchange, next) => {
    const query = parseFields(exchange.ctx.querystring);
    exchange.query = query;
    const ids = query.all("client_id");
    if (ids.length !== 1 || !ids[0]) throw invalidRequest("client_id must be in the query exactly once");
    const token = BEARER.exec(exchange.ctx.req.headers.authorization ?? "")?.[1];
    if (token !== undefined) {
      const key = artifactKey(token);
      const found = artifacts.find("AccessToken", key).then((family) => family?.artifact);
      // It may be that nobody asks; who does is told.
      found.catch(() => undefined);
      exchange.presented = { key, found };
    }
    const client = await clients.record(ids[0]);
    if (client !== undefined && !client.disabled) exchange.client = client;
    await next();
  };
}

/** The token of the header, when it is this client's and nothing has ended it. One answer for all that is not so. */
export function bearer({ accounts }: CompatDependencies): Step {
  return async (exchange, next) => {
    const { client, presented } = exchange;
    if (exchange.ctx.req.headers.authorization === undefined)
      throw invalidRequest("the Authorization header is missing");
    if (presented === undefined) throw invalidRequest("the Authorization header is malformed");
    if (client === undefined) throw invalidToken();
    const { key } = presented;
    const found = await presented.found;
    if (found === undefined || found.clientId !== client.client_id || found.accountId === undefined)
      throw invalidToken();
    const { payload } = found;
    // A token that is bound to a key must not be taken as a plain bearer token.
    if (payload["jkt"] !== undefined || payload["x5t#S256"] !== undefined) throw invalidToken();
    const account = await accounts.record(found.accountId);
    if (account === undefined || !isCurrent(payload["generations"], account, client)) throw invalidToken();
    exchange.account = account;
    exchange.token = { key, scope: typeof payload["scope"] === "string" ? payload["scope"] : "" };
    await next();
  };
}

function opened(exchange: Exchange, fields: "email" | "all"): AccountRecord {
  const { client, token, account } = exchange;
  if (!client || !token || !account) throw invalidToken();
  const { email, profile } = openedFields(client, token.scope);
  if (!email || (fields === "all" && !profile)) {
    throw new EndpointError(400, "insufficient_scope", "the access token does not open these fields");
  }
  return account;
}

/** Basic user information, members as documented. */
export const basicClaims: Step = async (exchange) => {
  const { sub, email } = opened(exchange, "email");
  exchange.ctx.body = { sub, email };
};

/** Extended user information, members as documented; `null` for what the account does not have. */
export const profileClaims: Step = async (exchange) => {
  const { sub, email, name, surname, date_of_birth, gender } = opened(exchange, "all");
  exchange.ctx.body = { sub, email, name, surname, date_of_birth, gender };
};

/** Exactly the presented access token ends. A link that a browser fetches ahead of a click ends nothing. */
export function endToken({ artifacts, events }: CompatDependencies): Step {
  return async ({ ctx, token, account, client, deadline }) => {
    if (!token || !account || !client) throw invalidToken();
    try {
      const changes = new Changes();
      changes.delete(artifactRef("AccessToken", token.key), { version: "present" });
      await artifacts.commit(changes, deadline);
    } catch (error) {
      throw error instanceof ConditionFailed ? invalidToken() : error;
    }
    ctx.body = {};
    events.emit("token.revoked", { sub: account.sub, client_id: client.client_id });
  };
}

export const notPrefetched: Step = async ({ ctx }, next) => {
  const purpose = `${ctx.get("sec-purpose")} ${ctx.get("purpose")}`.toLowerCase();
  if (purpose.includes("prefetch") || purpose.includes("prerender")) {
    throw invalidRequest("this address is not for fetching ahead");
  }
  await next();
};
