/**
 * The cookie that tells browsers apart. oidc-provider binds a sign-in to cookies on the paths of that sign-in, and a
 * sibling host can plant those with a `Domain`. It can't plant one with `__Host-`, so what belongs to one browser
 * is also bound to the digest of this cookie.
 */
import { hash, randomBytes } from "node:crypto";
import type { Configuration, Deployment } from "../../config/configuration.ts";
import { browserCookieFlags, browserCookieName, cookieValues } from "./cookies.ts";

/** What the cookie is read from and written to. */
export interface BrowserContext {
  readonly req: { readonly headers: { readonly cookie?: string | undefined } };
  readonly state: { readonly deployment: Pick<Deployment, "path" | "secure"> };
  append(field: string, value: string): void;
}

/** The browser of a request. One without a cookie is a new one, which nothing belongs to. */
export interface Browser {
  /** The SHA-256 of its cookie, Base64url. */
  readonly digest: string;
  /** Sets its cookie, for 90 days from now: something belongs to this browser. */
  remember(ctx: Pick<BrowserContext, "append">): void;
}

export type FindBrowser = (ctx: Pick<BrowserContext, "req">) => Browser;

/** 90 days. Two tabs that open at once in a browser without the cookie get two, and the sign-in of one is lost. */
const LIFETIME_SECONDS = 7_776_000;
const VALUE = /^[\w-]{43}$/;

export function createFindBrowser(configuration: Configuration): FindBrowser {
  const name = browserCookieName(configuration);
  const flags = browserCookieFlags(configuration);
  return ({ req }) => {
    const [sent = "", ...others] = cookieValues(req.headers.cookie, name);
    // Of two, one is planted. That is only possible without `__Host-`.
    const isOurs = others.length === 0 && VALUE.test(sent);
    const value = isOurs ? sent : randomBytes(32).toString("base64url");
    return {
      digest: hash("sha256", value, "base64url"),
      remember: (ctx) =>
        ctx.append("Set-Cookie", `${name}=${value}; Path=/; Max-Age=${LIFETIME_SECONDS}; ${flags}`),
    };
  };
}
