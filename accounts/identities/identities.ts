/** The identities that people sign in with, as the sign-in and the account pages need them. */
import { seconds } from "../../core/clock.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import {
  IDENTITY,
  identityContext,
  identityId,
  type IdentityName,
  isIdentityName,
  type StoredIdentity,
} from "../../records/people/identity-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { ChangedFactors, OwnFactorChange, UnchangedFactors } from "../factors/factor.ts";
import { type AskedAt, callerAs, type Limited, refusalOf } from "../people/requests.ts";
import type { AccountServices } from "../services.ts";
import type { Linked, LinkedAs, LinkingSession, NotLinked } from "./identity.ts";

/** An identity of an account. Times are in seconds since the epoch. */
export interface LinkedIdentity extends Omit<StoredIdentity, "sub" | "sealed"> {
  /** The address there when it was linked; `null` if the provider did not say. For its owner alone. */
  readonly email: string | null;
}

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
  /** Puts when the identity was last used, in the transaction that completes a sign-in with it. */
  used(tx: Transaction, identity: IdentityName): Promise<void>;
  /** Oldest first. */
  list(sub: string): Promise<readonly LinkedIdentity[]>;
}

export function createIdentities(
  services: Pick<AccountServices, "storage" | "clock" | "sealer" | "accounts" | "limits" | "audit">,
): Identities {
  const { storage, clock, sealer, accounts, limits } = services;
  const { records } = storage;

  return {
    async find(identity) {
      if (!isIdentityName(identity)) return undefined;
      const id = identityId(identity);
      const found = await records.find(IDENTITY.ref(id));
      const account = found && (await records.find(ACCOUNT.ref(found.value.sub)))?.value;
      // The account decides: it may have been unlinked between the two reads.
      return account?.ways.provider?.links.some((link) => link.id === id) ? account : undefined;
    },

    async link(sub, identity, as, at) {
      const limited = refusalOf(services, at, await limits.change(sub));
      if (limited !== undefined) return limited;
      return accounts.addIdentity(sub, identity, as, callerAs(sub, at));
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
      const account = (await records.find(ACCOUNT.ref(sub)))?.value;
      const ids = account?.ways.provider?.links.map(({ id }) => id) ?? [];
      const found = await records.store.get(ids.map((id) => IDENTITY.ref(id)));
      return found.flatMap((each) => {
        const stored = each?.value as StoredIdentity | undefined;
        if (stored?.sub !== sub) return [];
        const { sub: _owner, sealed, ...identity } = stored;
        const email = sealed === null ? null : sealer.open(identityContext(identity.id), sealed);
        return [{ ...identity, email }];
      });
    },
  };
}
