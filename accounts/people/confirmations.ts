/**
 * Confirmations: a code to type and a link to follow, sent by mail, which show that the person reads that mail. Each
 * works once. Every try of a code is one commit on the version that it was compared with, so parallel tries count
 * one after the other, and a use is part of the commit of the change that it allows.
 */
import { randomBytes } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { UsedRecord } from "../../records/directory/directory.ts";
import type { RecordData } from "../../adapters/record-store.ts";
import { ConditionFailed, UsedUp } from "../../core/errors.ts";
import { type NewMail, sealMail } from "../../records/people/mail-kinds.ts";
import type { Read } from "../../records/records.ts";
import { hmac, isEqual, type Sealer, type SecretKey } from "../../core/sealing.ts";
import {
  CONFIRMATION,
  type ConfirmationPlace,
  type ConfirmationPurpose,
  confirmationContext,
  confirmationRef,
  type ConfirmationStore,
  type StoredConfirmation,
} from "../../records/people/confirmations.ts";

/** What the person presents: the code as typed, or the token of the link. */
export type ConfirmationProof = { readonly code: string } | { readonly link: string };

/** The code and the token of the link, in plain text: for the mail and nothing else. */
export interface ConfirmationSecrets {
  /** 8 characters of Crockford's Base32: 40 bits. */
  readonly code: string;
  /** 43 characters of Base64url: 256 bits. */
  readonly link: string;
}

export interface NewConfirmation<Extra extends object> {
  readonly purpose: ConfirmationPurpose;
  /** The `sub` of the account; for a registration, its interaction. A newer one of a subject replaces the older one. */
  readonly subject: string;
  /** The sign-in that waits for the code. */
  readonly interaction?: string | undefined;
  /** What happens once it is confirmed. Stored sealed. */
  readonly extra: Extra;
  /** The mail that brings it, stored in the same commit. */
  readonly mail: (secrets: ConfirmationSecrets) => NewMail;
}

/** One that only its link proves. */
export type NewLink<Extra extends object> = Pick<NewConfirmation<Extra>, "purpose" | "subject" | "extra">;

