/** Changes of the e-mail address: it changes when the person shows that they read mail at the new one. */
import { randomUUID } from "node:crypto";
import { type AccountState, isDisabled, stateOf } from "../account.ts";
import { canonicalEmail, enteredEmailProblem, normalName } from "../names.ts";
import { onlyProvider } from "../providers.ts";
import { NameTaken } from "../../core/errors.ts";
import type { ConfirmationProof, Unproven } from "./confirmations.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { type AskedAt, callerAs, askedFor, type Limited, mailWith, type PeopleServices } from "./requests.ts";

type AddressChangeStarted =
  /** Mail is on its way to the new address. If another account has that address, the mail says so. */
  | { readonly kind: "sent" }
  /** Not an e-mail address. */
  | { readonly kind: "invalid" }
  /** There is no such account, or its address is its organization's: it signs in at a provider only. */
  | { readonly kind: "gone" }
  | Limited;

/** Each call rejects with `StorageUnavailable` when the storage fails. */
export interface AddressChanges {
  /** Sends code and link to the new address. An earlier change of this account ends. Ask for a recent sign-in first. */
  start(sub: string, address: string, at: AskedAt): Promise<AddressChangeStarted>;
  /** The new address that waits to be confirmed. */
  pending(sub: string): Promise<{ readonly email: string } | undefined>;
  /**
   * Changes the address and notifies the old one by mail, with a link that undoes the change: `limited` if there were so
   * many changes that there can be no further link. Call it only in a browser that is signed in as this account.
   */
  confirm(
    sub: string,
    proof: ConfirmationProof,
    at: AskedAt,
  ): Promise<{ readonly kind: "changed" } | Limited | Unproven>;
  /** Cancels the pending change, if there is one. */
  cancel(sub: string): Promise<void>;
  /**
   * Undoes a change with the link from the mail to the old address, within seven days and in any browser: the address is
   * as it was before, also after further changes, and all codes, tokens, sessions and the password end.
   * @returns `undone` with the token of a link to choose a new password, for this browser; `taken`: another account has
   *   the address; the link works again once that account gives it up.
   */
  undo(
    link: string,
    at: AskedAt,
  ): Promise<
    { readonly kind: "undone"; readonly reset: string } | { readonly kind: "taken" | "blocked" } | Unproven
  >;
}

/** The new address, and the account as it was when the person asked. */
interface NewAddress {
  readonly email: string;
  readonly as: AccountState;
}

/** The account whose address changed, and its earlier address. */
export interface EarlierAddress {
  readonly sub: string;
  readonly email: string;
}

/** @param domains the domains that need no dot. */
export function createAddressChanges(services: PeopleServices, domains: readonly string[]): AddressChanges {
  const { storage, accounts, configuration, confirmations } = services;
  const { directory } = storage;
  const purpose = "address-change";

  return {
    async start(sub, address, at) {
      if (enteredEmailProblem(address, domains) !== undefined) return { kind: "invalid" };
      const email = canonicalEmail(address);
      const record = await directory.findAccount(sub);
      if (record === undefined || isDisabled(record)) return { kind: "gone" };
      if (onlyProvider(configuration, record) !== undefined) return { kind: "gone" };
      const asked = await askedFor(services, normalName(email), at, { limit: "mail", purpose: "address" });
      if (asked.kind === "limited") return asked;
      const { record: holder } = asked;
      const { allowed: isFree } = await asked.recipient(normalName(email));
      const isTaken = holder !== undefined && holder.sub !== sub;
      const kind = isTaken ? "known-address" : "confirm-address";
      const locale = (isTaken ? holder : record).locale ?? at.locale;
      const mail = mailWith(services, { kind, to: isFree ? email : "", locale, deployment: at.deployment });
      await confirmations.issue<NewAddress>({
        purpose,
        subject: sub,
        extra: { email, as: stateOf(record) },
        // If the address is taken, nobody gets a code, not even its owner.
        mail: (secrets) => mail(isTaken ? { code: "", link: "" } : secrets),
      });
      return { kind: "sent" };
    },

    async pending(sub) {
      const found = await confirmations.find<NewAddress>({ purpose, subject: sub });
      return found && { email: found.extra.email };
    },

    confirm: (sub, proof, at) =>
      confirmations.prove<NewAddress, { readonly kind: "changed" } | Limited | Unproven>(
        purpose,
        { subject: sub },
        proof,
        async (pending, tx) => {
          const { email, as } = pending.extra;
          const current = await tx.get(ACCOUNT.ref(sub));
          if (current !== undefined && onlyProvider(configuration, current) !== undefined) {
            pending.remove();
            return { kind: "gone" };
          }
          const id = randomUUID();
          const extra: EarlierAddress = { sub, email: as.email };
          const undo = { id, ...confirmations.prepare({ purpose: "address-undo", subject: id, extra }) };
          try {
            const result = await accounts.changeAddress(tx, sub, email, as, undo, callerAs(sub, at));
            // Later the same code works.
            if (result.kind === "limited") return result;
            pending.remove();
            return result;
          } catch (error) {
            if (!(error instanceof NameTaken)) throw error;
          }
          // The address now belongs to another account.
          pending.remove();
          return { kind: "gone" };
        },
      ),

    cancel: (sub) => confirmations.cancel(purpose, sub),

    undo: (link, at) =>
      confirmations.prove<EarlierAddress, Awaited<ReturnType<AddressChanges["undo"]>>>(
        "address-undo",
        undefined,
        { link },
        async (pending, tx) => {
          const { sub, email } = pending.extra;
          try {
            const record = await accounts.undoAddress(tx, sub, pending.subject, email, callerAs(sub, at));
            if (record === undefined) {
              const current = await tx.get(ACCOUNT.ref(sub));
              return { kind: current !== undefined && isDisabled(current) ? "blocked" : "gone" };
            }
            pending.remove();
            const extra = stateOf(record);
            const reset = confirmations.prepare({ purpose: "password-reset", subject: sub, extra });
            tx.overwrite(reset.record);
            return { kind: "undone", reset: reset.link };
          } catch (error) {
            if (!(error instanceof NameTaken)) throw error;
            return { kind: "taken" };
          }
        },
      ),
  };
}
