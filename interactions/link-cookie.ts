/**
 * A link in mail has its token in the address, where others may see it. The token moves to a cookie at once, which is
 * for this browser and ten minutes.
 */
import type { Deployment } from "../config/configuration.ts";

/** What the cookie is read from and written to. */
export interface LinkContext {
  readonly req: { readonly headers: { readonly cookie?: string | undefined } };
  readonly state: { readonly deployment: Pick<Deployment, "path" | "secure"> };
  append(field: string, value: string): void;
}

export interface LinkCookie {
  /** The token of the link that this browser has followed. */
  read(ctx: LinkContext): string | undefined;
  write(ctx: LinkContext, token: string): void;
  /** Deletes the cookie, if the browser has one. */
  clear(ctx: LinkContext): void;
}

/** Seconds. */
const LIFETIME = 600;
const TOKEN = /^[\w-]{43}$/;

/** Whether it can be the token of a link. */
export const isLinkToken = (text: string): boolean => TOKEN.test(text);

/** @param name of the cookie. */
export function createLinkCookie(name: string): LinkCookie {
  function valuesOf({ req }: LinkContext): readonly string[] {
    const pairs = (req.headers.cookie ?? "").split(/; */);
    return pairs.flatMap((pair) => (pair.startsWith(`${name}=`) ? [pair.slice(name.length + 1)] : []));
  }

  function set(ctx: LinkContext, value: string, lifetime: number): void {
    const { path, secure } = ctx.state.deployment;
    // The steps of a sign-in and the account pages read it too.
    const flags = `Path=${path === "" ? "/" : path}; Max-Age=${lifetime}; HttpOnly; SameSite=Lax`;
    ctx.append("Set-Cookie", `${name}=${value}; ${flags}${secure ? "; Secure" : ""}`);
  }

  return {
    read(ctx) {
      const [value = "", ...others] = valuesOf(ctx);
      return others.length === 0 && isLinkToken(value) ? value : undefined;
    },
    write: (ctx, token) => set(ctx, token, LIFETIME),
    clear(ctx) {
      if (valuesOf(ctx).length > 0) set(ctx, "", 0);
    },
  };
}
