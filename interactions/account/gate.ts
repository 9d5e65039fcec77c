/** Who may enter the pages under `{base}/account`, and how a person returns to them after signing in. */
import type { ServiceContext } from "../../provider/exchange.ts";
import { randomBytes } from "node:crypto";
import { ACCOUNT_CLIENT, CONSOLE_CLIENT } from "../../accounts/clients/client.ts";
import { hasSecondFactor } from "../../accounts/factors/factor.ts";
import { isByMailAlone } from "../../accounts/ways/ways.ts";
import type { Configuration } from "../../config/configuration.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import type { AccountRequest } from "../../provider/pages.ts";
import { ACR_MFA, satisfies } from "../../provider/authentication.ts";
import type { FindSignedIn, SignedIn } from "../../provider/account.ts";
import { hasShown, hasWay, outranksMail } from "../../accounts/ways/ways.ts";
import { INVITED, OWN_WAYS } from "../../provider/policy.ts";
import { seeOther } from "../answers.ts";
import { type Reply, send } from "../reply.ts";
import type { PageServices } from "../services.ts";
import type { ReturnPaths } from "./return-paths.ts";

/** The redirect path of the internal client, below each base URL. */
export const CALLBACK_PATH = "/account/callback";

/** The redirect addresses of the internal client, one for each deployment. */
export function callbackAddresses({ oauth2, openid }: Configuration["deployments"]): string[] {
  return [oauth2, openid].flatMap((each) => (each === undefined ? [] : each.url + CALLBACK_PATH));
}

/** The base URLs behind redirect addresses of the internal client, for messages. */
export function baseUrls(callbacks: readonly string[]): string {
  return callbacks.map((address) => address.slice(0, -CALLBACK_PATH.length)).join(" and ");
}

/**
 * Redirects people who are not signed in to the sign-in, and back to the page that they wanted. A program that wants JSON
 * gets a 401 with that address.
 */
export interface AccountGate {
  /** The person who is signed in, without a redirect. */
  find(ctx: ServiceContext): Promise<SignedIn | undefined>;
  /**
   * The person, or `undefined` after a redirect to the sign-in. A form sent without a session is lost.
   * @param unsaved the query with which the page then says so; default: none.
   */
  enter(ctx: ServiceContext, request: AccountRequest, unsaved?: string): Promise<SignedIn | undefined>;
  /**
   * The same, for people who have signed in within the last five minutes with everything that their account asks for,
   * including its second factor if it has one: a remembered browser has not shown that. Others sign in again.
   */
  enterRecently(
    ctx: ServiceContext,
    request: AccountRequest,
    how?: RecentSignIn,
  ): Promise<SignedIn | undefined>;
  /** Asks for the second factor, and redirects to a page. A person without one comes back unchanged. */
  stepUp(ctx: ServiceContext, path: string, query: Readonly<Record<string, string>>): Reply;
  /** Leads somebody who has followed the link of an invitation to a sign-in that begins with it. */
  toInvitation(ctx: ServiceContext): Reply;
  /**
   * Redirects to a sign-in that ends only with a second factor, and then to the wanted page. A person without one adds
   * one. A form that was sent is lost.
   */
  demandSecondFactor(ctx: ServiceContext, request: AccountRequest): void;
  /** Ends the sign-in and redirects to the wanted page. The authorization code is never used; it expires. */
  callback(ctx: ServiceContext, request: AccountRequest): Promise<void>;
}

/** How somebody has to have signed in recently. */
interface RecentSignIn {
  /** The query with which the page says that a form is lost. Default: none. */
  readonly unsaved?: string | undefined;
  /** With a way of the account's own, if it has one. Default: with any. */
  readonly byOwnWay?: boolean;
}

/** The page that a request is for. A form that was sent is lost. */
function wantedBy({ method }: ServiceContext, { path, query }: AccountRequest, unsaved = ""): string {
  const kept = method === "POST" ? unsaved : new URLSearchParams([...query]).toString();
  return kept === "" ? path : `${path}?${kept}`;
}

