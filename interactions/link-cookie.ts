/**
 * A link in mail has its token in the address, where others may see it. The token moves to a cookie at once, which is
 * for this browser and ten minutes.
 */
import type { BrowserContext, FindBrowser } from "../provider/sessions/browser-cookie.ts";
import { cookieValues } from "../provider/sessions/cookies.ts";
import { isEqual } from "../core/sealing.ts";

export interface LinkCookie {
  /** The token of the link that this browser has followed. */
  read(ctx: BrowserContext): string | undefined;
  write(ctx: BrowserContext, token: string): void;
  /** Deletes the cookie, if the browser has one. */
  clear(ctx: BrowserContext): void;
}

/** Seconds. */
const LIFETIME = 600;
const TOKEN = /^[\w-]{43}$/;

/** Whether it can be the token of a link. */
export const isLinkToken = (text: string): boolean => TOKEN.test(text);

/**
 * The cookie has the token, and the digest of the browser that has followed the link: a planted one is none.
 * @param name of the cookie.
 */
export function createLinkCookie(name: string, findBrowser: FindBrowser): LinkCookie {
  const valuesOf = ({ req }: BrowserContext): readonly string[] => cookieValues(req.headers.cookie, name);

  function set(ctx: BrowserContext, value: string, lifetime: number): void {
    const { path, secure } = ctx.state.deployment;
    // The steps of a sign-in and the account pages read it too.
    const flags = `Path=${path === "" ? "/" : path}; Max-Age=${lifetime}; HttpOnly; SameSite=Lax`;
    ctx.append("Set-Cookie", `${name}=${value}; ${flags}${secure ? "; Secure" : ""}`);
  }

  return {
    read(ctx) {
      const [value = "", ...others] = valuesOf(ctx);
      if (value === "" || others.length > 0) return undefined;
      const [token = "", digest = ""] = value.split(".");
      return isLinkToken(token) && isEqual(digest, findBrowser(ctx).digest) ? token : undefined;
    },
    write(ctx, token) {
      const browser = findBrowser(ctx);
      browser.remember(ctx);
      set(ctx, `${token}.${browser.digest}`, LIFETIME);
    },
    clear(ctx) {
      if (valuesOf(ctx).length > 0) set(ctx, "", 0);
    },
  };
}
