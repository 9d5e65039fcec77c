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
  signedIn: SignedIn;
}

/** The sessions of one client. */
export interface Sessions {
  /** The session of this browser, or `undefined`. */
  find(ctx: Context): Session | undefined;
  /** Starts a new session with a new ID, and ends the old one of this browser. */
  renew(ctx: Context, session: Session): void;
  /** Ends the session of this browser. */
  end(ctx: Context): void;
  /** Remembers a sign-in that this browser starts. There may be several, in several tabs. */
  begin(ctx: Context, pending: Pending): void;
  /** The sign-in that this browser started with this `state`, once; `undefined` if there is none. */
  take(ctx: Context, state: string): Pending | undefined;
}

const COOKIE = "demo_client";
/** Each started sign-in has a cookie of its own, so that tabs that sign in at once don't disturb each other. */
const STARTED = "demo_client_sign_in_";
const LIFETIME_MS = 3_600_000;
/** Sessions and started sign-ins that are kept. Beyond that, the oldest is dropped. */
const MOST = 1_000;
/** Of one browser. */
const MOST_STARTED = 5;

/** `strict` would not send a cookie when the service redirects back. */
const settings = (ctx: Context) =>
  ({ httpOnly: true, sameSite: "lax", secure: ctx.secure, overwrite: true }) as const;

/** What ends after an hour, the oldest first. */
class Kept<Value> {
  readonly #values = new Map<string, { readonly value: Value; readonly end: number }>();

  get(id: string): Value | undefined {
    const found = this.#values.get(id);
    return found !== undefined && found.end > Date.now() ? found.value : undefined;
  }

  set(id: string, value: Value): void {
    const [oldest] = this.#values.keys();
    if (this.#values.size >= MOST && oldest !== undefined) this.#values.delete(oldest);
    this.#values.set(id, { value, end: Date.now() + LIFETIME_MS });
  }

  delete(id: string): void {
    this.#values.delete(id);
  }
}

function idOf(ctx: Context): string {
  return ctx.cookies.get(COOKIE) ?? "";
}

/** The names of the cookies of started sign-ins. Browsers send the oldest first. */
function startedBy(ctx: Context): string[] {
  return (ctx.get("cookie").match(/(?<=^|; )demo_client_sign_in_[\w-]+(?==)/g) ?? []) as string[];
}

/** These sessions end with the process. A real client stores them where all its processes can read them. */
export function createSessions(): Sessions {
  const sessions = new Kept<Session>();
  const started = new Kept<Pending>();
  return {
    find: (ctx) => sessions.get(idOf(ctx)),
    renew(ctx, session) {
      sessions.delete(idOf(ctx));
      const id = randomBytes(32).toString("base64url");
      sessions.set(id, session);
      ctx.cookies.set(COOKIE, id, settings(ctx));
    },
    end(ctx) {
      sessions.delete(idOf(ctx));
      ctx.cookies.set(COOKIE, null);
    },
    begin(ctx, pending) {
      for (const name of startedBy(ctx).slice(0, 1 - MOST_STARTED)) ctx.cookies.set(name, null);
      started.set(pending.state, pending);
      ctx.cookies.set(STARTED + pending.state, "1", { ...settings(ctx), maxAge: LIFETIME_MS });
    },
    take(ctx, state) {
      // The cookie shows that it was this browser: nobody can make it take the answer of somebody else's sign-in.
      if (!startedBy(ctx).includes(STARTED + state)) return undefined;
      ctx.cookies.set(STARTED + state, null);
      const pending = started.get(state);
      started.delete(state);
      return pending;
    },
  };
}
