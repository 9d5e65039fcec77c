/** Mail to the owner of an account about a sign-in at a browser where it has not been used before. */
import { browserFamily, systemFamily } from "../audit/origin.ts";
import type { DeploymentKind } from "../../config/configuration.ts";
import type { Clock } from "../clock.ts";
import type { AccountRecord } from "../directory/directory.ts";
import { type NewMail, sealMail } from "../mail/records.ts";
import { hmac, type Sealer, type SecretKey } from "../sealing.ts";
import type { SignInStore } from "../sign-ins/records.ts";

export interface NewBrowsers {
  /**
   * Notes a sign-in at a browser without a device cookie of the account, and tells its owner, unless this is the first
   * sign-in of the account. Call it once the password is right, before the sign-in is stored: a crash in between sends a
   * mail about a right password, and loses none.
   * @param at.interaction the sign-in. However often it is submitted, it sends one mail.
   * @param at.userAgent the header; only the families of browser and system leave this function.
   */
  note(
    account: AccountRecord,
    at: { readonly interaction: string; readonly userAgent: string | undefined },
  ): Promise<void>;
}

/** Milliseconds until the notice is too old to be of use. */
const NOTICE_LIFETIME = 3 * 86_400_000;

export interface NewBrowsersOptions {
  readonly store: SignInStore;
  /** The HMAC key for the ids of mails. */
  readonly key: SecretKey;
  readonly sealer: Sealer;
  readonly clock: Clock;
  /** The deployment that mail leads to; `undefined` if no mail is sent. */
  readonly mailDeployment: DeploymentKind | undefined;
  /** Called after a commit that stored mail. */
  readonly onMail: () => void;
}

export function createNewBrowsers({
  store,
  key,
  sealer,
  clock,
  mailDeployment,
  onMail,
}: NewBrowsersOptions): NewBrowsers {
  return {
    async note({ sub, email, locale }, { interaction, userAgent }) {
      const now = clock.now();
      const mail: NewMail | undefined = mailDeployment && {
        kind: "new-browser",
        to: email,
        ...(typeof locale === "string" && { locale }),
        deployment: mailDeployment,
        params: { at: String(now), ...families(userAgent) },
        expiresAt: now + NOTICE_LIFETIME,
      };
      const id = hmac(key, JSON.stringify(["new browser", interaction, sub]));
      if (await store.noteNewBrowser(sub, id, mail && sealMail(sealer, mail, now, id))) onMail();
    },
  };
}

/** Words of fixed lists: nothing of the header gets into a mail. */
function families(userAgent: string | undefined): Record<string, string> {
  const browser = browserFamily(userAgent);
  const system = systemFamily(userAgent);
  return {
    ...(browser !== undefined && browser !== "other" && { browser }),
    ...(system !== undefined && { system }),
  };
}
