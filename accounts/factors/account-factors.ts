/**
 * Changes an account's second factors. Whoever asks for it, each change is a single account change that ends all other
 * sessions and remembered browsers, mails the person and writes an audit record (decisions.md, Adding and removing).
 */
import type { Configuration } from "../../config/configuration.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import { AlreadyExists, NotApplicable, SignInError } from "../../core/errors.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import {
  AUTHENTICATOR_APP,
  PASSKEY,
  RECOVERY_CODES,
  type StoredApp,
  type StoredPasskey,
} from "../../records/factors/factor-kinds.ts";
import { CONFIRMATION } from "../../records/people/confirmation-kinds.ts";
import type { NewMail } from "../../records/people/mail-kinds.ts";
import type { Records, Transaction } from "../../records/records.ts";
import { type Accounts, isDisabled } from "../account.ts";
import { noAccount, withoutSessions, withPassword } from "../account-access.ts";
import type { AccountAction, AccountWriter, Decide } from "../account-change.ts";
import { anyString, callerOf, checked } from "../arguments.ts";
import { type FactorWriter, NO_FACTORS } from "./factor-writer.ts";
import {
  appSecret,
  type ChangedFactors,
  type FactorChanges,
  type Factors,
  type FactorState,
  hasSecondFactor,
  isPasskeyOfferDue,
  isStill,
  needsSecondFactor,
  MAX_PASSKEYS,
  MAX_WRONG_CODES,
  type NewFactor,
  type OwnFactorChange,
  signsInByPasskeyAlone,
  type UnchangedFactors,
} from "./factor.ts";

type PublicCalls = Pick<
  Accounts,
  "factors" | "addApp" | "removeFactor" | "removeFactors" | "resetRecoveryCodes"
>;

interface AccountFactorOptions {
  readonly records: Records;
  readonly directory: Pick<DirectoryRecords, "listClients">;
  readonly clock: Clock;
  /** With `strict`, third parties and operators need a second factor. */
  readonly profile: Configuration["profile"];
  readonly operators: Configuration["operators"];
}

