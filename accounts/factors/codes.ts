/**
 * Codes as a second factor: of an authenticator app (RFC 6238), and recovery codes. Points are taken before a code is
 * looked at, and it is used up in the transaction that accepts it, so only one process ever accepts it (decisions.md,
 * What counts and Guessing). Ask for a code only after the right password.
 */
import { type Clock, seconds } from "../../core/clock.ts";
import { isEqual } from "../../core/sealing.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import {
  appContext,
  AUTHENTICATOR_APP,
  RECOVERY_CODES,
  STEP_MS,
  type StoredApp,
} from "../../records/factors/factor-kinds.ts";
import { type MailKind, type NewMail, noticeTo } from "../../records/people/mail-kinds.ts";
import { putNotice } from "../../records/people/notices.ts";
import type { Transaction } from "../../records/records.ts";
import { isDisabled } from "../account.ts";
import { type Attempt, noteLimited } from "../limits/attempt-limits.ts";
import { normalizeCode } from "../people/confirmations.ts";
import { type AskedAt, callerAs, type Limited } from "../people/requests.ts";
import type { AccountServices } from "../services.ts";
import { RECOVERY_CODE_LENGTH, recoveryCodeHmac } from "./factor-writer.ts";
import { MAX_WRONG_CODES } from "../ways/ways.ts";
import { normaliseSecret } from "./factor.ts";

/** Why a code was not accepted. */
export type RefusedCode =
  /** It is wrong, was used before, or can't be a code at all. */
  | { readonly kind: "wrong" }
  /** The app accepts no codes after too many wrong ones: only a passkey, a recovery code or an operator helps. */
  | { readonly kind: "stopped" }
  /** The account is gone or disabled, or has no such factor. */
  | { readonly kind: "gone" }
  | Limited;

/** Gives the points of a right code back. */
export type GiveBack = (attempt: Pick<Attempt, "succeed">) => Promise<void> | void;

/** All calls reject with `StorageUnavailable` when the storage fails; then no point is taken. */
export interface FactorCodes {
  /**
   * Uses a code of the account's app. The step before and the step after the current one count too; a step that was
   * used, and any before it, does not.
   * @param code as typed.
   * @param giveBack is called with a right code. Default: at once, in a commit of its own.
   */
  useApp(
    sub: string,
    code: string,
    at: AskedAt,
    giveBack?: GiveBack,
  ): Promise<{ readonly kind: "right" } | RefusedCode>;
  /** Uses up a recovery code, and mails the person. @param code as typed. @param giveBack as for `useApp`. */
  useRecovery(
    sub: string,
    code: string,
    at: AskedAt,
    giveBack?: GiveBack,
  ): Promise<{ readonly kind: "right"; /** How many are left. */ readonly left: number } | RefusedCode>;
}

/** Enough for a code with spaces. Longer text is not examined. */
const MAX_TYPED_LENGTH = 32;

/** Six digits, in whatever digits they are typed; `undefined` if it can't be a code: that is a slip, not a guess. */
function digitsOf(typed: string): string | undefined {
  if (typed.length > MAX_TYPED_LENGTH) return undefined;
  const code = typed
    .toWellFormed()
    .normalize("NFKC")
    .replaceAll(/[\s\p{Pd}]/gu, "");
  return /^\d{6}$/.test(code) ? code : undefined;
}

/**
 * The time step whose code this is: the current one, the one before or the one after; `undefined` if it is wrong.
 * @param secret in Base32.
 * @param code as typed.
 */
export async function matchingStep(secret: string, code: string, clock: Clock): Promise<number | undefined> {
  const digits = digitsOf(code);
  if (digits === undefined) return undefined;
  const { Secret, TOTP } = await import("otpauth");
  const timestamp = clock.now();
  const delta = TOTP.validate({
    token: digits,
    secret: Secret.fromBase32(normaliseSecret(secret)),
    algorithm: "SHA1",
    digits: 6,
    period: STEP_MS / 1000,
    timestamp,
    window: 1,
  });
  return delta === null ? undefined : Math.floor(timestamp / STEP_MS) + delta;
}

/**
 * Lets a stopped app accept codes again, because the person has shown another factor.
 * @param app as the transaction has read it.
 */
export function forgetWrongCodes(tx: Transaction, app: StoredApp | undefined): void {
  if (app !== undefined && app.wrong_codes > 0) tx.put(AUTHENTICATOR_APP.record({ ...app, wrong_codes: 0 }));
}

const AT_ONCE: GiveBack = (attempt) => attempt.succeed();

