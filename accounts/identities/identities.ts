/** The identities that people sign in with, as the sign-in and the account pages need them. */
import { seconds } from "../../core/clock.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import {
  IDENTITY,
  identityContext,
  identityId,
  type IdentityName,
  isIdentityPart,
  type StoredIdentity,
} from "../../records/people/identity-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { ChangedFactors, OwnFactorChange, UnchangedFactors } from "../factors/factor.ts";
import { isDisabled, stateOf } from "../account.ts";
import type { Unproven } from "../people/confirmations.ts";
import { type AskedAt, callerAs, type Limited, refusalOf } from "../people/requests.ts";
import { onlyProvider } from "../providers.ts";
import type { AccountServices } from "../services.ts";
import {
  isLinkedLately,
  type Linked,
  type LinkedAs,
  type LinkingSession,
  type NotLinked,
  type UndoableLink,
} from "./identity.ts";

/** An identity of an account. Times are in seconds since the epoch. */
export interface LinkedIdentity extends Omit<StoredIdentity, "sub" | "sealed"> {
  /** The address there when it was linked; `null` if the provider did not say. For its owner alone. */
  readonly email: string | null;
}

/** What became of "This wasn't me". */
type Undone =
  /** `reset`: the token of a link to choose a new password. `null`: the account signs in at its provider only. */
  { readonly kind: "undone"; readonly reset: string | null } | { readonly kind: "blocked" };

/** Each call rejects with `StorageUnavailable` when the storage fails. */
export interface Identities {
  /** The account that signs in with this identity, also a disabled one. */
  find(identity: IdentityName): Promise<AccountRecord | undefined>;
  /**
   * Links an identity after a recent sign-in and the POST of the page that shows it, in one atomic operation: all other
   * sessions and remembered browsers end, and the person gets a mail with a link that undoes it.
   */
  link(
    sub: string,
    identity: LinkedAs,
    as: LinkingSession,
    at: AskedAt,
  ): Promise<Linked | NotLinked | Limited>;
  /** Unlinks an identity as its owner, with the rules and results of `removeOwnFactor`. @param id of a {@link LinkedIdentity}. */
  unlink(
    sub: string,
    id: string,
    change: OwnFactorChange & { readonly generation: number },
    at: AskedAt,
  ): Promise<ChangedFactors | UnchangedFactors | Limited>;
  /**
   * Undoes a linking with the link from the mail about it, within seven days and in any browser: the identity is unlinked, and
   * all codes, tokens, sessions and the password end.
   * @returns `undone`: go on in this browser; `blocked`: the account is disabled, and nothing was changed.
   */
  undo(link: string, at: AskedAt): Promise<Undone | Unproven>;
  /**
   * The same as its owner, after a recent sign-in. `gone`: there is no such identity, it was linked more than seven days ago,
   * or the account was registered with it.
   * @param generation the `sessions_generation` that the account must still have.
   */
  notMe(sub: string, id: string, generation: number, at: AskedAt): Promise<Undone | Unproven | Limited>;
  /** Puts when the identity was last used, in the transaction that completes a sign-in with it. */
  used(tx: Transaction, identity: IdentityName): Promise<void>;
  /** Oldest first. */
  list(sub: string): Promise<readonly LinkedIdentity[]>;
}

export function createIdentities(
  services: Pick<
    AccountServices,
    "configuration" | "storage" | "clock" | "sealer" | "accounts" | "confirmations" | "limits" | "audit"
  >,
): Identities {
  const { configuration, storage, clock, sealer, accounts, confirmations, limits } = services;
  const { records } = storage;

  /** Undoes a linking, and makes the link to choose a new password. */
  async function undone(
    tx: Transaction,
    sub: string,
    id: string,
    at: AskedAt,
  ): Promise<Undone | { readonly kind: "gone" }> {
    const account = await accounts.undoIdentity(tx, sub, id, callerAs(sub, at));
    if (account === undefined) {
      const current = await tx.get(ACCOUNT.ref(sub));
      return { kind: current !== undefined && isDisabled(current) ? "blocked" : "gone" };
    }
    if (onlyProvider(configuration, account) !== undefined) return { kind: "undone", reset: null };
    const extra = stateOf(account);
    const reset = confirmations.prepare({ purpose: "password-reset", subject: sub, extra });
    tx.overwrite(reset.record);
    return { kind: "undone", reset: reset.link };
  }

  return {
    undo: (link, at) =>
      confirmations.prove<UndoableLink, Undone | Unproven>(
        "identity-undo",
        undefined,
        { link },
        async (pending, tx) => undone(tx, pending.extra.sub, pending.subject, at),
      ),

    async notMe(sub, id, generation, at) {
      const limited = refusalOf(services, at, await limits.change(sub));
      if (limited !== undefined) return limited;
      return records.transact(async (tx) => {
        const account = await tx.get(ACCOUNT.ref(sub));
        const link = account?.ways.provider?.links.find((each) => each.id === id);
        const isRecent = link !== undefined && link.registered !== true && isLinkedLately(link, clock);
        if (account?.sessions_generation !== generation || !isRecent) return { kind: "gone" };
        return undone(tx, sub, id, at);
      });
    },

    async find(identity) {
      if (![identity.issuer, identity.subject].every(isIdentityPart)) return undefined;
      const id = identityId(identity);
      const found = await records.find(IDENTITY.ref(id));
      const account = found && (await records.find(ACCOUNT.ref(found.value.sub)))?.value;
      // The account decides: it may have been unlinked between the two reads.
      return account?.ways.provider?.links.some((link) => link.id === id) ? account : undefined;
    },

    async link(sub, identity, as, at) {
      const limited = refusalOf(services, at, await limits.change(sub));
      if (limited !== undefined) return limited;
      const attempt = await limits.identity(sub);
      const tooMany = refusalOf(services, at, attempt);
      if (tooMany !== undefined) return tooMany;
      const result = await accounts.addIdentity(sub, identity, as, callerAs(sub, at));
      if (result.kind !== "linked") await attempt.withdraw();
      return result;
    },

    async unlink(sub, id, change, at) {
      const limited = refusalOf(services, at, await limits.change(sub));
      if (limited !== undefined) return limited;
      return accounts.removeOwnFactor(sub, id, change, callerAs(sub, at));
    },

    async used(tx, identity) {
      const stored = await tx.get(IDENTITY.ref(identityId(identity)));
      if (stored !== undefined) tx.put(IDENTITY.record({ ...stored, last_used_at: seconds(clock) }));
    },

    async list(sub) {
      const stored = await accounts.storedIdentities(sub);
      return stored.map(({ sub: _owner, sealed, ...identity }) => {
        const email = sealed === null ? null : sealer.open(identityContext(identity.id), sealed);
        return Object.assign(identity, { email });
      });
    },
  };
}
