/**
 * Where a person goes on after signing in to the account pages: a path of these pages, sealed into the `state` of
 * the sign-in, good for ten minutes and in the browser that it was made for.
 */
import { randomBytes } from "node:crypto";
import type { Deployment } from "../config/configuration.ts";
import type { Clock } from "../lib/clock.ts";
import { decrypt, encrypt } from "../lib/sealing.ts";

/** What the cookie is read from and written to. */
interface CookieContext {
  readonly req: { readonly headers: { readonly cookie?: string | undefined } };
  readonly state: { readonly deployment: Pick<Deployment, "url" | "path" | "secure"> };
  append(field: string, value: string): void;
}

export interface ReturnPaths {
  /** Seals a path for this browser. A path that is not under `{base}/account` becomes that one. */
  seal(ctx: CookieContext, path: string): string;
  /** The path; `undefined` when it was not sealed here, for another browser, or more than ten minutes ago. */
  open(ctx: CookieContext, state: string): string | undefined;
}

/** Seconds. */
const LIFETIME = 600;
/** Characters: sealed it is still far below what a `state` may have. */
const MOST_PATH = 1_024;
const BROWSER = /^[A-Za-z0-9_-]{22}$/;

/** What a path is sealed for. */
function context(browser: string): string {
  return `account return ${browser}`;
}

/** Whether this is a path of the account pages, written as a browser would write it. */
export function isAccountPath(path: string, { url, path: base }: Pick<Deployment, "url" | "path">): boolean {
  const home = `${base}/account`;
  if (path.length > MOST_PATH || !/^\/[\x21-\x7e]*$/.test(path) || /[\\#]/.test(path)) return false;
  const { origin } = new URL(url);
  const target = URL.parse(path, origin);
  // What a browser would read as another host, or as another path, is not what it looks like.
  if (target?.href !== origin + path) return false;
  return target.pathname === home || target.pathname.startsWith(`${home}/`);
}

/**
 * @param parts.keys the first seals, all open; at least one.
 * @param parts.cookie name of the cookie that tells browsers apart.
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
  /** Another sign-in of this browser may be under way in another tab: it keeps its cookie. */
  function browserOf({ req }: CookieContext): string | undefined {
    const pairs = (req.headers.cookie ?? "").split(/; */).filter((pair) => pair.startsWith(`${cookie}=`));
    const value = pairs.length === 1 ? pairs[0]?.slice(cookie.length + 1) : undefined;
    return value !== undefined && BROWSER.test(value) ? value : undefined;
  }

  return {
    seal(ctx, path) {
      const { deployment } = ctx.state;
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
