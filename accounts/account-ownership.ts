/** Whose an account is: its password and its address, what a change of them ends, the mail about it, and how it is undone. */
import type { Caller } from "../records/audit/audit-event.ts";
import { seconds } from "../core/clock.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import { ConditionFailed } from "../core/errors.ts";
import { type MailKind, type NewMail, noticeTo } from "../records/people/mail-kinds.ts";
import type { PasswordNames } from "./passwords/passwords.ts";
import { type AccountInternals, type AccountState, isDisabled, type OwnSession, stateOf } from "./account.ts";
import { noAccount, withPassword } from "./account-access.ts";
import type { AccountWriter, Decide } from "./account-change.ts";
import type { NewAccount } from "./account-schema.ts";
import { withoutFactorsSince } from "./factors/account-factors.ts";
import { withReview } from "./factors/factor.ts";
import { withoutLateIdentities } from "./identities/account-identities.ts";
import type { accounts } from "./operations/accounts.ts";
import type { Handlers } from "./operations/operation.ts";
import { hasWay, isIdentity } from "./ways/ways.ts";
import { FULL_NAME, type NamedPerson, normalName } from "./names.ts";
import type { AccountServices } from "./services.ts";

/**
 * Address changes that can be undone: each change has a link that undoes it, so beyond these the address can't be
 * changed.
 */
const MAX_UNDOS = { hour: 10, sevenDays: 100 };
const HOUR_MS = 3_600_000;
const SEVEN_DAYS_MS = 7 * 24 * HOUR_MS;

/** The calls that change the password or the address of an account. */
export function createAccountOwnership(
  writer: AccountWriter,
  { clock, passwords }: Pick<AccountServices, "clock" | "passwords">,
  notices: Notices,
): {
  readonly operations: Pick<Handlers<typeof accounts.rows>, "setPassword">;
  readonly internals: Pick<
    AccountInternals,
    "setOwnPassword" | "resetPassword" | "changeAddress" | "undoAddress"
  >;
} {
  async function changePassword(
    sub: string,
    password: string,
    { keepSession, generation }: { readonly [each in keyof OwnSession]?: OwnSession[each] | undefined },
    caller: Caller,
  ): ReturnType<AccountInternals["setOwnPassword"]> {
    let hash: Promise<string> | undefined;
    // The person waits, while an operator's command can.
    const party = generation === undefined ? undefined : `account ${sub}`;
    const { record } = await writer.change(sub, caller, async (before, tx) => {
      if (before === undefined) throw noAccount();
      // Hashing takes a while: meanwhile the owner may have chosen a new password and ended this session.
      if (generation !== undefined && before.sessions_generation !== generation)
        throw new ConditionFailed("the session has ended");
      await passwords.check(password, passwordNames(before));
      const chosen = await (hash ??= passwords.hash(password, party));
      const { left, ...removed } = withoutLateIdentities(tx, before, clock, { keepsFirst: true });
      const after = withPassword(left, chosen, seconds(clock));
      const mails = notices.passwordChanged(after);
      // Whoever knew the old password may have linked the others, even long ago.
      const reviewed = hasWay(left, isIdentity) ? withReview(after) : after;
      return { action: "account.password_changed", record: reviewed, keepSession, mails, ...removed };
    });
    if (record === undefined) throw noAccount();
    const { sessions_generation, tokens_generation } = record;
    return { sessions_generation, tokens_generation };
  }

  return {
    operations: {
      async setPassword({ target: [sub], input: { password }, caller }) {
        await changePassword(sub, password, {}, caller);
      },
    },
    internals: {
      setOwnPassword: changePassword,

      async resetPassword(within, sub, password_hash, as, caller) {
        const decide: Decide = (before, tx) => {
          if (!isStill(before, as)) return undefined;
          const { left, ...removed } = withoutLateIdentities(tx, before, clock, { keepsFirst: false });
          const record = withReview(withPassword(left, password_hash, seconds(clock)));
          return {
            action: "account.password_reset",
            record,
            mails: notices.passwordChanged(record),
            ...removed,
          };
        };
        const { changed, record } = await writer.change(sub, caller, decide, { within });
        return changed ? record : undefined;
      },

      async changeAddress(within, sub, email, as, undo, caller) {
        const decide: Decide<number, { readonly isGuarded: boolean }> = (before) => {
          if (!isStill(before, as)) return undefined;
          const undos = (before.address_undos ?? []).filter(({ expires_at }) => expires_at > clock.now());
          const isGuarded = normalName(before.email) !== normalName(email);
          // No link gives way: a thief could displace the one to the owner's address with many changes.
          const limitedMs = isGuarded ? untilNextUndo(undos, undo.expiresAt) : 0;
          if (limitedMs > 0) return { refused: limitedMs };
          const added = {
            id: undo.id,
            changed_at: seconds(clock),
            expires_at: undo.expiresAt,
            ...(!before.email_verified && { unconfirmed: true as const }),
          };
          const address_undos = isGuarded ? [...undos, added] : undos;
          // An address that was never confirmed may be a stranger's: it gets codes, but never a link that takes over the
          // account.
          const link = isGuarded && before.email_verified ? undo.link : undefined;
          const after = { ...before, email, email_verified: true, address_undos };
          const detail = { fields: changedAddress(before, after).join(" ") };
          const mails = notices.addressChanged(before, after, link);
          return { action: "account.updated", record: after, detail, mails, result: { isGuarded } };
        };
        const { changed, refused: limitedMs, result } = await writer.change(sub, caller, decide, { within });
        if (limitedMs !== undefined) return { kind: "limited", retryAfter: Math.ceil(limitedMs / 1000) };
        if (result?.isGuarded) within.create(undo.record);
        return { kind: changed ? "changed" : "gone" };
      },

      async undoAddress(within, sub, id, email, caller) {
        const decide: Decide = async (before, tx) => {
          const undos = before?.address_undos ?? [];
          const index = undos.findIndex((each) => each.id === id);
          const undone = undos[index];
          if (before === undefined || isDisabled(before) || undone === undefined) return undefined;
          // A passkey alone would sign in whoever has added it.
          const { record: left, removed } = await withoutFactorsSince(tx, before, undone.changed_at);
          const after = {
            ...withReview(withPassword(left, null, seconds(clock))),
            email,
            email_verified: true,
            // Undoing a later change would restore an address that belongs to whoever made this one.
            address_undos: undos.slice(0, index),
          };
          const mails = notices.addressChanged(before, after);
          const detail = removed === 0 ? {} : { detail: { factors: removed } };
          return { action: "account.address_restored", record: after, mails, ...detail };
        };
        const { changed, record } = await writer.change(sub, caller, decide, { within });
        return changed ? record : undefined;
      },
    },
  };
}

