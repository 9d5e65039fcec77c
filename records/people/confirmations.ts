/** What waits for a person to confirm: its records, and how they are found. */
import type { Ref } from "../../adapters/record-store.ts";
import type { StoredMail } from "./mail-kinds.ts";
import { mailRecord } from "./mail-kinds.ts";
import { defineKind, type Kind } from "../kinds.ts";
import { Changes, type Read, type Records } from "../records.ts";

/** What a code or link confirms. One made for one purpose is unknown to the others. */
export type ConfirmationPurpose = "registration" | "password-reset" | "address-change" | "address-undo";

/** A confirmation as it is stored. Times are in milliseconds since the epoch. */
export interface StoredConfirmation {
  readonly purpose: ConfirmationPurpose;
  /**
   * The `sub` of the account; for a registration, its interaction; for an unknown name, a digest of it; for an undo, the
   * id of the change.
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
}

/** What a confirmation is sealed for. */
export const confirmationContext = (purpose: ConfirmationPurpose, subject: string): string =>
  `confirmation ${JSON.stringify([purpose, subject])}`;

export const CONFIRMATION: Kind<StoredConfirmation, "link" | "interaction"> = defineKind({
  name: "confirmation",
  holds:
    "what a code or link in mail allows: a registration, a password reset, a change of address, or undoing one",
  key: "its purpose and its subject: a `sub`, or the id of a sign-in or of a change",
  keyOf: ({ purpose, subject }) => [purpose, subject],
  index: {
    link: ({ link }) => [{ at: link }],
    interaction: ({ purpose, interaction, createdAt }) =>
      interaction === null ? [] : [{ at: [purpose, interaction], order: createdAt }],
  },
  expires: "an hour after the mail; undoing a change of address: seven days after the change",
  expiresAt: ({ expiresAt }) => expiresAt,
  sealed: ({ sealed, ...rest }, replace) => ({
    ...rest,
    sealed: replace(confirmationContext(rest.purpose, rest.subject), sealed),
  }),
  store: "storage",
  exported: true,
  personal:
    "the `sub`; sealed with `keys.secrets`: a new or an earlier e-mail address, and what was entered at registration with the password hash",
});

/** Where a confirmation is looked for. */
export type ConfirmationPlace =
  | { readonly purpose: ConfirmationPurpose; readonly subject: string }
  /** The sign-in that waits for it; of several, the newest. */
  | { readonly purpose: ConfirmationPurpose; readonly interaction: string }
  /** The HMAC of its link. */
  | { readonly link: string };

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface ConfirmationStore {
  find(place: ConfirmationPlace): Promise<Read<StoredConfirmation> | undefined>;
  /** Stores it in place of an earlier one with the same purpose and subject, and mail with it. */
  put(confirmation: StoredConfirmation, mail?: StoredMail): Promise<void>;
  /**
   * Writes it on condition that the stored one has this version.
   * @throws ConditionFailed if it was used, replaced or tried since, or has expired.
   */
  replace(version: string, after: StoredConfirmation, mail?: StoredMail): Promise<void>;
  /**
   * Removes it, if there is one.
   * @param version the condition. Default: none.
   * @throws ConditionFailed as {@link replace} does.
   */
  remove(purpose: ConfirmationPurpose, subject: string, version?: string): Promise<void>;
}

export function confirmationRef(purpose: ConfirmationPurpose, subject: string): Ref {
  return CONFIRMATION.ref([purpose, subject]);
}

export function createConfirmationStore(records: Records): ConfirmationStore {
  return {
    async find(place) {
      if ("subject" in place) return records.find(confirmationRef(place.purpose, place.subject));
      const query =
        "link" in place
          ? CONFIRMATION.where("link", place.link)
          : CONFIRMATION.where("interaction", [place.purpose, place.interaction]);
      const [found] = await records.list<StoredConfirmation>({ ...query, descending: true }, 1);
      return found;
    },
    async put(confirmation, mail) {
      const changes = new Changes();
      changes.add(CONFIRMATION.record(confirmation));
      if (mail !== undefined) changes.add(mailRecord(mail));
      await records.commit(changes);
    },
    async replace(version, after, mail) {
      const changes = new Changes();
      changes.write(CONFIRMATION.record(after), { version });
      if (mail !== undefined) changes.add(mailRecord(mail));
      await records.commit(changes);
    },
    async remove(purpose, subject, version) {
      const changes = new Changes();
      const ref = confirmationRef(purpose, subject);
      if (version === undefined) changes.drop(ref);
      else changes.delete(ref, { version });
      await records.commit(changes);
    },
  };
}
