/**
 * Browsers in which a person has chosen not to be asked for the second factor (decisions.md, Remembered browsers). A
 * record counts only while the account's factors have the generation with which it was made, so every change that must
 * end it does so in its own commit. A sign-in that relies on one counts as a password and nothing more.
 */
import { randomBytes } from "node:crypto";
import { seconds } from "../../core/clock.ts";
import { browserFamily, systemFamily } from "../../records/audit/origin.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import {
  REMEMBERED_BROWSER,
  rememberedBrowserId,
  type StoredRememberedBrowser,
} from "../../records/factors/factor-kinds.ts";
import type { StorageServices } from "../../records/services.ts";
import { factorsGeneration, hasSecondFactor } from "./factor.ts";

/** A remembered browser, as the page of sessions shows it. Times are in seconds since the epoch. */
export type RememberedBrowser = Pick<
  StoredRememberedBrowser,
  "id" | "browser" | "system" | "added_at" | "expires_at"
>;

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface RememberedBrowsers {
  /** How many days a browser is remembered; `undefined`: none is, and the form does not offer it. */
  readonly days: number | undefined;
  /**
   * Remembers a browser. Call it only when the person has ticked the box and shown both factors.
   * @param account as it was when they did; if its factors have changed since, nothing is stored.
   * @param browser.cookie the value that the browser sent, if it is remembered for another account already.
   * @param browser.userAgent the header; only the families of browser and system are stored.
   * @param caller for the audit.
   * @returns the value of the cookie; `undefined` if nothing was stored.
   */
  remember(
    account: AccountRecord,
    browser: { readonly cookie?: string | undefined; readonly userAgent?: string | undefined },
    caller: Caller,
  ): Promise<{ readonly cookie: string; readonly expires_at: number } | undefined>;
  /** Whether this browser need not show the second factor of this account. @param cookie as sent, which may be anything. */
  isRemembered(account: AccountRecord, cookie: string): Promise<boolean>;
  /** Newest first. */
  list(account: AccountRecord): Promise<RememberedBrowser[]>;
  /** Forgets one browser. `false` if it is not remembered for this account. */
  end(sub: string, id: string, caller: Caller): Promise<boolean>;
}

const COOKIE = /^[\w-]{43}$/;
const DAY_SECONDS = 86_400;
/** More than anybody has; the list shows no more. */
const MAX_LISTED = 100;

export function createRememberedBrowsers(
  { storage, clock }: Pick<StorageServices, "storage" | "clock">,
  days: number | undefined,
): RememberedBrowsers {
  const { records, audit: auditStore } = storage;

  const isCurrent = (account: AccountRecord, stored: StoredRememberedBrowser | undefined): boolean =>
    days !== undefined &&
    stored?.sub === account.sub &&
    hasSecondFactor(account) &&
    stored.generation === factorsGeneration(account) &&
    // The configuration may have been shortened since.
    stored.added_at + days * DAY_SECONDS > seconds(clock);

  return {
    days,
    async remember(account, { cookie: sent = "", userAgent }, caller) {
      if (days === undefined) return undefined;
      const cookie = COOKIE.test(sent) ? sent : randomBytes(32).toString("base64url");
      const { sub } = account;
      const generation = factorsGeneration(account);
      const added_at = seconds(clock);
      const expires_at = added_at + days * DAY_SECONDS;
      return records.transact(async (tx) => {
        const current = await tx.get(ACCOUNT.ref(sub));
        if (current === undefined || !hasSecondFactor(current) || factorsGeneration(current) !== generation)
          return undefined;
        tx.overwrite(
          REMEMBERED_BROWSER.record({
            id: rememberedBrowserId(cookie, sub),
            sub,
            generation,
            browser: browserFamily(userAgent) ?? null,
            system: systemFamily(userAgent) ?? null,
            added_at,
            expires_at,
          }),
        );
        tx.create(auditStore.recordOf({ ...caller, action: "account.browser_remembered", subject: sub }));
        return { cookie, expires_at };
      });
    },
    async isRemembered(account, cookie) {
      if (days === undefined || !COOKIE.test(cookie)) return false;
      const found = await records.find(REMEMBERED_BROWSER.ref(rememberedBrowserId(cookie, account.sub)));
      return isCurrent(account, found?.value);
    },
    async list(account) {
      const query = { ...REMEMBERED_BROWSER.where("account", account.sub), descending: true };
      const found = await records.list<StoredRememberedBrowser>(query, MAX_LISTED);
      return found
        .filter(({ value }) => isCurrent(account, value))
        .map(({ value: { id, browser, system, added_at, expires_at } }) => ({
          id,
          browser,
          system,
          added_at,
          expires_at,
        }));
    },
    end: (sub, id, caller) =>
      records.transact(async (tx) => {
        const stored = await tx.get(REMEMBERED_BROWSER.ref(id));
        if (stored?.sub !== sub) return false;
        tx.remove(REMEMBERED_BROWSER.ref(id));
        tx.create(auditStore.recordOf({ ...caller, action: "account.browser_forgotten", subject: sub }));
        return true;
      }),
  };
}