/** A link for the mail about a change, and the record that makes it work: to be stored in the commit of the change. */
export interface PreparedLink {
  readonly link: string;
  readonly record: RecordData;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** A confirmation that waits. */
export interface Pending<Extra> {
  readonly purpose: ConfirmationPurpose;
  readonly subject: string;
  readonly interaction: string | undefined;
  readonly extra: Extra;
  /** Whether its code or link was accepted already: see {@link Confirmations.keep}. */
  readonly confirmed: boolean;
  readonly triesLeft: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  /** Uses it up in the commit of a change: see `AccountDecision.uses`. */
  readonly use: UsedRecord;
}

/** Why a proof was not accepted. */
export type Unproven =
  /** The code is wrong. With no tries left, only the link works, or a new code. */
  | { readonly kind: "wrong"; readonly triesLeft: number }
  /** There is no such confirmation: it was used or replaced, or it has expired. */
  | { readonly kind: "gone" };

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface Confirmations {
  /** Stores a confirmation for an hour, in place of an earlier one, together with its mail. */
  issue<Extra extends object>(confirmation: NewConfirmation<Extra>): Promise<void>;
  /** Makes a link, and stores nothing. */
  prepare<Extra extends object>(wanted: NewLink<Extra>): PreparedLink;
  /** Stores a confirmation without a mail, in place of an earlier one. @returns the token of the link, for this browser. */
  hand<Extra extends object>(wanted: NewLink<Extra>): Promise<string>;
  /** Replaces code, link and expiry. `false` if it was used, replaced or tried since it was read. */
  renew<Extra extends object>(
    pending: Pending<Extra>,
    mail: NewConfirmation<Extra>["mail"],
  ): Promise<boolean>;
  find<Extra>(place: ConfirmationPlace): Promise<Pending<Extra> | undefined>;
  /** What a link is for, without using it. @param link the token as it came, which may be anything. */
  findByLink<Extra>(link: string): Promise<Pending<Extra> | undefined>;
  /**
   * Checks a proof and, if it is right, lets `act` use it up. A wrong code costs a try.
   * @param where the subject or the interaction that the proof must belong to; a link to a reset needs neither.
   * @param act commits with `pending.use`. If the confirmation has changed by then, the proof is checked again. If it
   *   commits nothing, the confirmation stays, and the proof works again.
   */
  prove<Extra, T>(
    purpose: ConfirmationPurpose,
    where: { readonly subject: string } | { readonly interaction: string } | undefined,
    proof: ConfirmationProof,
    act: (pending: Pending<Extra>) => Promise<T>,
  ): Promise<T | Unproven>;
  /**
   * Keeps a proven confirmation, because the person has to change something else first.
   * @throws UsedUp if it was used, replaced or tried since it was read.
   */
  keep<Extra>(pending: Pending<Extra>): Promise<void>;
  /** Removes one that can't be used any more. @throws UsedUp as {@link keep} does. */
  discard<Extra>(pending: Pending<Extra>): Promise<void>;
  /** The subject of a confirmation for a name that no account has: it can't be proven, and takes the same work. */
  nobody(name: string): string;
  /** Removes what waits for this purpose, if anything does. */
  cancel(purpose: ConfirmationPurpose, subject: string): Promise<void>;
}

/** Milliseconds for which a code and a link work. */
export const CONFIRMATION_LIFETIME = 3_600_000;
/** Milliseconds for which the link works that undoes a change of address. */
const UNDO_LIFETIME = 7 * 86_400_000;
/** How many wrong codes end a code. */
export const CODE_TRIES = 5;

/** Crockford's Base32: without I, L, O and U. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE = /^[0-9A-HJKMNP-TV-Z]{8}$/;
const CODE_LENGTH = 8;
const LINK_BYTES = 32;
/** Longer than a code with spaces and dashes. What is longer is not even normalised. */
const LONGEST_TYPED = 64;

function newSecrets(): ConfirmationSecrets {
  const code = [...randomBytes(CODE_LENGTH)].map((byte) => ALPHABET[byte % ALPHABET.length]).join("");
  return { code, link: randomBytes(LINK_BYTES).toString("base64url") };
}

/**
 * A code as typed: case, spaces and dashes don't count, O is 0, I and L are 1. `undefined` if it can't be one: that is
 * a slip, not a guess.
 */
export function normaliseCode(typed: string): string | undefined {
  if (typed.length > LONGEST_TYPED) return undefined;
  const code = typed
    .toWellFormed()
    .normalize("NFKC")
    .toUpperCase()
    .replaceAll(/[\s\p{Pd}]/gu, "")
    .replaceAll("O", "0")
    .replaceAll(/[IL]/g, "1");
  return CODE.test(code) ? code : undefined;
}

/** Waits for a conditional write. @throws UsedUp when its condition did not hold. */
async function unlessChanged(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    throw error instanceof ConditionFailed ? new UsedUp() : error;
  }
}

export interface ConfirmationsOptions {
  readonly store: ConfirmationStore;
  readonly clock: Clock;
  readonly sealer: Sealer;
  /** The HMAC key of codes and links. */
  readonly key: SecretKey;
  /** Called after a commit that stored mail. */
  readonly onMail?: () => void;
}

