/**
 * Changes an account's second factors. Whoever asks for it, each change is a single account change that ends all other
 * sessions and remembered browsers, mails the person and writes an audit record (decisions.md, Adding and removing).
 */
import { isOperator } from "../../config/operators.ts";
import { seconds } from "../../core/clock.ts";
import { AlreadyExists, NotApplicable, SignInError } from "../../core/errors.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord, AccountWays } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { PASSKEY, RECOVERY_CODES } from "../../records/factors/factor-kinds.ts";
import { CONFIRMATION } from "../../records/people/confirmation-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import { isDisabled } from "../account.ts";
import { noAccount, withoutSessions, withPassword } from "../account-access.ts";
import type { AccountWriter, Decide } from "../account-change.ts";
import type { accounts } from "../operations/accounts.ts";
import type { CheckedPerson } from "../operations/factors.ts";
import type { Handlers } from "../operations/operation.ts";
import {
  canSignIn,
  hasShown,
  isFactorWay,
  isReplaceable,
  type LeftWays,
  methodsOf,
  ownedWaysOf,
  readOwnedWays,
  usesEmailCodes,
  type Way,
  wayOf,
  WAYS,
  withoutWays,
} from "../ways/ways.ts";
import { onlyProvider } from "../providers.ts";
import type { AccountServices } from "../services.ts";
import type { FactorWriter } from "./factor-writer.ts";
import {
  type ChangedFactors,
  type FactorChanges,
  factorsGeneration,
  type FactorState,
  hasSecondFactor,
  isPasskeyOfferDue,
  isReviewed,
  isStill,
  needsSecondFactor,
  wantsFactor,
  type NewFactor,
  type OwnFactorChange,
  type UnchangedFactors,
  withReview,
} from "./factor.ts";

type FactorOperations = Pick<
  Handlers<typeof accounts.rows>,
  "factors" | "addApp" | "removeFactor" | "removeFactors" | "resetRecoveryCodes"
>;

