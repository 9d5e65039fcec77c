/**
 * What a change of an account's second factors stores and mails besides the account: the factor, recovery codes, and the link
 * that undoes a first factor.
 */
import type { KeyObject } from "node:crypto";
import { isOperator } from "../../config/operators.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import { AlreadyExists } from "../../core/errors.ts";
import { hmac } from "../../core/sealing.ts";
import type { AccountRecord, AccountWays } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import {
  appContext,
  AUTHENTICATOR_APP,
  PASSKEY,
  RECOVERY_CODES,
  type StoredApp,
  USED_RP_ID,
} from "../../records/factors/factor-kinds.ts";
import { type MailKind, type NewMail, noticeTo } from "../../records/people/mail-kinds.ts";
import { putNotice } from "../../records/people/notices.ts";
import type { Transaction } from "../../records/records.ts";
import type { EarlierAddress } from "../people/address-changes.ts";
import { type Confirmations, randomCode } from "../people/confirmations.ts";
import { identityAddition } from "../identities/identity.ts";
import type { AccountServices } from "../services.ts";
import {
  factorsGeneration,
  type FirstWay,
  hasSecondFactor,
  type NewFactor,
  type NewPasskey,
  normaliseSecret,
} from "./factor.ts";

const RECOVERY_CODE_COUNT = 10;
/** Characters of 5 bits each. */
export const RECOVERY_CODE_LENGTH = 10;

/** The keyed digest under which a recovery code is stored. @param code in its normal form. */
export function recoveryCodeHmac(key: KeyObject, sub: string, code: string): string {
  return hmac(key, JSON.stringify(["recovery code", sub, code]));
}

/** As people read and type it. */
const grouped = (code: string): string => `${code.slice(0, 5)}-${code.slice(5)}`;

/**
 * The address for codes and links that guard the factors: for seven days after a change of address, the previous one,
 * so that neither a stolen password nor the new mailbox is enough to enrol.
 */
export async function guardAddress(
  tx: Transaction,
  confirmations: Pick<Confirmations, "peek">,
  { email, email_verified, address_undos = [] }: GuardedAccount,
  clock: Clock,
): Promise<Pick<AccountRecord, "email" | "email_verified">> {
  for (const { id, expires_at, unconfirmed = false } of address_undos) {
    if (expires_at <= clock.now()) continue;
    const earlier = await confirmations.peek<EarlierAddress>(tx, "address-undo", id);
    if (earlier !== undefined) return { email: earlier.extra.email, email_verified: !unconfirmed };
  }
  return { email, email_verified };
}

type GuardedAccount = Pick<AccountRecord, "email" | "email_verified" | "address_undos">;

type Services = Pick<
  AccountServices,
  "clock" | "configuration" | "sealer" | "keys" | "confirmations" | "mailDeployment"
>;

/** A new factor of an account. */
interface FactorAddition {
  /** The ways of the account afterwards. */
  readonly ways: AccountWays;
  /** Mail about it; with the first factor, the link that undoes it. */
  readonly mails: readonly NewMail[];
  /**
   * Puts the factor, and with the first one recovery codes and the undo link. Call it in the transaction that puts the account.
   * @returns the new recovery codes.
   */
  put(): Promise<readonly string[]>;
}

/** What a mail about a change is about, and the link that undoes it. */
interface WithUndo {
  readonly kind?: MailKind;
  readonly undo?: ReturnType<Confirmations["prepare"]> | undefined;
}

/** Stores and mails what a change of factors needs besides the account. */
export interface FactorWriter {
  /** Puts new recovery codes in place of the old ones. */
  putRecoveryCodes(tx: Transaction, sub: string): readonly string[];
  /**
   * Mail about a change, to the address that guards the factors and to the current one.
   * @param as.kind default: `factors-changed`. @param as.undo what undoes the change: only the first address gets its link.
   */
  notices(
    tx: Transaction,
    account: AccountRecord,
    params: NewMail["params"],
    as?: WithUndo,
  ): Promise<NewMail[]>;
  /**
   * A link that undoes a change, to be stored with it. It can take over the account, so it never goes to an address that was
   * not confirmed: then, and without mail, it is `undefined`.
   */
  undoLink(
    tx: Transaction,
    account: AccountRecord,
    wanted: Parameters<Confirmations["prepare"]>[0],
  ): Promise<ReturnType<Confirmations["prepare"]> | undefined>;
  /** What adding a factor means for this account. Nothing is put yet. */
  addition(tx: Transaction, account: AccountRecord, factor: NewFactor): Promise<FactorAddition>;
  /** The same for what a new account signs in with. @throws AlreadyExists when the identity belongs to an account: nothing is put. */
  first(tx: Transaction, account: AccountRecord, way: FirstWay): Promise<FactorAddition>;
}

/** The record of an app, to be stored with the account that has it. */
export function appRecord(
  { sealer, clock }: Pick<Services, "sealer" | "clock">,
  sub: string,
  secret: string,
  lastStep: number,
): StoredApp {
  return {
    sub,
    sealed: sealer.seal(appContext(sub), normaliseSecret(secret)),
    added_at: seconds(clock),
    last_used_at: null,
    last_step: lastStep,
    wrong_codes: 0,
  };
}

