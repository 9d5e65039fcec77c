/** What the sign-in sessions of an account depend on, and how they are listed. */
import type { Configuration } from "../config/configuration.ts";
import { seconds } from "../core/clock.ts";
import type { StoredArtifact } from "../records/artifacts/artifact.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import { isProvided, type ProviderRules, type ProviderSignIn } from "./providers.ts";

/** The last use of a session, as it is stored with it. */
export interface SessionUse {
  /** Seconds since the epoch. */
  readonly at: number;
  /** Shortened: see `originOf`. */
  readonly address?: string;
  readonly browser?: string;
  readonly system?: string;
}

/** A session of oidc-provider with its last use. */
export interface UsedSession {
  use?: SessionUse;
}

/** A session of oidc-provider with the account's `sessions_generation` at sign-in. */
export interface SessionGeneration {
  generation?: number;
  /** The second factor was not shown, because the browser is remembered: the sign-in never counts as recent. */
  remembered?: boolean;
  /** By a provider that did not say when the person signed in there: the sign-in never counts as recent. */
  undated?: boolean;
  atProvider?: ProviderSignIn;
}

/** Whether a session still counts: it ends when the sessions of its account are ended, and with its last sign-in at a provider. */
export function isSessionCurrent(
  { generation, atProvider }: SessionGeneration,
  account: AccountRecord,
  rules: ProviderRules,
): boolean {
  return generation === account.sessions_generation && isProvided(rules, account, atProvider);
}

/** What the end of a session depends on. */
interface SignedInSession {
  readonly accountId?: string | undefined;
  /** When the person signed in, in seconds since the epoch. */
  readonly loginTs?: number | undefined;
}

/**
 * When a session ends however much it is used, in seconds since the epoch: never while nobody is signed in, and at once if it has
 * an account but no time of a sign-in.
 */
export function latestEnd(
  { accountId, loginTs }: SignedInSession,
  { sessionMax }: Pick<Configuration["lifetimes"], "sessionMax">,
): number {
  if (accountId === undefined) return Infinity;
  return loginTs === undefined ? -Infinity : loginTs + sessionMax;
}

/** The members of a session that oidc-provider and this service store. */
export interface SessionPayload extends UsedSession, SignedInSession, Readonly<SessionGeneration> {
  readonly iat?: number;
  readonly acr?: string;
  readonly amr?: readonly string[];
}

/** A browser in which the account is signed in. Times are in seconds since the epoch. */
export interface SignInSession {
  /** Its public identifier. */
  readonly uid: string;
  readonly firstUse: number;
  readonly lastUse: number;
  /** The network of the last use. */
  readonly address?: string;
  readonly browser?: string;
  readonly system?: string;
}

/** The session, and what the person has shown in it; `undefined` if it is no longer valid. */
export function validSession(
  account: AccountRecord,
  { uid, accountId, payload }: StoredArtifact,
  rules: ProviderRules & Pick<Configuration, "lifetimes">,
): { readonly session: SignInSession; readonly amr: readonly string[] } | undefined {
  const stored = payload as SessionPayload;
  const { iat = 0, loginTs, use, amr = [] } = stored;
  const hasEnded = latestEnd(stored, rules.lifetimes) <= seconds(rules.clock);
  const isCurrent = isSessionCurrent(stored, account, rules) && !hasEnded;
  if (uid === undefined || accountId !== account.sub || loginTs === undefined || !isCurrent) return undefined;
  const { at = loginTs, ...where } = use ?? {};
  return { session: { uid, firstUse: iat, lastUse: at, ...where }, amr };
}
