/**
 * The code that guards what an account signs in with: sent to the confirmed address before an account without a second factor
 * gets one, or an identity of a provider (decisions.md, The first factor, and Linking). A stolen password alone adds nothing.
 */
import { randomUUID } from "node:crypto";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import type { ConfirmationPurpose } from "../../records/people/confirmation-kinds.ts";
import type { MailKind } from "../../records/people/mail-kinds.ts";
import { isDisabled, stateOf } from "../account.ts";
import { normalName } from "../names.ts";
import type { Unproven } from "../people/confirmations.ts";
import { type AskedAt, askedFor, callerAs, type Limited, mailWith } from "../people/requests.ts";
import type { AccountServices } from "../services.ts";
import { type FactorState, factorStateOf, isStill } from "./factor.ts";
import { guardAddress } from "./factor-writer.ts";

/** What a code is for. */
interface GuardedBy {
  /** The sign-in or session that waits for the code: the id of the interaction, or the `uid` of the session. */
  readonly subject: string;
  /** What it allows there, such as the id of an identity: a code for something else is not accepted. Default: no more. */
  readonly what?: string;
  /** For the text of the mail. */
  readonly params?: Readonly<Record<string, string>>;
}

export interface SentGuardCode {
  readonly kind: "sent";
  /** The address, shortened: it may be one that only the owner knows. */
  readonly to: string;
}

export interface GuardCodes {
  /**
   * Sends a code to the confirmed address, or to the one before it for seven days after a change. An address that is not
   * confirmed gets it as well, and the code then confirms it.
   */
  send(account: AccountRecord, by: GuardedBy, at: AskedAt): Promise<SentGuardCode | Limited>;
  /** Uses a code up. @param code as typed. `gone`: the account has changed since, or the code was for something else. */
  prove(
    sub: string,
    by: GuardedBy,
    code: string,
    at: AskedAt,
  ): Promise<{ readonly kind: "proven" } | Unproven>;
}

/** The account that a code was sent for, and its state then. */
interface CodeFor {
  readonly sub: string;
  readonly as: FactorState;
  readonly what: string;
}

export function createGuardCodes(
  services: Pick<AccountServices, "storage" | "clock" | "accounts" | "confirmations" | "limits" | "audit">,
  { purpose, mail: kind }: { readonly purpose: ConfirmationPurpose; readonly mail: MailKind },
): GuardCodes {
  const { storage, clock, accounts, confirmations } = services;
  return {
    async send(account, { subject, what = "", params }, at) {
      const { sub, email } = account;
      const { email: to } = await storage.records.transact((tx) =>
        guardAddress(tx, confirmations, account, clock),
      );
      const asked = await askedFor(services, normalName(email), at, { limit: "mail", purpose: "factor" });
      if (asked.kind === "limited") return asked;
      const { allowed: isFree } = await asked.recipient(normalName(to));
      const mail = mailWith(services, {
        kind,
        // A disabled account gets none, and nobody is told.
        to: isFree && !isDisabled(account) ? to : "",
        locale: account.locale ?? at.locale,
        deployment: at.deployment,
        clientName: at.clientName,
      });
      await confirmations.issue<CodeFor>({
        purpose,
        subject,
        extra: { sub, as: factorStateOf(account), what },
        // Without a link, which would act in whatever browser opens it.
        mail({ code }) {
          const made = mail({ code, link: "" });
          return { ...made, params: { ...made.params, ...params } };
        },
      });
      return { kind: "sent", to: shortened(to) };
    },

    prove: (sub, { subject, what = "" }, code, at) =>
      confirmations.prove<CodeFor, { readonly kind: "proven" } | Unproven>(
        purpose,
        { subject },
        { code },
        async (pending, tx) => {
          const current = await tx.get(ACCOUNT.ref(sub));
          pending.remove();
          const { extra } = pending;
          if (
            current === undefined ||
            extra.sub !== sub ||
            extra.what !== what ||
            !isStill(current, extra.as)
          )
            return { kind: "gone" };
          if (!current.email_verified) {
            const undo = {
              id: randomUUID(),
              ...confirmations.prepare({ purpose: "address-undo", subject: sub, extra }),
            };
            await accounts.changeAddress(tx, sub, current.email, stateOf(current), undo, callerAs(sub, at));
          }
          return { kind: "proven" };
        },
      ),
  };
}

/** `ada@example.com` as `a…@example.com`. */
function shortened(address: string): string {
  const [first = ""] = address;
  return `${first}…${address.slice(address.lastIndexOf("@"))}`;
}
