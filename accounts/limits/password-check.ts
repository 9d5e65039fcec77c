/**
 * Checks a typed password, for the sign-in form and the password grant: rate limits, guessing that goes on, the look-up
 * and the comparison, in a fixed order. Neither an answer nor the work behind it reveals which names exist
 * (decisions.md, Rate limits and Guessing that goes on).
 *
 * Windows of rate limits end, so slow guesses may go on for years. Failures in a row are therefore counted without a
 * window, for each name as typed: no count spans the names of one account, because that would reveal which belong
 * together.
 */
import { randomUUID } from "node:crypto";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { PasswordOwner } from "../account.ts";
import { hasSecondFactor } from "../factors/factor.ts";
import { readName, type SignInName } from "../names.ts";
import { noticeTo, sealMail, type StoredMail } from "../../records/people/mail-kinds.ts";
import { failureSubject, type PasswordSource } from "../../records/people/sign-ins.ts";
import type { Attempt } from "./attempt-limits.ts";
import type { AccountServices } from "../services.ts";

/** What a device cookie is compared with. */
export type DeviceAccount = PasswordOwner & Pick<AccountRecord, "sub">;

/** A name as its limits see it. */
export interface LimitedName {
  /** `undefined`: no account can have it. */
  readonly name: SignInName | undefined;
  /** Whether so many tries with this name have failed in a row that further ones are limited. */
  readonly guessed: boolean;
}

/** A name and a password, and how the caller limits them. */
export interface PasswordTry {
  readonly source: PasswordSource;
  /** As typed, or as the client sent it: read here, and nowhere else. */
  readonly name: string;
  readonly password: string;
  /** Who takes turns with others when many passwords are checked: the wide network of the caller, or the client. */
  readonly party: string;
  /** Takes the points. */
  readonly limit: (limited: LimitedName, device: string | undefined) => Promise<Attempt>;
  /**
   * The id of the browser, if its device cookie is that of this account. It is left out without such a cookie: then the
   * points are consumed before anything is looked up.
   */
  readonly device?: (account: DeviceAccount) => string | undefined;
  /** Whose password counts: the right one of somebody else is like a wrong one. Default: everybody's. */
  readonly isFor?: (account: Pick<AccountRecord, "sub">) => boolean;
}

export type CheckedPassword =
  | { readonly kind: "limited"; readonly attempt: Attempt }
  | {
      readonly kind: "refused";
      readonly reason: "credentials" | "disabled";
      readonly record: AccountRecord | undefined;
    }
  /** The caller gives the points back, with what it writes. */
  | { readonly kind: "right"; readonly record: AccountRecord; readonly attempt: Pick<Attempt, "succeed"> };

export interface PasswordCheck {
  /** @throws StorageUnavailable; then no point is consumed. */
  check(tried: PasswordTry): Promise<CheckedPassword>;
}

/** Failures in a row after which further tries are limited. */
export const FAILURES_BEFORE_LIMIT = 100;

/** What counting sign-ins and notifying their owner is built from. */
export type SignInNotices = Pick<
  AccountServices,
  "storage" | "keys" | "sealer" | "clock" | "mailDeployment" | "onMail"
>;

export function createPasswordCheck({
  accounts,
  storage,
  keys,
  sealer,
  clock,
  mailDeployment,
  onMail,
}: SignInNotices & Pick<AccountServices, "accounts">): PasswordCheck {
  const { signIns: store } = storage;
  const { rateLimits: key } = keys;

  function noticeFor(account: AccountRecord | undefined): StoredMail | undefined {
    if (account === undefined || mailDeployment === undefined) return undefined;
    const now = clock.now();
    const params = { failures: String(FAILURES_BEFORE_LIMIT) };
    const mail = noticeTo(account, { kind: "many-failures", deployment: mailDeployment, at: now, params });
    return sealMail(sealer, mail, now);
  }

  async function addFailure(
    source: PasswordSource,
    subject: string,
    record: AccountRecord | undefined,
  ): Promise<void> {
    const mailAt = { failures: FAILURES_BEFORE_LIMIT, mail: () => noticeFor(record) };
    if ((await store.addFailure(source, subject, mailAt)) === FAILURES_BEFORE_LIMIT) onMail();
  }

  return {
    async check({ source, name: typed, password, party, limit, device: deviceOf, isFor = () => true }) {
      const name = readName(typed);
      // No account can have a name that is too long, so nothing is guessed.
      const subject = name === undefined ? undefined : failureSubject(key, name);
      const failures = subject === undefined ? 0 : await store.failures(source, subject);
      let record = deviceOf && (await accounts.recordByName(name));
      // An unknown name costs the same comparisons.
      const device = deviceOf?.(record ?? { sub: randomUUID(), ways: {} });
      const attempt = await limit({ name, guessed: failures >= FAILURES_BEFORE_LIMIT }, record && device);
      if (!attempt.allowed) return { kind: "limited", attempt };
      try {
        record ??= deviceOf === undefined ? await accounts.recordByName(name) : undefined;
        const { ok, refusal = "credentials" } = await accounts.authenticateRecord(record, password, party);
        // A client can't ask for a second factor, so nobody learns whether the password was right.
        const isHalf = ok && source === "password_grant" && record !== undefined && hasSecondFactor(record);
        if (!ok || record === undefined || isHalf || !isFor(record)) {
          if (subject !== undefined) await addFailure(source, subject, record);
          return { kind: "refused", reason: refusal, record };
        }
        // Only of this name: otherwise its limit would show which names belong together.
        if (subject !== undefined && failures > 0) await store.clearFailures(source, subject);
        return { kind: "right", record, attempt };
      } catch (fault) {
        await attempt.withdraw();
        throw fault;
      }
    },
  };
}
