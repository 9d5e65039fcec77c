/**
 * Claims for several wake-ups of a receiver at once. All of them want what is due first: by themselves they would meet in
 * a storage where two that claim the same have to begin anew, and most of what it does would be done in vain.
 */
import type { Claim } from "../../adapters/deliveries.ts";

/** A claim, or `undefined` when nothing is due. Rejects as the storage does. */
export type ClaimOne = (receiver: string) => Promise<Claim | undefined>;

interface Asking {
  readonly give: (claim: Claim | undefined) => void;
  readonly fail: (error: unknown) => void;
}

/** @param claim claims what is due of a receiver, at most `limit`. */
export function createSharedClaims(
  claim: (receiver: string, limit: number) => Promise<readonly Claim[]>,
): ClaimOne {
  /** Who asked while something of the receiver was being claimed; a receiver is in it as long as that is so. */
  const waiting = new Map<string, Asking[]>();

  async function claimFor(receiver: string, all: readonly Asking[]): Promise<void> {
    try {
      const claims = await claim(receiver, all.length);
      for (const [at, one] of all.entries()) one.give(claims[at]);
    } catch (error) {
      for (const one of all) one.fail(error);
    }
    next(receiver);
  }

  function next(receiver: string): void {
    const all = waiting.get(receiver) ?? [];
    if (all.length === 0) {
      waiting.delete(receiver);
      return;
    }
    waiting.set(receiver, []);
    void claimFor(receiver, all);
  }

  return (receiver) =>
    new Promise((resolve, reject) => {
      const one: Asking = { give: resolve, fail: reject };
      const others = waiting.get(receiver);
      if (others === undefined) {
        waiting.set(receiver, []);
        void claimFor(receiver, [one]);
      } else others.push(one);
    });
}
