/** The door of the account pages: who is not signed in is sent to sign in, and comes back to where the way led. */
import { randomBytes } from "node:crypto";
import type { Context } from "koa";
import type { Deployment } from "../config/configuration.ts";
import type { FindSignedIn, SignedIn } from "../lib/provider/account.ts";
import type { ReturnPaths } from "./account-return.ts";
import { seeOther, type Answers } from "./answers.ts";

/** A Koa context on its way through the account pages; `ctx.state` is filled in by the routes. */
export type AccountContext = Context & { readonly state: { readonly deployment: Deployment } };

/** What was asked of a page. */
export interface AccountRequest {
  /** The path below the base URL. */
  readonly path: string;
  /** The segment at the end of the path, where the page has one; empty else. */
  readonly id: string;
  /** Each parameter once. */
  readonly query: ReadonlyMap<string, string>;
}

export interface AccountGate {
  /** The person; `undefined` when the answer is to sign in first. A form that came without a session is lost. */
  enter(ctx: AccountContext, request: AccountRequest): Promise<SignedIn | undefined>;
  /** The end of the sign-in: on to the page that was wanted. The code is not used; it expires by itself. */
  callback(ctx: AccountContext, request: AccountRequest): Promise<void>;
}

/** The internal client's path below each base URL. */
export const CALLBACK_PATH = "/account/callback";

/** What the gate works with. */
export interface AccountGateParts {
  readonly findSignedIn: FindSignedIn;
  readonly returns: ReturnPaths;
  readonly answers: Pick<Answers, "startAgain">;
  /** The internal client. */
  readonly clientId: string;
}

export function createAccountGate(parts: AccountGateParts): AccountGate {
  const { findSignedIn, returns, answers, clientId } = parts;

  function signIn(ctx: AccountContext, { path, query }: AccountRequest): string {
    const { deployment } = ctx.state;
    const search = ctx.method === "GET" && query.size > 0 ? `?${new URLSearchParams([...query])}` : "";
    const parameters = new URLSearchParams({
      client_id: clientId,
      response_type: "code",
      redirect_uri: deployment.url + CALLBACK_PATH,
      state: returns.seal(ctx, deployment.path + path + search),
      // Nobody knows what this is the digest of, so nobody can exchange the code (RFC 7636 section 4.6).
      code_challenge: randomBytes(32).toString("base64url"),
      code_challenge_method: "S256",
    });
    return `${deployment.url}/oauth2/authorize?${parameters}`;
  }

  return {
    async enter(ctx, request) {
      const { secure } = ctx.state.deployment;
      const signedIn = await findSignedIn({ req: ctx.req, res: ctx.res, secure });
      if (signedIn === undefined) seeOther(ctx, signIn(ctx, request));
      return signedIn;
    },
    async callback(ctx, { query }) {
      const { url } = ctx.state.deployment;
      if (query.size === 0) return answers.startAgain(ctx);
      const wanted = query.has("code") ? returns.open(ctx, query.get("state") ?? "") : undefined;
      // Whatever came, the address with the code is not one that stays.
      return seeOther(ctx, wanted === undefined ? url + CALLBACK_PATH : new URL(url).origin + wanted);
    },
  };
}
