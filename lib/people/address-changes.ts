/** Changes of the e-mail address: it changes when the person shows that they read mail at the new one. */
import type { ConfirmationProof, Unproven } from "./confirmations.ts";
import type { AskedAt, Limited } from "./registrations.ts";

export type AddressChangeStarted =
  /** Mail is on its way to the new address, also when it belongs to another account: it says so there. */
  | { readonly kind: "sent" }
  /** It is no e-mail address. */
  | { readonly kind: "invalid" }
  | { readonly kind: "gone" }
  | Limited;

/** Each call rejects with `StorageUnavailable` when the storage fails. */
export interface AddressChanges {
  /**
   * Sends code and link to the new address. An earlier change of this account ends. Ask for a recent sign-in first.
   * `gone`: there is no such account.
   */
  start(sub: string, address: string, at: AskedAt): Promise<AddressChangeStarted>;
  /** The new address that waits to be confirmed. */
  pending(sub: string): Promise<{ readonly email: string } | undefined>;
  /** Changes the address and tells the old one by mail. Call it only in a browser that is signed in as this account. */
  confirm(
    sub: string,
    proof: ConfirmationProof,
    at: AskedAt,
  ): Promise<{ readonly kind: "changed" } | Unproven>;
  /** Ends the change that waits, if one does. */
  cancel(sub: string): Promise<void>;
}
