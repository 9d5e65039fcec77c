/** Who is signed in: read from oidc-provider's session, by the rules that the authorization endpoint goes by. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "koa";
import type { AccountRecord } from "../directory/directory.ts";
import type { AccountInternals } from "../domain/account.ts";
import { isDisabled } from "../domain/account.ts";
import { withoutDoubleCookie } from "./cookies.ts";
import type { CurrentProvider } from "./current-provider.ts";

/** A person with a session that counts. */
export interface SignedIn {
  readonly account: AccountRecord;
  /** The `uid` of the session: another one for each browser. */
  readonly session: string;
}

/** A request, and whether the browser is on https. */
export interface SessionRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly secure: boolean;
}

/** @returns `undefined` when nobody is signed in. Faults of the storage reject. */
export type FindSignedIn = (request: SessionRequest) => Promise<SignedIn | undefined>;

/** @param parts.sessionCookie name of the cookie that holds the session. */
export function createSignedIn({
  currentProvider,
  accounts,
  sessionCookie,
}: {
  readonly currentProvider: CurrentProvider;
  readonly accounts: Pick<AccountInternals, "record">;
  readonly sessionCookie: string;
}): FindSignedIn {
  return async ({ req, res, secure }) => {
    const { cookie: sent, ...headers } = req.headers;
    const cookie = withoutDoubleCookie(sent, sessionCookie);
    if (!cookie?.includes(`${sessionCookie}=`)) return undefined;
    const seen = Object.create(req, { headers: { value: { ...headers, cookie } } }) as IncomingMessage;
    const { provider } = currentProvider();
    const ctx = provider.createContext(seen, res) as unknown as Context;
    Object.defineProperty(ctx, "secure", { value: secure });
    const session = await provider.Session.get(ctx);
    if (session.accountId === undefined) return undefined;
    const account = await accounts.record(session.accountId);
    const { generation } = session as typeof session & { readonly generation?: number };
    // The session ended with its account, or when the account's sessions were ended after the sign-in.
    if (account === undefined || isDisabled(account)) return undefined;
    if (generation !== account.sessions_generation) return undefined;
    return { account, session: session.uid };
  };
}
