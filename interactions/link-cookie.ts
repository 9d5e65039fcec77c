/**
 * A link in mail has its token in the address, where others may see it. The token moves at once to a cookie, which
 * works in this browser for ten minutes.
 */
import type { BrowserContext, FindBrowser } from "../provider/sessions/browser-cookie.ts";
import { hasCookie, readCookie, setCookie } from "../core/cookies.ts";
import { isEqual } from "../core/sealing.ts";

export interface LinkCookie {
  /** The token of the link that this browser has followed. */
  read(ctx: BrowserContext): string | undefined;
  write(ctx: BrowserContext, token: string): void;
  /** Deletes the cookie, if the browser has one. */
  clear(ctx: BrowserContext): void;
}

/** How long a browser may take after following a link. */
export const LINK_COOKIE_SECONDS = 600;
const TOKEN = /^[\w-]{43}$/;

/** Whether it can be the token of a link. */
export const isLinkToken = (text: string): boolean => TOKEN.test(text);

/**
 * The cookie holds the token and the digest of the browser that has followed the link, so a planted one is ignored.
 * @param name of the cookie.
 */
export function createLinkCookie(name: string, findBrowser: FindBrowser): LinkCookie {
  function set(ctx: BrowserContext, value: string, lifetimeSeconds: number): void {
    const { path, secure } = ctx.exchange.deployment;
    // The steps of a sign-in and the account pages read it too.
    setCookie(ctx, { name, value, lifetimeSeconds, secure, path: path || "/" });
  }

  return {
    read(ctx) {
      const [token = "", digest = ""] = (readCookie(ctx, name) ?? "").split(".");
      return isLinkToken(token) && isEqual(digest, findBrowser(ctx).digest) ? token : undefined;
    },
    write(ctx, token) {
      const browser = findBrowser(ctx);
      browser.remember(ctx);
      set(ctx, `${token}.${browser.digest}`, LINK_COOKIE_SECONDS);
    },
    clear(ctx) {
      if (hasCookie(ctx, name)) set(ctx, "", 0);
    },
  };
}