export function createFactorCodes({
  storage,
  limits,
  audit,
  clock,
  sealer,
  keys,
  mailDeployment,
  onMail,
}: Pick<
  AccountServices,
  "storage" | "limits" | "audit" | "clock" | "sealer" | "keys" | "mailDeployment" | "onMail"
>): FactorCodes {
  const { records, audit: auditStore } = storage;
  const { confirmations: codeKey } = keys;

  async function putMail(
    tx: Transaction,
    account: AccountRecord,
    kind: MailKind,
    params: NewMail["params"],
  ): Promise<void> {
    if (mailDeployment === undefined) return;
    const at = clock.now();
    const notice = noticeTo(account, { kind, deployment: mailDeployment, at, params });
    await putNotice(tx, account.sub, notice, { sealer, now: at });
    tx.afterCommit(onMail);
  }

  /** Takes a point, lets `use` decide, and gives the point back if the code is right or could not be looked at. */
  async function guarded<Right extends { readonly kind: "right" }>(
    factor: "app" | "recovery",
    sub: string,
    at: AskedAt,
    giveBack: GiveBack,
    use: (tx: Transaction, account: AccountRecord) => Promise<Right | RefusedCode>,
  ): Promise<Right | RefusedCode> {
    const account = (await records.find(ACCOUNT.ref(sub)))?.value;
    if (account === undefined || isDisabled(account)) return { kind: "gone" };
    const event = { ...callerAs(sub, at), action: "second_factor", subject: sub } as const;
    const attempt: Attempt = await limits.secondFactor({ factor, sub, device: at.device?.(account) });
    if (!attempt.allowed) {
      noteLimited(audit, event, attempt);
      return { kind: "limited", retryAfter: attempt.retryAfter };
    }
    let result: Right | RefusedCode;
    try {
      result = await records.transact(async (tx) => {
        const current = await tx.get(ACCOUNT.ref(sub));
        return current === undefined || isDisabled(current) ? { kind: "gone" } : use(tx, current);
      });
    } catch (fault) {
      await attempt.withdraw();
      throw fault;
    }
    if (result.kind === "right") await giveBack(attempt);
    else audit.note({ ...event, outcome: "failure", reason: result.kind, detail: { factor } });
    return result;
  }

  return {
    async useApp(sub, code, at, giveBack = AT_ONCE) {
      if (digitsOf(code) === undefined) return { kind: "wrong" };
      return guarded("app", sub, at, giveBack, async (tx, account) => {
        const app = await tx.get(AUTHENTICATOR_APP.ref(sub));
        if (app === undefined) return { kind: "gone" };
        if (app.wrong_codes >= MAX_WRONG_CODES) return { kind: "stopped" };
        const step = await matchingStep(sealer.open(appContext(sub), app.sealed), code, clock);
        if (step === undefined || step <= app.last_step) {
          const wrong_codes = app.wrong_codes + 1;
          tx.put(AUTHENTICATOR_APP.record({ ...app, wrong_codes }));
          if (wrong_codes === MAX_WRONG_CODES)
            await putMail(tx, account, "app-stopped", { count: String(wrong_codes) });
          return { kind: "wrong" };
        }
        const used = { ...app, last_step: step, last_used_at: seconds(clock), wrong_codes: 0 };
        tx.put(AUTHENTICATOR_APP.record(used));
        return { kind: "right" };
      });
    },

    async useRecovery(sub, typed, at, giveBack = AT_ONCE) {
      const code = normalizeCode(typed, RECOVERY_CODE_LENGTH);
      if (code === undefined) return { kind: "wrong" };
      return guarded<{ readonly kind: "right"; readonly left: number }>(
        "recovery",
        sub,
        at,
        giveBack,
        async (tx, account) => {
          const [stored, app] = await tx.getAll([RECOVERY_CODES.ref(sub), AUTHENTICATOR_APP.ref(sub)]);
          if (stored === undefined) return { kind: "gone" };
          const used = recoveryCodeHmac(codeKey, sub, code);
          const codes = stored.codes.filter((each) => !isEqual(each, used));
          const left = codes.length;
          if (left === stored.codes.length) return { kind: "wrong" };
          tx.put(RECOVERY_CODES.record({ sub, codes }));
          forgetWrongCodes(tx, app);
          await putMail(tx, account, "recovery-code-used", { left: String(left) });
          tx.create(
            auditStore.recordOf({
              ...callerAs(sub, at),
              action: "account.recovery_code_used",
              subject: sub,
              detail: { left },
            }),
          );
          return { kind: "right", left };
        },
      );
    },
  };
}
