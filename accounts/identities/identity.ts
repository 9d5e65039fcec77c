/** Identities at other providers, and what linking one stores besides the account. */
import { type Clock, seconds } from "../../core/clock.ts";
import { AlreadyExists, InvalidArgument } from "../../core/errors.ts";
import type { Sealer } from "../../core/sealing.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord, AccountWays, IdentityLink } from "../../records/directory/directory.ts";
import {
  IDENTITY,
  identityContext,
  identityId,
  isIdentityPart,
  type StoredIdentity,
} from "../../records/people/identity-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { UpstreamIdentity } from "../../upstream/upstream.ts";

/** What a link needs to know of an identity. */
export type LinkedAs = Pick<UpstreamIdentity, "provider" | "issuer" | "subject" | "email">;

/** What is wrong with an issuer or a subject. */
export function identityProblem(text: string): string | undefined {
  return isIdentityPart(text) ? undefined : "must have 1 to 255 characters";
}

/** The identity that a new account signs in with. */
export interface NewIdentity {
  readonly kind: "identity";
  readonly identity: LinkedAs;
}

/** The session in which somebody links an identity. */
export interface LinkingSession {
  /** The `sessions_generation` that the account must still have. */
  readonly sessions_generation: number;
  /** The `uid` of the session that stays signed in. Left out: none does. */
  readonly keepSession?: string | undefined;
}

/** The identity is linked. */
export interface Linked {
  readonly kind: "linked";
  readonly id: string;
  /** Seconds since the epoch. */
  readonly linked_at: number;
  /** The value that the session or sign-in that stays has to carry from now on. */
  readonly sessions_generation: number;
}

/** Why nothing was linked. */
export type NotLinked =
  /** It is linked already: to another account, or to this one. */
  | { readonly kind: "taken" }
  /** The account has an identity of this provider. */
  | { readonly kind: "full" }
  /** The account has changed since, is disabled or is gone. */
  | { readonly kind: "changed" };

/** Changes that only the service itself makes. */
export interface IdentityChanges {
  /** The identities of an account, oldest first. */
  storedIdentities(sub: string): Promise<readonly StoredIdentity[]>;
  /**
   * Links an identity. A mail has a link that undoes it for seven days.
   * @param as left out: whatever the account is like.
   */
  addIdentity(
    sub: string,
    identity: LinkedAs,
    as: LinkingSession | undefined,
    caller: Caller,
  ): Promise<Linked | NotLinked>;
  /**
   * Undoes the linking of an identity: it is unlinked, and all sessions, codes, tokens and the password end. `undefined`, and
   * nothing is put, if the account is gone or disabled, or has no such identity.
   */
  undoIdentity(
    within: Transaction,
    sub: string,
    id: string,
    caller: Caller,
  ): Promise<AccountRecord | undefined>;
}

const SEVEN_DAYS = 7 * 86_400;

/** Until when the linking of an identity can be undone, in seconds since the epoch. */
export const undoEndsAt = ({ linked_at }: Pick<IdentityLink, "linked_at">): number => linked_at + SEVEN_DAYS;

/** Whether an identity was linked in the last seven days: then its linking can be undone, and a new password removes it. */
export function isLinkedLately(link: Pick<IdentityLink, "linked_at">, clock: Clock): boolean {
  return undoEndsAt(link) > seconds(clock);
}

/** What the link of the mail about a linking undoes. */
export interface UndoableLink {
  readonly sub: string;
  /** Its key. */
  readonly provider: string;
  /** The account signed in at its provider only: no password follows. */
  readonly isOnly?: true;
}

/** What a new identity changes, and the record that goes with it. */
interface IdentityAddition {
  readonly link: IdentityLink;
  /** The ways of the account afterwards. */
  readonly ways: AccountWays;
  /** Call it in the transaction that puts the account. */
  put(): void;
}

/**
 * What linking an identity means for an account. Nothing is put yet.
 * @param registered whether the account is made with it.
 * @throws AlreadyExists when it belongs to an account, this one or another.
 * @throws InvalidArgument when nobody can have such an issuer or subject.
 */
export async function identityAddition(
  tx: Transaction,
  { ways, sub }: Pick<AccountRecord, "ways" | "sub">,
  { provider, issuer, subject, email }: LinkedAs,
  {
    sealer,
    clock,
    registered,
  }: { readonly sealer: Sealer; readonly clock: Clock; readonly registered: boolean },
): Promise<IdentityAddition> {
  for (const [path, text] of Object.entries({ issuer, subject })) {
    const message = identityProblem(text);
    if (message !== undefined) throw new InvalidArgument({ path: `identity.${path}`, message });
  }
  const id = identityId({ issuer, subject });
  if ((await tx.get(IDENTITY.ref(id))) !== undefined) throw new AlreadyExists("this identity");
  const linked_at = seconds(clock);
  const isFirst = registered && { registered: true as const };
  const link = { id, provider, linked_at, ...isFirst };
  const links = [...(ways.provider?.links ?? []), link];
  const sealed = email === undefined ? null : sealer.seal(identityContext(id), email);
  const stored = { id, issuer, subject, sub, provider, sealed, linked_at, last_used_at: null, ...isFirst };
  return { link, ways: { ...ways, provider: { links } }, put: () => tx.put(IDENTITY.record(stored)) };
}