export function createAccountFactors(
  writer: AccountWriter,
  changes: FactorWriter,
  { records, directory, clock, profile, operators }: AccountFactorOptions,
): PublicCalls & FactorChanges {
  /** Changes the factors, or says why not. */
  async function change(
    sub: string,
    caller: Caller,
    decide: Decide<UnchangedFactors["kind"], readonly string[]>,
  ): Promise<ChangedFactors | UnchangedFactors> {
    const { changed, record, refused = "not_found", result = [] } = await writer.change(sub, caller, decide);
    if (!changed || record === undefined) return { kind: refused };
    return { kind: "changed", recoveryCodes: result, sessions_generation: record.sessions_generation };
  }

  const add = (
    sub: string,
    factor: NewFactor,
    as: FactorState | undefined,
    { keepSession }: OwnFactorChange,
    caller: Caller,
  ): Promise<ChangedFactors | UnchangedFactors> =>
    change(sub, caller, async (before, tx) => {
      if (before === undefined || (as !== undefined && isDisabled(before))) return undefined;
      if (as !== undefined && !isStill(before, as)) return { refused: "stale" };
      const { app, passkeys } = before.factors ?? NO_FACTORS;
      if (factor.kind === "app" ? app : passkeys.length >= MAX_PASSKEYS) return { refused: "limit_reached" };
      const addition = await changes.addition(tx, before, factor);
      return {
        action: factor.kind === "app" ? "account.app_added" : "account.passkey_added",
        record: { ...withoutSessions(before), factors: addition.factors },
        keepSession,
        mails: addition.mails,
        result: await addition.put(),
      };
    });

  /** Removes the factors that `which` accepts. It gets the ids of the passkeys, and `app`. */
  const remove = (
    sub: string,
    which: (id: string) => boolean,
    action: AccountAction,
    params: NewMail["params"],
    { keepSession, generation, keepsLast = false }: OwnFactorChange,
    caller: Caller,
    isOwner = false,
  ): Promise<ChangedFactors | UnchangedFactors> =>
    change(sub, caller, async (before, tx) => {
      if (before === undefined) return undefined;
      if (generation !== undefined && before.sessions_generation !== generation) return { refused: "stale" };
      const isNeeded = keepsLast || (isOwner && (await isRequiredOf(before)));
      // Operators may remove everything: with the confirmed address, the person can set a password.
      const isOnlyWay = action === "account.factor_removed" && signsInByPasskeyAlone(before);
      if (isOnlyWay && before.factors?.passkeys.every(which)) return { refused: "last_sign_in_method" };
      const after = removed(tx, before, which, isNeeded);
      if (after === "last") return { refused: "required" };
      if (after === undefined) return undefined;
      const { factor } = params;
      const mails = await changes.notices(tx, before, params);
      const detail = factor === undefined ? {} : { detail: { factor } };
      return { action, record: withoutSessions(after), keepSession, mails, ...detail };
    });

  /** Whether the person needs a second factor: as an operator, or for a client of a service that they use. */
  async function isRequiredOf({ sub, services }: AccountRecord): Promise<boolean> {
    if (profile === "strict" && operators.includes(sub)) return true;
    const clients = await directory.listClients();
    return clients.some(
      (client) =>
        needsSecondFactor(client, profile) &&
        !client.disabled &&
        client.service !== null &&
        Object.hasOwn(services, client.service),
    );
  }

  function removeOne(
    sub: string,
    which: string,
    change: OwnFactorChange,
    caller: Caller,
    isOwner = false,
  ): Promise<ChangedFactors | UnchangedFactors> {
    const factor = which === "app" ? "app" : "passkey";
    const params = { change: `${factor}-removed`, factor };
    return remove(sub, (id) => id === which, "account.factor_removed", params, change, caller, isOwner);
  }

  function removeAll(sub: string, change: OwnFactorChange, caller: Caller) {
    const params = { change: "all-removed" };
    return remove(sub, () => true, "account.factors_removed", params, change, caller);
  }

  const replaceRecoveryCodes = (
    sub: string,
    { keepSession, generation }: OwnFactorChange,
    caller: Caller,
  ): Promise<ChangedFactors | UnchangedFactors> =>
    change(sub, caller, async (before, tx) => {
      if (before?.factors === undefined || !hasSecondFactor(before)) return undefined;
      if (generation !== undefined && before.sessions_generation !== generation) return { refused: "stale" };
      const { factors } = before;
      return {
        action: "account.recovery_codes_replaced",
        record: { ...withoutSessions(before), factors: { ...factors, generation: factors.generation + 1 } },
        keepSession,
        mails: await changes.notices(tx, before, { change: "recovery-codes" }),
        result: changes.putRecoveryCodes(tx, sub),
      };
    });

  return {
    addFactor: add,
    removeOwnFactor: (sub, which, change, caller) => removeOne(sub, which, change, caller, true),
    removeFactorsOf: (sub, which, generation, caller) =>
      which === undefined
        ? removeAll(sub, { generation }, caller)
        : removeOne(sub, which, { generation }, caller),

    async renamePasskey(sub, id, name, caller) {
      const { changed } = await writer.change(sub, caller, async (before, tx) => {
        const passkey = before?.factors?.passkeys.includes(id) ? await tx.get(PASSKEY.ref(id)) : undefined;
        if (before === undefined || passkey?.sub !== sub) return undefined;
        tx.put(PASSKEY.record({ ...passkey, name }));
        return { action: "account.passkey_renamed", record: before };
      });
      return changed;
    },
    replaceRecoveryCodes,

    async reviewedFactors(sub, by, generation, caller) {
      const { record } = await writer.change(sub, caller, (before) => {
        if (before === undefined || before.sessions_generation !== generation) return undefined;
        const { factors_review: review, ...rest } = before;
        if (review === undefined || isDisabled(before)) return undefined;
        const after: AccountRecord = by === "password" ? rest : { ...rest, factors_review: "half" };
        if (after.factors_review === review) return undefined;
        return { action: "account.factors_reviewed", record: after };
      });
      return record === undefined || record.sessions_generation !== generation || isDisabled(record)
        ? undefined
        : record;
    },

    async offerPasskey(sub, caller) {
      const { changed } = await writer.change(sub, caller, (before) => {
        const at = seconds(clock);
        if (before === undefined || isDisabled(before) || !isPasskeyOfferDue(before, at)) return undefined;
        return { action: "account.passkey_offered", record: { ...before, passkey_offer: { at } } };
      });
      return changed;
    },

    async declinePasskeyOffer(sub, caller) {
      const { record } = await writer.change(sub, caller, (before) => {
        if (before === undefined || before.passkey_offer?.declined) return undefined;
        const passkey_offer = { at: seconds(clock), declined: true } as const;
        return { action: "account.passkey_offer_declined", record: { ...before, passkey_offer } };
      });
      return record !== undefined;
    },

    async undoFactors(within, sub, caller) {
      const { changed, record } = await writer.change(
        sub,
        caller,
        async (before, tx) => {
          if (before === undefined || isDisabled(before)) return undefined;
          const after = removed(tx, before, () => true, false);
          if (after === undefined || after === "last") return undefined;
          const mails = await changes.notices(tx, before, { change: "all-removed" });
          return {
            action: "account.factors_undone",
            record: withPassword(after, null, seconds(clock)),
            mails,
          };
        },
        { within },
      );
      return changed ? record : undefined;
    },

    async factors(sub) {
      checked("sub", anyString, sub);
      const found = await records.find(ACCOUNT.ref(sub));
      const account = found?.value;
      if (account === undefined) return undefined;
      const { passkeys: ids } = account.factors ?? NO_FACTORS;
      const [app, codes, ...passkeys] = await records.store.get([
        AUTHENTICATOR_APP.ref(sub),
        RECOVERY_CODES.ref(sub),
        ...ids.map((id) => PASSKEY.ref(id)),
      ]);
      return shownFactors({
        app: app?.value as StoredApp | undefined,
        codes: (codes?.value as { readonly codes: readonly string[] } | undefined)?.codes ?? [],
        passkeys: passkeys.flatMap((each) =>
          each === undefined ? [] : [each.value as unknown as StoredPasskey],
        ),
      });
    },

    async addApp(sub, app, callOptions) {
      checked("sub", anyString, sub);
      const { secret } = checked("app", appSecret, app);
      const added = await add(
        sub,
        { kind: "app", secret, lastStep: 0 },
        undefined,
        {},
        callerOf(callOptions),
      );
      if (added.kind === "limit_reached") throw new AlreadyExists("an authenticator app of this account");
      if (added.kind !== "changed") throw noAccount();
      return { recovery_codes: [...added.recoveryCodes] };
    },

    async removeFactor(sub, which, callOptions) {
      checked("sub", anyString, sub);
      checked("id", anyString, which);
      const { kind } = await removeOne(sub, which, {}, callerOf(callOptions));
      if (kind === "last_sign_in_method")
        throw new SignInError(
          "last_sign_in_method",
          "the account has no password, and this is its last passkey",
        );
      return kind === "changed";
    },

    async removeFactors(sub, callOptions) {
      checked("sub", anyString, sub);
      const { kind } = await removeAll(sub, {}, callerOf(callOptions));
      return kind === "changed";
    },

    async resetRecoveryCodes(sub, callOptions) {
      checked("sub", anyString, sub);
      const result = await replaceRecoveryCodes(sub, {}, callerOf(callOptions));
      if (result.kind !== "changed") {
        const account = await records.find(ACCOUNT.ref(sub));
        throw account === undefined ? noAccount() : new NotApplicable("the account has no second factor");
      }
      return { recovery_codes: [...result.recoveryCodes] };
    },
  };
}

