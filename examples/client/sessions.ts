/** Who is signed in at this client: in memory, found by a random cookie. */
import { randomBytes } from "node:crypto";
import type { Context } from "koa";
import type { Call, Claims, Person, Tokens } from "./documented-calls.ts";

/** The deployment that a sign-in goes through. */
export type Deployment = "oauth2" | "openid";

/** A sign-in that has been begun and whose answer is awaited. */
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
  /** What the service told; `undefined` after the token was revoked. */
  readonly person: Person | undefined;
  /** The calls of the last step, to be shown. */
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
  /** The session of this browser; `undefined` when it has none. */
  find(ctx: Context): Session | undefined;
  /** A new session under a new identifier; the old one of this browser ends. */
  renew(ctx: Context, session: Session): void;
  /** Forgets the session of this browser. */
  end(ctx: Context): void;
}

const COOKIE = "demo_client";
/** Milliseconds: an hour. */
const LIFETIME = 3_600_000;
/** More than that are not kept: the oldest goes first. */
const MOST = 1_000;

function idOf(ctx: Context): string {
  return ctx.cookies.get(COOKIE) ?? "";
}

/** A session that is kept in memory ends with the process; a real client keeps it where all its processes see it. */
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
      kept.set(id, { session, end: Date.now() + LIFETIME });
      // `lax`: the cookie has to come along when the service sends the browser back.
      ctx.cookies.set(COOKIE, id, { httpOnly: true, sameSite: "lax", secure: ctx.secure, overwrite: true });
    },
    end(ctx) {
      kept.delete(idOf(ctx));
      ctx.cookies.set(COOKIE, null);
    },
  };
}