/**
 * Milliseconds until there may be another change of address; 0 if there may be one now.
 * @param undos of the last seven days, oldest first. @param expiresAt when the undo of a change of now expires.
 */
function untilNextUndo(undos: readonly { readonly expires_at: number }[], expiresAt: number): number {
  const inHour = undos.filter(({ expires_at }) => expires_at > expiresAt - HOUR_MS);
  const oldest = undos.at(-MAX_UNDOS.sevenDays);
  const oldestInHour = inHour.at(-MAX_UNDOS.hour);
  return Math.max(
    oldestInHour === undefined ? 0 : oldestInHour.expires_at + HOUR_MS - expiresAt,
    // Until it expires itself.
    oldest === undefined ? 0 : oldest.expires_at - expiresAt + SEVEN_DAYS_MS,
  );
}

/** The names that this account must not use as its password. */
export function passwordNames(account: Pick<NewAccount, keyof NamedPerson>): PasswordNames {
  const names = FULL_NAME.map((field) => account[field]);
  return [account.email, account.username, ...names, names.join(" ")];
}

/** Whether the account is enabled and has not changed since its owner was sent a code. */
function isStill(record: AccountRecord | undefined, as: AccountState): record is AccountRecord {
  if (record === undefined || isDisabled(record)) return false;
  const { email, password_generation } = stateOf(record);
  return email === as.email && password_generation === as.password_generation;
}

export const changedAddress = (before: AccountRecord, after: AccountRecord): string[] =>
  (["email", "email_verified"] as const).filter((each) => before[each] !== after[each]);

/** Mail about security. None is sent without a sender address. */
export function createNotices({
  mailDeployment: deployment,
  clock,
}: Pick<AccountServices, "mailDeployment" | "clock">) {
  function notice(kind: MailKind, account: AccountRecord, params: NewMail["params"] = {}): NewMail[] {
    if (deployment === undefined) return [];
    return [noticeTo(account, { kind, deployment, at: clock.now(), params })];
  }
  return {
    deviceConnected: (account: AccountRecord, client: string) =>
      notice("device-connected", account, { client }),
    /** @param allowed what the person has allowed a client that nobody has registered. */
    documentAllowed: (
      account: AccountRecord,
      allowed: Readonly<Record<"host" | "how" | "api" | "scopes", string>>,
    ) => notice("document-allowed", account, allowed),
    passwordChanged: (account: AccountRecord) => notice("password-changed", account),
    /** To both addresses, unless they differ only in spelling. @param undo the link for the old one. */
    addressChanged: (before: AccountRecord, after: AccountRecord, undo?: string) =>
      normalName(before.email) === normalName(after.email)
        ? []
        : [
            ...notice(
              "address-changed",
              { ...before, locale: after.locale ?? null },
              { address: "old", ...(undo !== undefined && { link: undo }) },
            ),
            ...notice("address-changed", after, { address: "new" }),
          ],
  };
}

export type Notices = ReturnType<typeof createNotices>;