/** The account without the factors that were added at this time or later. @param since seconds. @returns how many it had. */
export async function withoutFactorsSince(
  tx: Transaction,
  account: AccountRecord,
  since: number,
): Promise<{ readonly record: AccountRecord; readonly removed: number }> {
  const { app: hasApp, passkeys: ids } = account.factors ?? NO_FACTORS;
  const passkeys = await Promise.all(ids.map((id) => tx.get(PASSKEY.ref(id))));
  const app = hasApp ? await tx.get(AUTHENTICATOR_APP.ref(account.sub)) : undefined;
  const late = new Set(
    passkeys.flatMap((each) => (each !== undefined && each.added_at >= since ? [each.id] : [])),
  );
  if (app !== undefined && app.added_at >= since) late.add("app");
  const record = removed(tx, account, (id) => late.has(id), false);
  if (record === undefined || record === "last") return { record: account, removed: 0 };
  return { record, removed: late.size };
}

function shownFactors({
  app,
  codes,
  passkeys,
}: {
  readonly app: StoredApp | undefined;
  readonly codes: readonly string[];
  readonly passkeys: readonly StoredPasskey[];
}): Factors {
  return {
    app:
      app === undefined
        ? null
        : {
            added_at: app.added_at,
            last_used_at: app.last_used_at,
            stopped: app.wrong_codes >= MAX_WRONG_CODES,
          },
    passkeys: passkeys.map(({ id, name, added_at, last_used_at, backed_up }) => ({
      id,
      name,
      added_at,
      last_used_at,
      backed_up,
    })),
    recovery_codes_left: codes.length,
  };
}

/** Removes some factors. Recovery codes, the undo link and the review go with the last one. @returns `last` if `keepsLast` forbids it. */
function removed(
  tx: Transaction,
  before: AccountRecord,
  which: (id: string) => boolean,
  keepsLast: boolean,
): AccountRecord | "last" | undefined {
  const { factors } = before;
  if (factors === undefined) return undefined;
  const gone = factors.passkeys.filter(which);
  const withoutApp = factors.app && which("app");
  if (gone.length === 0 && !withoutApp) return undefined;
  const after: AccountRecord = {
    ...before,
    factors: {
      ...factors,
      generation: factors.generation + 1,
      app: factors.app && !withoutApp,
      passkeys: factors.passkeys.filter((id) => !which(id)),
    },
  };
  if (keepsLast && !hasSecondFactor(after)) return "last";
  for (const id of gone) tx.remove(PASSKEY.ref(id));
  if (withoutApp) tx.remove(AUTHENTICATOR_APP.ref(before.sub));
  if (!hasSecondFactor(after)) {
    tx.remove(RECOVERY_CODES.ref(before.sub));
    tx.remove(CONFIRMATION.ref(["factor-undo", before.sub]));
    const { factors_review: _nothingToReview, ...rest } = after;
    return rest;
  }
  return after;
}
