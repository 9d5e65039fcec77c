/**
 * Changes an account's identities at other providers. Whoever asks for it, each change is a single account change that
 * ends all other sessions and remembered browsers, mails the person and writes an audit record (decisions.md, Linking).
 */
import { type Clock, seconds } from "../../core/clock.ts";
import { AlreadyExists } from "../../core/errors.ts";
import type { Sealer } from "../../core/sealing.ts";
import { isDisabled } from "../account.ts";
import { withoutSessions, withPassword } from "../account-access.ts";
import type { AccountWriter } from "../account-change.ts";
import { withReview } from "../factors/factor.ts";
import type { FactorWriter } from "../factors/factor-writer.ts";
import { WAYS, withoutWays } from "../ways/ways.ts";
import { identityAddition, type IdentityChanges, type NotLinked } from "./identity.ts";

export function createAccountIdentities(
  writer: AccountWriter,
  changes: FactorWriter,
  services: { readonly sealer: Sealer; readonly clock: Clock },
): { readonly internals: IdentityChanges } {
  const { clock } = services;

  const internals: IdentityChanges = {
    async addIdentity(sub, identity, as, caller) {
      const { provider } = identity;
      const { changed, record, refused, result } = await writer.change<NotLinked["kind"], string>(
        sub,
        caller,
        async (before, tx) => {
          if (before === undefined) return undefined;
          if (
            as !== undefined &&
            (isDisabled(before) || before.sessions_generation !== as.sessions_generation)
          )
            return { refused: "changed" };
          const links = before.ways.provider?.links ?? [];
          if (links.length >= WAYS.provider.max) return { refused: "full" };
          let addition: Awaited<ReturnType<typeof identityAddition>>;
          try {
            addition = await identityAddition(tx, before, identity, { ...services, registered: false });
          } catch (error) {
            if (error instanceof AlreadyExists) return { refused: "taken" };
            throw error;
          }
          if (links.some((link) => link.provider === provider)) return { refused: "full" };
          addition.put();
          return {
            action: "account.identity_linked",
            record: { ...withoutSessions(before), ways: addition.ways },
            keepSession: as?.keepSession,
            detail: { provider },
            result: addition.id,
          };
        },
      );
      if (!changed || record === undefined || result === undefined) return { kind: refused ?? "changed" };
      return { kind: "linked", id: result, sessions_generation: record.sessions_generation };
    },

    async undoIdentity(within, sub, id, caller) {
      const { changed, record } = await writer.change(
        sub,
        caller,
        async (before, tx) => {
          if (before === undefined || isDisabled(before)) return undefined;
          const link = before.ways.provider?.links.find((each) => each.id === id);
          const left = link && withoutWays(before, (each, { kind }) => kind === "provider" && each === id);
          if (link === undefined || left === undefined) return undefined;
          for (const ref of left.records) tx.remove(ref);
          const detail = { provider: link.provider };
          return {
            action: "account.identity_undone",
            record: withReview(withPassword(left.account, null, seconds(clock))),
            mails: await changes.notices(tx, before, { change: "provider-removed", ...detail }),
            detail,
          };
        },
        { within },
      );
      return changed ? record : undefined;
    },
  };
  return { internals };
}