export function createAccountFactors(
  writer: AccountWriter,
  changes: FactorWriter,
  services: Pick<AccountServices, "configuration" | "storage" | "clock" | "mailDeployment">,
): { readonly operations: FactorOperations; readonly internals: FactorChanges } {
  const { configuration, storage, clock } = services;
  const { records, directory } = storage;
  // With `strict`, third parties and operators need a second factor.
  const { profile } = configuration;

  /** Changes the factors, or says why not. */
  async function changeFactors(
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
    changeFactors(sub, caller, async (before, tx) => {
      if (before === undefined || (as !== undefined && isDisabled(before))) return undefined;
      if (as !== undefined && !isStill(before, as)) return { refused: "stale" };
      const { ids, max } = WAYS[factor.kind];
      if (ids(before).length >= max) return { refused: "limit_reached" };
      const addition = await changes.addition(tx, before, factor);
      return {
        action: `account.${factor.kind}_added`,
        record: { ...withoutSessions(before), ways: addition.ways },
        keepSession,
        mails: addition.mails,
        result: await addition.put(),
      };
    });

  /** @param id of what is removed; `undefined`: all factors. */
  const remove = (
    sub: string,
    id: string | undefined,
    { keepSession, generation, keepsLast = false, verified_by }: OwnFactorChange & CheckedPerson,
    caller: Caller,
    isOwner = false,
  ): Promise<ChangedFactors | UnchangedFactors> =>
    changeFactors(sub, caller, async (before, tx) => {
      if (before === undefined) return undefined;
      if (generation !== undefined && before.sessions_generation !== generation) return { refused: "stale" };
      const left = removal(before, (each, way) => (id === undefined ? isFactorWay(way) : each === id));
      if (left === undefined) return undefined;
      const emailCode = usesEmailCodes(services, sub);
      const allowed = { emailCode, providers: configuration.providers };
      // Operators may remove everything: with the confirmed address, the person can set a password.
      // What is removed may still work: its provider may only have got another key.
      if (id !== undefined && canSignIn(before, { emailCode }) && !canSignIn(left.account, allowed))
        return { refused: "last_sign_in_method" };
      if (isOwner && id !== undefined && isOnlyWayIn(before, id)) return { refused: "last_sign_in_method" };
      if (
        hasSecondFactor(before) &&
        !hasSecondFactor(left.account) &&
        (keepsLast || (isOwner && (await isRequiredOf(before))))
      )
        return { refused: "required" };
      for (const ref of left.records) tx.remove(ref);
      const record = withoutSessions(left.account);
      const checked = verified_by === undefined ? {} : { verified_by };
      if (id === undefined) {
        const mails = await changes.notices(tx, before, { change: "all-removed" });
        return { action: "account.factors_removed", record, keepSession, mails, detail: checked };
      }
      const [kind = ""] = left.kinds;
      const { action, detail } = wayOf({ kind }).removed?.(before, id) ?? factorRemoved(kind);
      const mails = await changes.notices(tx, before, { change: `${kind}-removed`, ...detail });
      return { action, record, keepSession, mails, detail: { ...detail, ...checked } };
    });

  /** Whether this is an identity of the provider that the account signs in with and with nothing else. */
  function isOnlyWayIn(account: AccountRecord, id: string): boolean {
    const only = onlyProvider(configuration, account);
    const link = account.ways.provider?.links.find((each) => each.id === id);
    return link !== undefined && link.provider === only?.key;
  }

  /** Whether the person needs a second factor: as an operator, or for a client or an API of a service that they use. */
  async function isRequiredOf({ sub, services: used }: AccountRecord): Promise<boolean> {
    if (profile === "strict" && isOperator(configuration, sub)) return true;
    const clients = await directory.listClients();
    const strict = clients.filter((client) => needsSecondFactor(client, profile) && !client.disabled);
    const apis = (await directory.listApis()).filter(wantsFactor);
    return [...strict, ...apis].some(({ service }) => service !== null && Object.hasOwn(used, service));
  }

  const replaceRecoveryCodes = (
    sub: string,
    { keepSession, generation }: OwnFactorChange,
    caller: Caller,
  ): Promise<ChangedFactors | UnchangedFactors> =>
    changeFactors(sub, caller, async (before, tx) => {
      if (before === undefined || !hasSecondFactor(before)) return undefined;
      if (generation !== undefined && before.sessions_generation !== generation) return { refused: "stale" };
      const ways = { ...before.ways, generation: factorsGeneration(before) + 1 };
      return {
        action: "account.recovery_codes_replaced",
        record: { ...withoutSessions(before), ways },
        keepSession,
        mails: await changes.notices(tx, before, { change: "recovery-codes" }),
        result: changes.putRecoveryCodes(tx, sub),
      };
    });

  const internals: FactorChanges = {
    addFactor: add,
    removeOwnFactor: (sub, which, change, caller) => remove(sub, which, change, caller, true),
    removeFactorsOf: (sub, which, generation, caller) => remove(sub, which, { generation }, caller),

    ownedWays: (sub) => readOwnedWays(records, sub),

    async renamePasskey(sub, id, name, caller) {
      const { changed } = await writer.change(sub, caller, async (before, tx) => {
        const passkey = before?.ways.passkey?.ids.includes(id) ? await tx.get(PASSKEY.ref(id)) : undefined;
        if (before === undefined || passkey?.sub !== sub) return undefined;
        tx.put(PASSKEY.record({ ...passkey, name }));
        return { action: "account.passkey_renamed", record: before };
      });
      return changed;
    },
    replaceRecoveryCodes,

    async reviewedFactors(sub, amr, generation, caller) {
      const { record } = await writer.change(sub, caller, (before) => {
        if (before === undefined || before.sessions_generation !== generation) return undefined;
        const { review, ...rest } = before.ways;
        if (review === undefined || isDisabled(before)) return undefined;
        const ways: AccountWays = hasShown(amr, isReplaceable) ? rest : { ...rest, review: "half" };
        if (ways.review === review) return undefined;
        return { action: "account.factors_reviewed", record: { ...before, ways } };
      });
      return record === undefined || record.sessions_generation !== generation || isDisabled(record)
        ? undefined
        : record;
    },

    async offerPasskey(sub, caller) {
      const { changed } = await writer.change(sub, caller, (before) => {
        const at = seconds(clock);
        if (before === undefined || isDisabled(before) || !isPasskeyOfferDue(before, at)) return undefined;
        const ways = { ...before.ways, passkey_offer: { at } };
        return { action: "account.passkey_offered", record: { ...before, ways } };
      });
      return changed;
    },

    async declinePasskeyOffer(sub, caller) {
      const { record } = await writer.change(sub, caller, (before) => {
        if (before === undefined || before.ways.passkey_offer?.declined) return undefined;
        const ways = { ...before.ways, passkey_offer: { at: seconds(clock), declined: true } as const };
        return { action: "account.passkey_offer_declined", record: { ...before, ways } };
      });
      return record !== undefined;
    },

    async undoFactors(within, sub, caller) {
      const { changed, record } = await writer.change(
        sub,
        caller,
        async (before, tx) => {
          if (before === undefined || isDisabled(before)) return undefined;
          const left = removal(before, (_id, way) => isFactorWay(way));
          if (left === undefined) return undefined;
          for (const ref of left.records) tx.remove(ref);
          const mails = await changes.notices(tx, before, { change: "all-removed" });
          return {
            action: "account.factors_undone",
            record: withReview(withPassword(left.account, null, seconds(clock))),
            mails,
          };
        },
        { within },
      );
      return changed ? record : undefined;
    },
  };

  const operations: FactorOperations = {
    async factors({ target: [sub] }) {
      const owned = await internals.ownedWays(sub);
      if (owned === undefined) return undefined;
      const { identities: _others, ...factors } = owned;
      return factors;
    },

    async addApp({ target: [sub], input: { secret }, caller }) {
      const added = await add(sub, { kind: "app", secret, lastStep: 0 }, undefined, {}, caller);
      if (added.kind === "limit_reached") throw new AlreadyExists("an authenticator app of this account");
      if (added.kind !== "changed") throw noAccount();
      return { recovery_codes: [...added.recoveryCodes] };
    },

    async removeFactor({ target: [sub, which], input, caller }) {
      const { kind } = await remove(sub, which, input, caller);
      if (kind === "last_sign_in_method")
        throw new SignInError(
          "last_sign_in_method",
          "the account has nothing else to sign in with: set a password first",
        );
      return kind === "changed";
    },

    async removeFactors({ target: [sub], input, caller }) {
      const { kind } = await remove(sub, undefined, input, caller);
      return kind === "changed";
    },

    async resetRecoveryCodes({ target: [sub], caller }) {
      const result = await replaceRecoveryCodes(sub, {}, caller);
      if (result.kind !== "changed") {
        const account = await records.find(ACCOUNT.ref(sub));
        throw account === undefined ? noAccount() : new NotApplicable("the account has no second factor");
      }
      return { recovery_codes: [...result.recoveryCodes] };
    },
  };
  return { operations, internals };
}

/** The account without the factors that were added at this time or later. @param since seconds. @returns how many it had. */
export async function withoutFactorsSince(
  tx: Transaction,
  account: AccountRecord,
  since: number,
): Promise<{ readonly record: AccountRecord; readonly removed: number }> {
  const owned = await ownedWaysOf(account, (refs) => tx.getAll(refs));
  const late = methodsOf(owned).filter(({ added_at }) => added_at >= since);
  const left = removal(account, (id) => late.some((each) => each.id === id));
  for (const ref of left?.records ?? []) tx.remove(ref);
  return left === undefined
    ? { record: account, removed: 0 }
    : { record: left.account, removed: late.length };
}

const factorRemoved = (factor: string) => ({ action: "account.factor_removed", detail: { factor } }) as const;

/**
 * Removes some of what the account has. Recovery codes and the undo link go with the last factor, and the review with
 * the last of all.
 * @returns the account, and the records that go with it; `undefined` if it has none of them.
 */
function removal(before: AccountRecord, which: (id: string, way: Way) => boolean): LeftWays | undefined {
  const left = withoutWays(before, which);
  if (left === undefined) return undefined;
  const { review, ...rest } = left.account.ways;
  const isLast = hasSecondFactor(before) && !hasSecondFactor(left.account);
  const ways = {
    ...rest,
    ...(hasSecondFactor(before) && { generation: factorsGeneration(before) + 1 }),
    ...(review !== undefined && isReviewed(left.account) && { review }),
  };
  const end = [RECOVERY_CODES.ref(before.sub), CONFIRMATION.ref(["factor-undo", before.sub])];
  return {
    ...left,
    account: { ...left.account, ways },
    records: isLast ? [...left.records, ...end] : left.records,
  };
}
