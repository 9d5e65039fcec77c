/** The pages under `{base}/account`: who may enter them, how a person returns after signing in, and the account page. */
import { randomBytes } from "node:crypto";
import type { Context } from "koa";
import type { Deployment } from "../config/configuration.ts";
import type { Clock } from "../lib/clock.ts";
import type { FindSignedIn, SignedIn } from "../lib/provider/account.ts";
import { decrypt, encrypt } from "../lib/sealing.ts";
import { type Answers, createAnswers, seeOther, sendPage } from "./answers.ts";
import type { Pages } from "./pages.ts";

/** A Koa context for the account pages; the routes fill in `ctx.state`. */
export type AccountContext = Context & { readonly state: { readonly deployment: Deployment } };

/** A request for an account page. */
export interface AccountRequest {
  /** The path below the base URL. */
  readonly path: string;
  /** The `:uid` segment of the path, or an empty string. */
  readonly id: string;
  /** The query; no parameter is repeated. */
  readonly query: ReadonlyMap<string, string>;
}

type Handler = (ctx: AccountContext, request: AccountRequest) => Promise<void>;

/** A page; its path answers 405 to other methods. */
export interface AccountPage {
  /** Below the base URL; `:uid` at the end stands for one segment. */
  readonly path: string;
  readonly methods: Readonly<Record<string, Handler>>;
}

/** Handles a request of a person who is an operator. */
export type OperatorHandler = (
  ctx: AccountContext,
  request: AccountRequest,
  operator: SignedIn,
) => Promise<void>;

/** A page for operators only. */
export interface OperatorPage {
  readonly path: string;
  readonly methods: Readonly<Record<string, OperatorHandler>>;
}

/** The redirect path of the internal client, below each base URL. */
export const CALLBACK_PATH = "/account/callback";

/** What the account pages are built from. */
export interface AccountPagesParts {
  readonly pages: Pages;
  readonly gate: AccountGate;
  /** The `sub` of every operator. Without operators, their pages do not exist. */
  readonly operators: readonly string[];
  /** The account page links to the first one. */
  readonly operatorPages: readonly OperatorPage[];
}

export function createAccountPages(parts: AccountPagesParts): readonly AccountPage[] {
  const { gate, operators } = parts;
  const personal: readonly AccountPage[] = [
    { path: "/account", methods: { GET: accountPage(parts) } },
    { path: CALLBACK_PATH, methods: { GET: (ctx, request) => gate.callback(ctx, request) } },
  ];
  if (operators.length === 0) return personal;
  const guarded = guard(parts);
  const forOperators = parts.operatorPages.map(({ path, methods }) => ({
    path,
    methods: Object.fromEntries(
      Object.entries(methods).map(([method, handler]) => [method, guarded(handler)]),
    ),
  }));
  return [...personal, ...forOperators];
}

function accountPage({ pages, gate, operators, operatorPages: [first] }: AccountPagesParts): Handler {
  return async (ctx, request) => {
    const person = await gate.enter(ctx, request);
    if (person === undefined) return;
    const { kind, path } = ctx.state.deployment;
    const { email, sub } = person.account;
    const html = await pages.account({
      ...pages.visit(ctx),
      account: email,
      sub,
      ...(first !== undefined && operators.includes(sub) && { deliveries: path + first.path }),
      ...(kind === "openid" && { signOut: `${path}/oauth2/logout` }),
    });
    sendPage(ctx, pages, { status: 200, html });
  };
}

/** Admits operators; everybody else who is signed in gets a 403. */
function guard({ pages, gate, operators }: AccountPagesParts): (handler: OperatorHandler) => Handler {
  const answers = createAnswers(pages);
  return (handler) => async (ctx, request) => {
    const person = await gate.enter(ctx, request);
    if (person === undefined) return undefined;
    if (operators.includes(person.account.sub)) return handler(ctx, request, person);
    return answers.error(ctx, { status: 403, error: "not_an_operator" });
  };
}

/** Redirects people who are not signed in to the sign-in, and back to the page that they wanted. */
export interface AccountGate {
  /** The person, or `undefined` after a redirect to the sign-in. A form sent without a session is lost. */
  enter(ctx: AccountContext, request: AccountRequest): Promise<SignedIn | undefined>;
  /** Ends the sign-in and redirects to the wanted page. The authorization code is never used; it expires. */
  callback(ctx: AccountContext, request: AccountRequest): Promise<void>;
}

/** What the gate is built from. */
export interface AccountGateParts {
  readonly findSignedIn: FindSignedIn;
  readonly returns: ReturnPaths;
  readonly answers: Pick<Answers, "startAgain">;
  /** The internal client. */
  readonly clientId: string;
}

