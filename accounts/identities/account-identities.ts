/**
 * Changes an account's identities at other providers. Whoever asks for it, each change is a single account change that
 * ends all other sessions and remembered browsers, mails the person and writes an audit record (decisions.md, Linking).
 */
import { type Clock, seconds } from "../../core/clock.ts";
import { AlreadyExists } from "../../core/errors.ts";
import type { Sealer } from "../../core/sealing.ts";
import type { AuditDetail } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { Transaction } from "../../records/records.ts";
import { isDisabled } from "../account.ts";
import { withoutSessions, withPassword } from "../account-access.ts";
import type { AccountWriter } from "../account-change.ts";
import { withReview } from "../factors/factor.ts";
import type { FactorWriter } from "../factors/factor-writer.ts";
import { isIdentity, WAYS, withoutWays } from "../ways/ways.ts";
import { emailProblem } from "../names.ts";
import {
  identityAddition,
  type IdentityChanges,
  isLinkedLately,
  type NotLinked,
  type UndoableLink,
} from "./identity.ts";

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
          const undo = await changes.undoLink(tx, before, {
            purpose: "identity-undo",
            subject: addition.id,
            extra: { sub, provider } satisfies UndoableLink,
          });
          const address = identity.email;
          const params = {
            provider,
            ...(address !== undefined && emailProblem(address) === undefined && { address }),
          };
          const mails = await changes.notices(tx, before, params, { kind: "identity-linked", undo });
          addition.put();
          if (undo !== undefined) tx.overwrite(undo.record);
          return {
            action: "account.identity_linked",
            record: { ...withoutSessions(before), ways: addition.ways },
            keepSession: as?.keepSession,
            mails,
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
          const left = link && withoutWays(before, (each, way) => isIdentity(way) && each === id);
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

/**
 * The account without the identities that were linked in the last seven days: whoever knew the old password may have linked
 * one (decisions.md, Linking).
 * @param keepsFirst whether the one stays that the account was registered with.
 * @returns the account, and what the audit says about it.
 */
export function withoutLateIdentities(
  tx: Transaction,
  account: AccountRecord,
  clock: Clock,
  { keepsFirst }: { readonly keepsFirst: boolean },
): { readonly left: AccountRecord; readonly detail?: AuditDetail } {
  const late = (account.ways.provider?.links ?? []).filter(
    (link) => isLinkedLately(link, clock) && !(keepsFirst && link.registered === true),
  );
  const ids = new Set(late.map(({ id }) => id));
  const left = withoutWays(account, (id, way) => isIdentity(way) && ids.has(id));
  for (const ref of left?.records ?? []) tx.remove(ref);
  return left === undefined ? { left: account } : { left: left.account, detail: { identities: ids.size } };
}
