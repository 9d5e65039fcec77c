/**
 * The cookie that tells browsers apart. oidc-provider binds a sign-in to cookies on the paths of that sign-in, and a
 * sibling host can plant those with a `Domain`. It can't plant one with `__Host-`, so what belongs to one browser
 * is also bound to the digest of this cookie.
 */
import { hash, randomBytes } from "node:crypto";
import type { Configuration, Deployment } from "../../config/configuration.ts";
import { type CookieRequest, type CookieResponse, readCookie, setCookie } from "../../core/cookies.ts";
import { allSecure, browserCookieName } from "./cookies.ts";

/** What the cookie is read from and written to. */
export interface BrowserContext extends CookieRequest, CookieResponse {
  readonly exchange: { readonly deployment: Pick<Deployment, "path" | "secure"> };
}

/** The browser of a request. One without a cookie is a new one, which nothing belongs to. */
export interface Browser {
  /** The SHA-256 of its cookie, Base64url. */
  readonly digest: string;
  /** Sets its cookie, for 90 days from now: something belongs to this browser. */
  remember(ctx: CookieResponse): void;
}

export type FindBrowser = (ctx: CookieRequest) => Browser;

/** 90 days. Two tabs that open at once in a browser without the cookie get two, and the sign-in of one is lost. */
const LIFETIME_SECONDS = 7_776_000;
const VALUE = /^[\w-]{43}$/;

export function createFindBrowser(configuration: Configuration): FindBrowser {
  const name = browserCookieName(configuration);
  const { cookies, deployments } = configuration;
  const options = {
    lifetimeSeconds: LIFETIME_SECONDS,
    secure: allSecure(configuration),
    domain: cookies.domain,
    // A sign-in can begin with a form that another site posts.
    sameSite: deployments.openid?.post ? "None" : "Lax",
  } as const;
  return (ctx) => {
    const sent = readCookie(ctx, name) ?? "";
    const value = VALUE.test(sent) ? sent : randomBytes(32).toString("base64url");
    return {
      digest: hash("sha256", value, "base64url"),
      remember: (response) => setCookie(response, { name, value, ...options }),
    };
  };
}
