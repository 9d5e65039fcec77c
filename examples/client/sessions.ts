/** Sessions of this client, in memory, identified by a random cookie. */
import { randomBytes } from "node:crypto";
import type { Context } from "koa";
import type { Call, Claims, Person, Tokens } from "./documented-calls.ts";

/** The deployment that a sign-in uses. */
export type Deployment = "oauth2" | "openid";

/** A sign-in that waits for its response. */
export interface Pending {
  readonly deployment: Deployment;
  readonly state: string;
  /** OpenID Connect only. */
  readonly nonce?: string;
  /** OpenID Connect only: the PKCE code verifier. */
  readonly verifier?: string;
}

/** A finished sign-in. */
export interface SignedIn {
  readonly deployment: Deployment;
  readonly tokens: Tokens;
  /** OpenID Connect only. */
  readonly claims?: Claims;
  /** User information; `undefined` after the token was revoked. */
  readonly person: Person | undefined;
  /** The calls of the last step, as shown to the user. */
  readonly calls: readonly Call[];
  /** What happened in the last step. */
  readonly notice: string;
}

/** One browser. */
export interface Session {
  pending?: Pending | undefined;
  signedIn?: SignedIn | undefined;
}

/** The sessions of one client. */
export interface Sessions {
  /** The session of this browser, or `undefined`. */
  find(ctx: Context): Session | undefined;
  /** Starts a new session with a new ID, and ends the old one of this browser. */
  renew(ctx: Context, session: Session): void;
  /** Ends the session of this browser. */
  end(ctx: Context): void;
}

const COOKIE = "demo_client";
const LIFETIME_MS = 3_600_000;
/** Sessions that are kept. Beyond that, the oldest is dropped. */
const MOST = 1_000;

function idOf(ctx: Context): string {
  return ctx.cookies.get(COOKIE) ?? "";
}

/** These sessions end with the process. A real client stores them where all its processes can read them. */
export function createSessions(): Sessions {
  const kept = new Map<string, { readonly session: Session; readonly end: number }>();
  return {
    find(ctx) {
      const found = kept.get(idOf(ctx));
      return found !== undefined && found.end > Date.now() ? found.session : undefined;
    },
    renew(ctx, session) {
      kept.delete(idOf(ctx));
      const [oldest] = kept.keys();
      if (kept.size >= MOST && oldest !== undefined) kept.delete(oldest);
      const id = randomBytes(32).toString("base64url");
      kept.set(id, { session, end: Date.now() + LIFETIME_MS });
      // `strict` would not send the cookie when the service redirects back.
      ctx.cookies.set(COOKIE, id, { httpOnly: true, sameSite: "lax", secure: ctx.secure, overwrite: true });
    },
    end(ctx) {
      kept.delete(idOf(ctx));
      ctx.cookies.set(COOKIE, null);
    },
  };
}
