/** Mail to the owner of an account about a sign-in from a new browser. */
import { browserFamily, systemFamily } from "../../records/audit/origin.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { noticeTo } from "../../records/people/mail-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import { hmac } from "../../core/sealing.ts";
import type { SignInNotices } from "./password-check.ts";

export interface NewBrowsers {
  /**
   * Records a sign-in from a browser without a device cookie of the account, and notifies its owner, unless it is the
   * first sign-in of the account: in the commit that stores the sign-in. Where that is in a store of its own, a crash in
   * between may send a mail about a right password only, but never loses one.
   * @param at.interaction the sign-in. However often it is submitted, it sends one mail.
   * @param at.userAgent the header; only the families of browser and system leave this function.
   */
  note(
    tx: Transaction,
    account: AccountRecord,
    at: { readonly interaction: string; readonly userAgent: string | undefined },
  ): Promise<void>;
}

export function createNewBrowsers({
  storage,
  keys,
  sealer,
  clock,
  mailDeployment,
  onMail,
}: SignInNotices): NewBrowsers {
  return {
    async note(tx, account, { interaction, userAgent }) {
      const { sub } = account;
      const now = clock.now();
      const mail =
        mailDeployment &&
        noticeTo(account, {
          kind: "new-browser",
          deployment: mailDeployment,
          at: now,
          params: families(userAgent),
        });
      const id = hmac(keys.rateLimits, JSON.stringify(["new browser", interaction, sub]));
      if (await storage.signIns.noteNewBrowser(tx, sub, id, mail && { mail, sealer })) tx.afterCommit(onMail);
    },
  };
}

/** Words from fixed lists, so that no text of the header gets into a mail. */
function families(userAgent: string | undefined): Record<string, string> {
  const browser = browserFamily(userAgent);
  const system = systemFamily(userAgent);
  return {
    ...(browser !== undefined && browser !== "other" && { browser }),
    ...(system !== undefined && { system }),
  };
}
