/**
 * The sign-in of an operator to the console: a cookie on the console's own host that names a session of the service. It ends with that
 * session, with the role, half an hour after the last request, and 12 hours after it began.
 */
import { hash, randomBytes } from "node:crypto";
import type { Configuration } from "../../config/configuration.ts";
import { type OperatorRole, roleOf } from "../../config/operators.ts";
import type { Clock } from "../../core/clock.ts";
import { readCookie, setCookie } from "../../core/cookies.ts";
import type { Encrypter } from "../../core/sealing.ts";
import { hasShownSecondFactor } from "../../provider/authentication.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { ConsoleContext, Operator } from "./request.ts";

/** How long a sign-in lasts at most. */
const LIFETIME_MS = 12 * 60 * 60 * 1000;
/** How long it lasts without a request. */
const IDLE_MS = 30 * 60 * 1000;
/** How old the time of the last request in the cookie becomes before the cookie is set again. */
const RENEWAL_MS = 60 * 1000;

/** What the cookie holds, encrypted. */
type Ticket = readonly [id: string, sub: string, session: string, startedAt: number, usedAt: number];

/** The sign-ins to the console of one service. */
export interface ConsoleSessions {
  /** The operator; `undefined` if nobody is signed in. It notes the use. */
  find(ctx: ConsoleContext): Promise<Operator | undefined>;
  /** The role of whoever the cookie names, without the storage: they may have been signed out meanwhile. */
  roleIn(ctx: ConsoleContext): OperatorRole | undefined;
  /** Begins a sign-in of somebody who has just signed in to the service, in this session of the service. */
  begin(ctx: ConsoleContext, sub: string, session: string): void;
  /** Removes the cookie. The session of the service is not touched. */
  forget(ctx: ConsoleContext): void;
}

/**
 * The name of a cookie of the console. It differs between services and between the addresses of their consoles, which may share a
 * host; with https, it is bound to the host.
 */
export function consoleCookie(
  { cookies: { prefix }, deployments: { oauth2, openid } }: Pick<Configuration, "cookies" | "deployments">,
  url: string,
  purpose: string,
): string {
  const all = [url, oauth2?.url ?? "", openid?.url ?? ""].join(" ");
  const bound = url.startsWith("https:") ? "__Host-" : "";
  return `${bound}${prefix}sis_${purpose}_${hash("sha256", all, "hex").slice(0, 8)}`;
}

export function createConsoleSessions(
  {
    configuration,
    clock,
    sessions,
    encrypter,
  }: {
    readonly configuration: Configuration;
    readonly clock: Clock;
    readonly sessions: Pick<SignInSessions, "signedIn">;
    readonly encrypter: Encrypter;
  },
  url: string,
): ConsoleSessions {
  const name = consoleCookie(configuration, url, "admin");
  const secure = url.startsWith("https:");

  function write(ctx: ConsoleContext, ticket: Ticket): void {
    const value = encrypter.encrypt(name, JSON.stringify(ticket));
    setCookie(ctx, { name, value, lifetimeSeconds: LIFETIME_MS / 1000, secure });
  }

  /** The sign-in that the cookie names, unless it has ended by its age. */
  function ticketIn(ctx: ConsoleContext): Ticket | undefined {
    const text = encrypter.decrypt(name, readCookie(ctx, name) ?? "");
    if (text === undefined) return undefined;
    const ticket = JSON.parse(text) as Ticket;
    const [, , , startedAt, usedAt] = ticket;
    const now = clock.now();
    return now >= startedAt + LIFETIME_MS || now >= usedAt + IDLE_MS ? undefined : ticket;
  }

  return {
    async find(ctx) {
      const ticket = ticketIn(ctx);
      if (ticket === undefined) return undefined;
      const [id, sub, session, startedAt, usedAt] = ticket;
      const now = clock.now();
      const until = startedAt + LIFETIME_MS;
      const role = roleOf(configuration, sub);
      if (role === undefined) return undefined;
      const signedIn = await sessions.signedIn(sub, session);
      // The factor may have been removed since.
      if (signedIn === undefined || !hasShownSecondFactor(signedIn.acr, signedIn.account)) return undefined;
      if (now - usedAt >= RENEWAL_MS) write(ctx, [id, sub, session, startedAt, now]);
      return { ...signedIn, id, until, who: { actor: { kind: "operator", id: sub }, role } };
    },
    roleIn(ctx) {
      const [, sub] = ticketIn(ctx) ?? [];
      return sub === undefined ? undefined : roleOf(configuration, sub);
    },
    begin(ctx, sub, session) {
      const now = clock.now();
      write(ctx, [randomBytes(16).toString("base64url"), sub, session, now, now]);
    },
    forget: (ctx) => setCookie(ctx, { name, value: "", lifetimeSeconds: 0, secure }),
  };
}