export function createFactorWriter(services: Services): FactorWriter {
  const { clock, configuration, sealer, keys, confirmations, mailDeployment } = services;

  function putRecoveryCodes(tx: Transaction, sub: string): string[] {
    const codes = Array.from({ length: RECOVERY_CODE_COUNT }, () => randomCode(RECOVERY_CODE_LENGTH));
    const hmacs = codes.map((code) => recoveryCodeHmac(keys.confirmations, sub, code));
    tx.overwrite(RECOVERY_CODES.record({ sub, codes: hmacs }));
    return codes.map(grouped);
  }

  async function notices(
    tx: Transaction,
    account: AccountRecord,
    params: NewMail["params"],
    { kind = "factors-changed", undo }: WithUndo = {},
  ): Promise<NewMail[]> {
    if (mailDeployment === undefined) return [];
    const { email: guard } = await guardAddress(tx, confirmations, account, clock);
    const about = { kind, deployment: mailDeployment, at: clock.now() };
    const guarded = noticeTo(
      { ...account, email: guard },
      { ...about, params: { ...params, ...(undo && { link: undo.link }) } },
    );
    return guard === account.email ? [guarded] : [guarded, noticeTo(account, { ...about, params })];
  }

  /**
   * Mails every other operator that this one has a first factor: whoever has stolen the password could have added it
   * (decisions.md, Administration over HTTP, Console).
   */
  async function tellOperators(tx: Transaction, sub: string): Promise<void> {
    if (mailDeployment === undefined || !isOperator(configuration, sub)) return;
    const others = Object.keys(configuration.operators).filter((each) => each !== sub);
    const at = clock.now();
    const about = {
      kind: "operator-factor",
      deployment: mailDeployment,
      at,
      params: { operator: sub },
    } as const;
    for (const other of await tx.getAll(others.map((each) => ACCOUNT.ref(each))))
      if (other !== undefined) await putNotice(tx, other.sub, noticeTo(other, about), { sealer, now: at });
  }

  async function undoLink(
    tx: Transaction,
    account: AccountRecord,
    wanted: Parameters<Confirmations["prepare"]>[0],
  ): ReturnType<FactorWriter["undoLink"]> {
    if (mailDeployment === undefined) return undefined;
    const { email_verified } = await guardAddress(tx, confirmations, account, clock);
    return email_verified ? confirmations.prepare(wanted) : undefined;
  }

  async function putPasskey(tx: Transaction, sub: string, passkey: NewPasskey["passkey"]): Promise<void> {
    const { rp_id } = passkey;
    if ((await tx.get(USED_RP_ID.ref(rp_id))) === undefined) tx.put(USED_RP_ID.record({ rp_id }));
    const stored = { ...passkey, sub, added_at: seconds(clock), last_used_at: null };
    tx.create(PASSKEY.record(stored), () => new AlreadyExists("this passkey"));
  }

  const writer: FactorWriter = {
    putRecoveryCodes,
    notices,
    undoLink,
    async first(tx, account, way) {
      if (way.kind === "identity") {
        const addition = await identityAddition(tx, account, way.identity, { ...services, registered: true });
        const put = async (): Promise<readonly string[]> => {
          addition.put();
          return [];
        };
        return { ways: addition.ways, mails: [], put };
      }
      if (way.kind !== "password") return writer.addition(tx, account, way);
      const password = { hash: way.hash, generation: 0 };
      return { ways: { ...account.ways, password }, mails: [], put: async () => [] };
    },
    async addition(tx, account, factor) {
      const { sub } = account;
      const isFirst = !hasSecondFactor(account);
      const undo = isFirst
        ? await undoLink(tx, account, { purpose: "factor-undo", subject: sub, extra: {} })
        : undefined;
      return {
        ways: { ...account.ways, ...added(account, factor), generation: factorsGeneration(account) + 1 },
        mails: await notices(tx, account, { change: `${factor.kind}-added` }, { undo }),
        async put() {
          if (factor.kind === "app")
            tx.overwrite(AUTHENTICATOR_APP.record(appRecord(services, sub, factor.secret, factor.lastStep)));
          else await putPasskey(tx, sub, factor.passkey);
          if (undo !== undefined) tx.overwrite(undo.record);
          if (!isFirst) return [];
          await tellOperators(tx, sub);
          return putRecoveryCodes(tx, sub);
        },
      };
    },
  };
  return writer;
}

/** What the new factor changes in the ways of its account. */
function added(
  { ways: { passkey } }: AccountRecord,
  factor: NewFactor,
): Pick<AccountWays, "app" | "passkey"> {
  if (factor.kind === "app") return { app: true };
  const { user_handle = factor.userHandle, ids = [] } = passkey ?? {};
  return { passkey: { user_handle, ids: [...ids, factor.passkey.id] } };
}