export function createConfirmations({
  store,
  clock,
  sealer,
  key,
  onMail,
}: ConfirmationsOptions): Confirmations {
  const codeHmac = (purpose: ConfirmationPurpose, subject: string, code: string): string =>
    hmac(key, JSON.stringify(["code", purpose, subject, code]));
  const linkHmac = (link: string): string => hmac(key, JSON.stringify(["link", link]));

  /** A record with new secrets. */
  function made<Extra extends object>({
    purpose,
    subject,
    interaction,
    extra,
  }: Omit<NewConfirmation<Extra>, "mail">) {
    const now = Math.floor(clock.now());
    const secrets = newSecrets();
    const record: StoredConfirmation = {
      purpose,
      subject,
      interaction: interaction ?? null,
      code: codeHmac(purpose, subject, secrets.code),
      link: linkHmac(secrets.link),
      triesLeft: CODE_TRIES,
      confirmed: false,
      sealed: sealer.seal(confirmationContext(purpose, subject), JSON.stringify(extra)),
      createdAt: now,
      expiresAt: now + (purpose === "address-undo" ? UNDO_LIFETIME : CONFIRMATION_LIFETIME),
    };
    return { record, secrets };
  }

  function mailed<Extra extends object>({ mail, ...confirmation }: NewConfirmation<Extra>) {
    const { record, secrets } = made(confirmation);
    return { record, mail: sealMail(sealer, mail(secrets), record.createdAt) };
  }

  function opened<Extra>({ value, version }: Read<StoredConfirmation>): Pending<Extra> {
    const { purpose, subject, interaction, confirmed, triesLeft, expiresAt } = value;
    return {
      purpose,
      subject,
      interaction: interaction ?? undefined,
      extra: JSON.parse(sealer.open(confirmationContext(purpose, subject), value.sealed)),
      confirmed,
      triesLeft,
      expiresAt,
      use: { ref: confirmationRef(purpose, subject), version },
    };
  }

  const read = (place: ConfirmationPlace): Promise<Read<StoredConfirmation> | undefined> => store.find(place);

  function readLink(link: string): Promise<Read<StoredConfirmation> | undefined> {
    const isForm = /^[\w-]{43}$/.test(link);
    return isForm ? read({ link: linkHmac(link) }) : Promise.resolve(undefined);
  }

  /** Compares a code with the record that was read. A wrong one costs a try, unless the record has changed since. */
  async function compare(found: Read<StoredConfirmation>, typed: string): Promise<Unproven | undefined> {
    const { value } = found;
    const { purpose, subject, triesLeft } = value;
    const code = normaliseCode(typed);
    if (triesLeft === 0 || code === undefined) return { kind: "wrong", triesLeft };
    if (isEqual(codeHmac(purpose, subject, code), value.code)) return undefined;
    await unlessChanged(store.replace(found.version, { ...value, triesLeft: triesLeft - 1 }));
    return { kind: "wrong", triesLeft: triesLeft - 1 };
  }

  return {
    async issue(confirmation) {
      const { record, mail } = mailed(confirmation);
      await store.put(record, mail);
      onMail?.();
    },

    prepare(wanted) {
      const { record, secrets } = made(wanted);
      return { link: secrets.link, record: CONFIRMATION.record(record), expiresAt: record.expiresAt };
    },

    async hand(wanted) {
      const { record, secrets } = made(wanted);
      await store.put(record);
      return secrets.link;
    },

    async renew({ purpose, subject, interaction, extra, use }, mail) {
      const next = mailed({ purpose, subject, interaction, extra, mail });
      try {
        await store.replace(use.version, next.record, next.mail);
      } catch (error) {
        if (error instanceof ConditionFailed) return false;
        throw error;
      }
      onMail?.();
      return true;
    },

    async find<Extra>(place: ConfirmationPlace) {
      const found = await read(place);
      return found && opened<Extra>(found);
    },

    async findByLink<Extra>(link: string) {
      const found = await readLink(link);
      return found && opened<Extra>(found);
    },

    async prove<Extra, T>(
      purpose: ConfirmationPurpose,
      where: { readonly subject: string } | { readonly interaction: string } | undefined,
      proof: ConfirmationProof,
      act: (pending: Pending<Extra>) => Promise<T>,
    ): Promise<T | Unproven> {
      for (;;) {
        try {
          const found =
            "link" in proof ? await readLink(proof.link) : await (where && read({ purpose, ...where }));
          if (found === undefined || !belongs(found.value, purpose, where)) return { kind: "gone" };
          const unproven = "code" in proof ? await compare(found, proof.code) : undefined;
          return unproven ?? (await act(opened<Extra>(found)));
        } catch (error) {
          // It changed in between: a newer one, another try, or another use, which ends it.
          if (!(error instanceof UsedUp)) throw error;
        }
      }
    },

    async keep({ purpose, subject, use }) {
      const found = await read({ purpose, subject });
      if (found?.version !== use.version) throw new UsedUp();
      await unlessChanged(store.replace(use.version, { ...found.value, confirmed: true }));
    },

    discard: ({ purpose, subject, use }) => unlessChanged(store.remove(purpose, subject, use.version)),

    nobody: (name) => hmac(key, JSON.stringify(["nobody", name])),

    cancel: (purpose, subject) => store.remove(purpose, subject),
  };
}

function belongs(
  { purpose, subject, interaction }: StoredConfirmation,
  wanted: ConfirmationPurpose,
  where: { readonly subject: string } | { readonly interaction: string } | undefined,
): boolean {
  if (purpose !== wanted) return false;
  if (where === undefined) return true;
  return "subject" in where ? subject === where.subject : interaction === where.interaction;
}
