/** What waits for a person to confirm. */
import { defineKind, type Kind } from "../kinds.ts";

/** What a code or link confirms. It is valid for this purpose only. */
export const CONFIRMATION_PURPOSES = [
  "registration",
  "password-reset",
  "address-change",
  "address-undo",
  "factor-enrolment",
  "factor-undo",
  "identity-link",
  "identity-undo",
  "sign-in",
  "invitation",
] as const;

export type ConfirmationPurpose = (typeof CONFIRMATION_PURPOSES)[number];

/** These live for seven days. They outlive a restore, because what they undo is in the backup as well. */
export const UNDOING: ReadonlySet<ConfirmationPurpose> = new Set([
  "address-undo",
  "factor-undo",
  "identity-undo",
]);

/** A confirmation as it is stored. Times are in milliseconds since the epoch. */
export interface StoredConfirmation {
  readonly purpose: ConfirmationPurpose;
  /**
   * The `sub` of the account; for a registration and a sign-in, its interaction; for an unknown name, a digest of it; for the
   * undo of a change of address, the id of the change; for an invitation, its id; for the enrolment of a factor or the linking of an identity, the sign-in or session
   * that waits for it; for the undo of a linking, the id of the identity.
   */
  readonly subject: string;
  /** The sign-in that waits for the code; `null` if none does. */
  readonly interaction: string | null;
  /** HMACs: neither the code nor the link is stored. */
  readonly code: string;
  readonly link: string;
  /** How many more codes may be tried. The link works without one. */
  readonly triesLeft: number;
  /** Whether the address is confirmed already, and the person still has to change something else. */
  readonly confirmed: boolean;
  /** Sealed JSON: what happens once it is confirmed. */
  readonly sealed: string;
  readonly createdAt: number;
  readonly expiresAt: number;
  /** Kept beside newer ones of its subject: the mail that brought it was the last one for a while. */
  readonly lasting?: true;
}

/** The key of a confirmation. A subject has one that newer ones replace, and may have one that lasts. */
export const confirmationKey = ({
  purpose,
  subject,
  lasting,
}: Pick<StoredConfirmation, "purpose" | "subject" | "lasting">): string[] =>
  lasting ? [purpose, subject, "lasting"] : [purpose, subject];

/** The sealing context of a confirmation. */
export const confirmationContext = (purpose: ConfirmationPurpose, subject: string): string =>
  `confirmation ${JSON.stringify([purpose, subject])}`;

export const CONFIRMATION: Kind<StoredConfirmation, "link" | "interaction"> = defineKind({
  name: "confirmation",
  holds:
    "what a code or link in mail allows: a sign-in, a registration, an account for somebody who is invited, a password reset, a change of address, a first second factor or the linking of an identity, or undoing one of the last three",
  key: "its purpose and its subject: a `sub`, or the id of a sign-in, of a session, of a change, of an identity or of an invitation; and whether it lasts",
  keyOf: (confirmation: StoredConfirmation) => confirmationKey(confirmation),
  index: {
    link: ({ link }) => [{ at: link }],
    interaction: ({ purpose, subject, interaction, createdAt }) =>
      interaction === null || interaction === subject
        ? []
        : [{ at: [purpose, interaction], order: createdAt }],
  },
  indexFor: {
    link: "following the link in a mail",
    interaction: "typing the code of a password reset in the sign-in that waits for it",
  },
  expires:
    "an hour after the mail; a sign-in: ten minutes after it; the last reset for a while: when there can be another, after a day at most; undoing a change, and an invitation: seven days after it",
  expiresAt: ({ expiresAt }) => expiresAt,
  sealed: ({ sealed, ...rest }, replace) => ({
    ...rest,
    sealed: replace(confirmationContext(rest.purpose, rest.subject), sealed),
  }),
  store: "storage",
  exported: true,
  afterRestore: {
    becomes: "void, unless it undoes a change",
    change: (confirmation) => (UNDOING.has(confirmation.purpose) ? confirmation : undefined),
  },
  afterReset: "removed",
  personal:
    "the `sub`; sealed with `keys.secrets`: a new or an earlier e-mail address, and what was entered at registration with the password hash",
});