export function createAccountGate(parts: AccountGateParts): AccountGate {
  const { findSignedIn, returns, answers, clientId } = parts;

  function signInUrl(ctx: AccountContext, { path, query }: AccountRequest): string {
    const { deployment } = ctx.state;
    const search = ctx.method === "GET" && query.size > 0 ? `?${new URLSearchParams([...query])}` : "";
    const parameters = new URLSearchParams({
      client_id: clientId,
      response_type: "code",
      redirect_uri: deployment.url + CALLBACK_PATH,
      state: returns.seal(ctx, deployment.path + path + search),
      // A random challenge has no known verifier, so the code can't be exchanged (RFC 7636 section 4.6).
      code_challenge: randomBytes(32).toString("base64url"),
      code_challenge_method: "S256",
    });
    return `${deployment.url}/oauth2/authorize?${parameters}`;
  }

  return {
    async enter(ctx, request) {
      const { secure } = ctx.state.deployment;
      const signedIn = await findSignedIn({ req: ctx.req, res: ctx.res, secure });
      if (signedIn === undefined) seeOther(ctx, signInUrl(ctx, request));
      return signedIn;
    },
    async callback(ctx, { query }) {
      const { url } = ctx.state.deployment;
      if (query.size === 0) return answers.startAgain(ctx);
      const wanted = query.has("code") ? returns.open(ctx, query.get("state") ?? "") : undefined;
      // Always redirect: the address with the code must not stay in the browser.
      return seeOther(ctx, wanted === undefined ? url + CALLBACK_PATH : new URL(url).origin + wanted);
    },
  };
}

/** What the cookie is read from and written to. */
interface CookieContext {
  readonly req: { readonly headers: { readonly cookie?: string | undefined } };
  readonly state: { readonly deployment: Pick<Deployment, "url" | "path" | "secure"> };
  append(field: string, value: string): void;
}

/**
 * The page that a person returns to after signing in: a path of the account pages, encrypted into the `state` of the
 * sign-in, valid for ten minutes and only in the same browser.
 */
export interface ReturnPaths {
  /** Seals a path for this browser. A path outside `{base}/account` becomes `{base}/account`. */
  seal(ctx: CookieContext, path: string): string;
  /** The path; `undefined` if it was sealed elsewhere, for another browser, or more than ten minutes ago. */
  open(ctx: CookieContext, state: string): string | undefined;
}

/** Seconds. */
const LIFETIME = 600;
/** Characters; the sealed path stays far below the limit of `state`. */
const MOST_PATH = 1_024;
const BROWSER = /^[A-Za-z0-9_-]{22}$/;

/** The associated data of the encryption. */
function context(browser: string): string {
  return `account return ${browser}`;
}

/** Whether this is a path of the account pages, in the form that browsers normalise paths to. */
export function isAccountPath(path: string, { url, path: base }: Pick<Deployment, "url" | "path">): boolean {
  const home = `${base}/account`;
  if (path.length > MOST_PATH || !/^\/[\x21-\x7e]*$/.test(path) || /[\\#]/.test(path)) return false;
  const { origin } = new URL(url);
  const target = URL.parse(path, origin);
  // A browser would read it as another host or another path.
  if (target?.href !== origin + path) return false;
  return target.pathname === home || target.pathname.startsWith(`${home}/`);
}

/**
 * @param parts.keys the first seals, all open; at least one.
 * @param parts.cookie name of the cookie that identifies the browser.
 */
export function createReturnPaths({
  keys,
  cookie,
  clock,
}: {
  readonly keys: readonly Buffer[];
  readonly cookie: string;
  readonly clock: Clock;
}): ReturnPaths {
  const [first] = keys;
  if (first === undefined) throw new TypeError("keys: at least one key");

  function browserOf({ req }: CookieContext): string | undefined {
    const pairs = (req.headers.cookie ?? "").split(/; */).filter((pair) => pair.startsWith(`${cookie}=`));
    const value = pairs.length === 1 ? pairs[0]?.slice(cookie.length + 1) : undefined;
    return value !== undefined && BROWSER.test(value) ? value : undefined;
  }

  return {
    seal(ctx, path) {
      const { deployment } = ctx.state;
      // A sign-in in another tab depends on the existing cookie.
      const browser = browserOf(ctx) ?? randomBytes(16).toString("base64url");
      const flags = `Path=${deployment.path}/account; Max-Age=${LIFETIME}; HttpOnly; SameSite=Lax`;
      ctx.append("Set-Cookie", `${cookie}=${browser}; ${flags}${deployment.secure ? "; Secure" : ""}`);
      const local = isAccountPath(path, deployment) ? path : `${deployment.path}/account`;
      const sealed = [local, clock.now() + LIFETIME * 1000];
      return encrypt(first, context(browser), JSON.stringify(sealed));
    },
    open(ctx, state) {
      const browser = browserOf(ctx);
      if (browser === undefined) return undefined;
      const text = keys
        .map((key) => decrypt(key, context(browser), state))
        .find((each) => each !== undefined);
      if (text === undefined) return undefined;
      const [path, until] = JSON.parse(text) as readonly [string, number];
      return clock.now() < until && isAccountPath(path, ctx.state.deployment) ? path : undefined;
    },
  };
}
