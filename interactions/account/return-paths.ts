/** The page that a person returns to after signing in to the account pages. */
import { randomBytes } from "node:crypto";
import type { Deployment } from "../../config/configuration.ts";
import type { Clock } from "../../lib/clock.ts";
import { decrypt, encrypt } from "../../lib/sealing.ts";

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