/** How old a recent sign-in may be. */
const RECENT_SECONDS = 300;

/** Whether a provider was taken at its word, although the account has a password or a passkey. */
const isByProvider = ({ account, amr = [] }: SignedIn): boolean =>
  hasWay(account, outranksMail) && !hasShown(amr, outranksMail);

/** Whether somebody has signed in within the last five minutes, with everything that the account asks for. */
export function isRecent({ account, acr, amr = [], signedInAt, undated }: SignedIn, clock: Clock): boolean {
  if (undated || isByMailAlone(amr, account)) return false;
  if (hasSecondFactor(account) && !satisfies(acr, ACR_MFA)) return false;
  return seconds(clock) - signedInAt <= RECENT_SECONDS;
}

export function createAccountGate(
  { pages, clock }: Pick<PageServices, "pages" | "clock">,
  { findSignedIn, returns }: { readonly findSignedIn: FindSignedIn; readonly returns: ReturnPaths },
): AccountGate {
  function signInUrl(
    ctx: ServiceContext,
    wanted: string,
    more: Readonly<Record<string, string>> = {},
  ): string {
    const { deployment } = ctx.exchange;
    const parameters = new URLSearchParams({
      client_id: ACCOUNT_CLIENT,
      response_type: "code",
      redirect_uri: deployment.url + CALLBACK_PATH,
      state: returns.seal(ctx, deployment.path + wanted),
      // A random challenge has no known verifier, so the code can't be exchanged (RFC 7636 section 4.6).
      code_challenge: randomBytes(32).toString("base64url"),
      code_challenge_method: "S256",
      ...more,
    });
    return `${deployment.url}/oauth2/authorize?${parameters}`;
  }

  /** A HEAD request is led nowhere but to the page itself: the authorization endpoint has no HEAD. */
  function toSignIn(ctx: ServiceContext, wanted: string, more?: Readonly<Record<string, string>>): Reply {
    const { deployment, isHead } = ctx.exchange;
    return { kind: "sign-in", location: isHead ? deployment.url + wanted : signInUrl(ctx, wanted, more) };
  }

  function find(ctx: ServiceContext): Promise<SignedIn | undefined> {
    const { secure } = ctx.exchange.deployment;
    return findSignedIn({ req: ctx.req, res: ctx.res, secure });
  }

  async function enter(
    ctx: ServiceContext,
    request: AccountRequest,
    unsaved?: string,
  ): Promise<SignedIn | undefined> {
    const signedIn = await find(ctx);
    if (signedIn === undefined) send(ctx, pages, toSignIn(ctx, wantedBy(ctx, request, unsaved)));
    return signedIn;
  }

  return {
    find,
    enter,
    async enterRecently(ctx, request, { unsaved, byOwnWay = false } = {}) {
      const signedIn = await enter(ctx, request, unsaved);
      if (signedIn === undefined || (isRecent(signedIn, clock) && !(byOwnWay && isByProvider(signedIn))))
        return signedIn;
      const more = { prompt: "login", ...(byOwnWay && { [OWN_WAYS]: "1" }) };
      send(ctx, pages, toSignIn(ctx, wantedBy(ctx, request, unsaved), more));
      return undefined;
    },
    stepUp: (ctx, path, query) =>
      toSignIn(ctx, `${path}?${new URLSearchParams(query)}`, { acr_values: ACR_MFA }),
    toInvitation: (ctx) => toSignIn(ctx, "/account", { [INVITED]: "1" }),
    demandSecondFactor(ctx, request) {
      send(ctx, pages, toSignIn(ctx, wantedBy(ctx, request), { client_id: CONSOLE_CLIENT }));
    },
    async callback(ctx, { query }) {
      const { url } = ctx.exchange.deployment;
      if (query.size === 0) return pages.startAgain(ctx);
      const wanted = query.has("code") ? returns.open(ctx, query.get("state") ?? "") : undefined;
      // Always redirect: the address with the code must not stay in the browser.
      return seeOther(ctx, wanted === undefined ? url + CALLBACK_PATH : new URL(url).origin + wanted);
    },
  };
}
