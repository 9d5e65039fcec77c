/** The sign-in sessions of an account: where and when each is used, and how their owner ends them. */
import type { KoaContextWithOIDC, Provider } from "oidc-provider";
import type { StoredArtifact } from "../../records/artifacts/artifact.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import { isDisabled } from "../../accounts/account.ts";
import { originOf, systemFamily } from "../../records/audit/origin.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { withoutFailing } from "../../core/events.ts";
import {
  type SessionPayload,
  type SessionUse,
  type SignInSession,
  type UsedSession,
  validSession,
} from "../../accounts/sign-in-sessions.ts";
import type { SignedIn } from "../account.ts";
import { acrOf } from "../authentication.ts";
import { exchangeOf } from "../exchange.ts";
import type { ProviderServices } from "../services.ts";

/** A use of a session within this time of the stored one is not stored. */
const USE_INTERVAL_SECONDS = 300;

/** Stores with each session where it is used: when someone signs in, and when a client sends the browser here. */
export function storeSessionUse(provider: Provider, clock: Clock): void {
  const store = (ctx: KoaContextWithOIDC): void => {
    const session: (typeof ctx.oidc.session & UsedSession) | undefined = ctx.oidc.session;
    if (session?.accountId === undefined) return;
    const at = seconds(clock);
    if (session.use !== undefined && at - session.use.at < USE_INTERVAL_SECONDS) return;
    session.use = { at, ...whereFrom(exchangeOf(ctx).address, ctx.req.headers["user-agent"]) };
  };
  provider.on("interaction.ended", store);
  provider.on("authorization.success", store);
}

/** An account that signs in in one browser more may have too many sessions. */
export function countSessions(
  provider: Provider,
  { units, cleanup }: Pick<ProviderServices, "units" | "cleanup">,
): void {
  provider.on("interaction.ended", ({ oidc: { session, result } }) => {
    const sub = session?.accountId;
    if (sub !== undefined && result?.login !== undefined)
      units.required().whenCommitted(() => cleanup.sessionAdded(sub));
  });
}

function whereFrom(address: string, userAgent: string | undefined): Omit<SessionUse, "at"> {
  const system = systemFamily(userAgent);
  return { ...originOf(address, userAgent), ...(system !== undefined && { system }) };
}

/** A page of sessions. */
export interface SessionList {
  readonly sessions: readonly SignInSession[];
  /** Where the next page begins; missing on the last one. */
  readonly next?: string;
}

/** Why the owner ends a session: by signing out there, or on the page of the sessions. */
export type OwnEnd = "signed_out" | "ended";

/** The sign-in sessions of people. Storage faults reject with `StorageUnavailable`. */
export interface SignInSessions {
  /** One page of the valid ones, the most recently used first. @param after `next` of the page before. */
  list(account: AccountRecord, after?: string): Promise<SessionList>;
  /** The one with this `uid`. */
  find(account: AccountRecord, uid: string): Promise<SignInSession | undefined>;
  /** What this account has shown in the session with this `uid`; `undefined` if it no longer has it, or is disabled. */
  signedIn(sub: string, uid: string): Promise<SignedIn | undefined>;
  /**
   * Ends one session: its clients get a logout token; codes and tokens stay valid.
   * @returns false if the account has no such session.
   */
  end(sub: string, uid: string, end: { readonly caller: Caller; readonly reason: OwnEnd }): Promise<boolean>;
  /**
   * Keeps one session signed in while all others end.
   * @param generation of the change that ended the others; after a later one, the session has ended too.
   * @param shown what the person has shown with that change, in addition to the sign-in. Default: nothing.
   */
  keep(uid: string, generation: number, shown?: readonly string[]): Promise<void>;
}

const SESSION = "Session";
/** Sessions of one page. */
const LISTED = 50;

export function createSignInSessions({
  configuration,
  storage,
  backchannel,
  events,
  audit,
  webhooks,
}: Pick<ProviderServices, "configuration" | "storage" | "backchannel" | "events" | "audit"> & {
  readonly webhooks: Pick<ProviderServices["webhooks"], "beside">;
}): SignInSessions {
  const { artifacts } = storage;

  const toSession = (account: AccountRecord, found: StoredArtifact): SignInSession | undefined =>
    validSession(account, found, configuration)?.session;

  return {
    async list(account, after) {
      const query = { model: SESSION, account: account.sub } as const;
      const { artifacts: found, next } = await artifacts.page(query, { after, limit: LISTED });
      const sessions = found.flatMap((session) => toSession(account, session) ?? []);
      return { sessions, ...(next !== undefined && { next }) };
    },

    async find(account, uid) {
      const found = await artifacts.findByUid(SESSION, uid);
      return found && toSession(account, found);
    },

    async signedIn(sub, uid) {
      const [account, found] = await Promise.all([
        storage.directory.findAccount(sub),
        artifacts.findByUid(SESSION, uid),
      ]);
      if (account === undefined || isDisabled(account) || found === undefined) return undefined;
      if (toSession(account, found) === undefined) return undefined;
      const { loginTs: signedInAt = 0, acr, amr, undated, atProvider } = found.payload as SessionPayload;
      return {
        account,
        session: uid,
        signedInAt,
        ...(undated === true && { undated }),
        ...(acr !== undefined && { acr }),
        ...(amr !== undefined && { amr }),
        ...(atProvider !== undefined && { atProvider }),
      };
    },

    async end(sub, uid, { caller, reason }) {
      const event = { ...caller, action: "session.ended", subject: sub, reason } as const;
      const ended = await artifacts.change(
        async () => {
          const found = await artifacts.findByUid(SESSION, uid);
          return found?.accountId === sub ? found : undefined;
        },
        () => undefined,
        (tx) => webhooks.beside(tx, event),
      );
      if (ended === undefined) return false;
      events.emit("session.ended", { sub, reason });
      audit.note(event);
      await withoutFailing(events, "back-channel logout", () => backchannel.sessionsEnded(sub, [ended]));
      return true;
    },

    async keep(uid, generation, shown = []) {
      await artifacts.change(
        () => artifacts.findByUid(SESSION, uid),
        (session) => {
          const { amr: before = [] } = session.payload as SessionPayload;
          const amr = [...new Set([...before, ...shown])];
          const stronger = shown.length > 0 && { amr, acr: acrOf(amr) };
          return { ...session, payload: { ...session.payload, generation, ...stronger } };
        },
      );
    },
  };
}
