/** Forgotten passwords: a mail to the stored address lets its owner choose a new password. */
import type { ConfirmationProof, Unproven } from "./confirmations.ts";
import type { AskedAt, FieldProblem, Limited } from "./registrations.ts";

/** The link, which works in any browser, or the code, which works where the running sign-in waits for it. */
export type ResetProof =
  | Extract<ConfirmationProof, { readonly link: string }>
  | (Extract<ConfirmationProof, { readonly code: string }> & { readonly interaction: string });

export type ResetFinished =
  | { readonly kind: "done"; readonly sub: string }
  | { readonly kind: "refused-password"; readonly problem: FieldProblem }
  | Unproven;

/** Each call rejects with `StorageUnavailable` when the storage fails. */
export interface PasswordResets {
  /**
   * Sends code and link to the stored address of the account with this name. The same work, answer and time for a name
   * that no account has. An earlier reset of the account ends.
   * @param interaction the running sign-in that waits for the code; `undefined`: only the link works.
   * @param login a username or an e-mail address, as typed.
   */
  start(
    interaction: string | undefined,
    login: string,
    at: AskedAt,
  ): Promise<{ readonly kind: "sent" } | Limited>;
  /** Whether `finish` would take this proof. Does not use it up, but a wrong code costs a try. */
  check(
    proof: ResetProof,
  ): Promise<{ readonly kind: "valid"; readonly interaction: string | undefined } | Unproven>;
  /**
   * Sets the password, ends all codes, tokens and sessions of the account, and tells its owner by mail. A refused
   * password does not use up the proof.
   */
  finish(proof: ResetProof, password: string, at: AskedAt): Promise<ResetFinished>;
}
