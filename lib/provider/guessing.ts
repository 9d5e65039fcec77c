/**
 * Guessing that goes on (decisions.md, Pages and self-service). The limits of `attempt-limits.ts` have windows, so slow
 * guesses may go on for years. This counts the failures in a row, without a window, for each account over all its
 * names. Unknown names count in the same way, so that neither answers nor times tell which names exist.
 */
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Clock } from "../clock.ts";
import type { AccountRecord } from "../directory/directory.ts";
import { typedName } from "../domain/text-rules.ts";
import { noticeTo, sealMail, type StoredMail } from "../mail/records.ts";
import { hmac, type Sealer, type SecretKey } from "../sealing.ts";
import type { SignInStore, SignInWay } from "../sign-ins/records.ts";

/** The failures before one try. */
export interface FailedTries {
  /** The account or the unknown name, if so many tries have failed that further ones are limited. */
  readonly limited: string | undefined;
  /** Counts the try as a failure. The one that begins the limit tells the owner by mail. */
  failed(): Promise<void>;
  /** Begins anew, because the try succeeded. */
  succeeded(): Promise<void>;
}

export interface Guessing {
  /**
   * The failures in a row with this name and the other names of its account. One read.
   * @param typed the name as typed.
   * @param account the account with this name, if there is one.
   */
  before(way: SignInWay, typed: string, account: AccountRecord | undefined): Promise<FailedTries>;
}

/** Failures in a row after which further tries are limited. */
export const FAILURES_BEFORE_LIMIT = 100;

/** What counting sign-ins and telling their owner about them needs. */
export interface SignInNoticeOptions {
  readonly store: SignInStore;
  /** The HMAC key under which names, accounts and sign-ins are stored. */
  readonly key: SecretKey;
  readonly sealer: Sealer;
  readonly clock: Clock;
  /** The deployment that mail leads to; `undefined` if no mail is sent. */
  readonly mailDeployment: DeploymentKind | undefined;
  /** Called after a commit that stored mail. */
  readonly onMail: () => void;
}

/** No account can have such a name, so nothing is guessed. */
const IMPOSSIBLE: FailedTries = {
  limited: undefined,
  failed: () => Promise.resolve(),
  succeeded: () => Promise.resolve(),
};

export function createGuessing({
  store,
  key,
  sealer,
  clock,
  mailDeployment,
  onMail,
}: SignInNoticeOptions): Guessing {
  /** A new password makes what was guessed before worthless, and lets its owner in. */
  function subjectOf(typed: string, account: AccountRecord | undefined): string | undefined {
    if (account !== undefined) {
      return hmac(
        key,
        JSON.stringify(["failures of account", account.sub, account.password_generation ?? 0]),
      );
    }
    const name = typedName(typed);
    return name === undefined ? undefined : hmac(key, JSON.stringify(["failures of name", name]));
  }

  function noticeFor(account: AccountRecord | undefined): StoredMail | undefined {
    if (account === undefined || mailDeployment === undefined) return undefined;
    const now = clock.now();
    const params = { failures: String(FAILURES_BEFORE_LIMIT) };
    const mail = noticeTo(account, { kind: "many-failures", deployment: mailDeployment, at: now, params });
    return sealMail(sealer, mail, now);
  }

  return {
    async before(way, typed, account) {
      const subject = subjectOf(typed, account);
      if (subject === undefined) return IMPOSSIBLE;
      const failures = await store.failures(way, subject);
      return {
        limited: failures >= FAILURES_BEFORE_LIMIT ? subject : undefined,
        async failed() {
          const now = await store.addFailure(way, subject, {
            failures: FAILURES_BEFORE_LIMIT,
            mail: () => noticeFor(account),
          });
          if (now === FAILURES_BEFORE_LIMIT) onMail();
        },
        async succeeded() {
          if (failures > 0) await store.clearFailures(way, subject);
        },
      };
    },
  };
}
