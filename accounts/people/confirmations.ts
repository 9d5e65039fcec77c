/**
 * Confirmations: a code to type and a link to follow, sent by mail, which show that the person reads that mail. Each
 * works once. Every try of a code is a transaction, so parallel tries count one after the other, and a confirmation is
 * used up in the transaction of the change that it allows.
 */
import { type KeyObject, randomBytes } from "node:crypto";
import type { RecordData } from "../../adapters/record-store.ts";
import { hmac, isEqual } from "../../core/sealing.ts";
import {
  CONFIRMATION,
  confirmationContext,
  confirmationKey,
  type ConfirmationPurpose,
  type StoredConfirmation,
  UNDOING,
} from "../../records/people/confirmation-kinds.ts";
import { MAIL, type NewMail, sealMail } from "../../records/people/mail-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { StorageServices } from "../../records/services.ts";

/** The proof that the person presents: the code as typed, or the token of the link. */
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
  /** The `sub` of the account; for a registration and a sign-in, its interaction. A newer one of a subject replaces the older one. */
  readonly subject: string;
  /** The sign-in that waits for the code. */
  readonly interaction?: string | undefined;
  /** What happens once it is confirmed. Stored sealed. */
  readonly extra: Extra;
  /** Set if its mail is the last one for a while: see {@link Lasting}. */
  readonly lasting?: Lasting | undefined;
  /** The mail that brings it, stored in the same commit. */
  readonly mail: (secrets: ConfirmationSecrets) => NewMail;
}

/**
 * A limit stops further mail, so the last one works until there can be more, and newer ones don't replace it: nobody can
 * use up somebody else's mail and so keep the account from its owner.
 */
interface Lasting {
  /** How long it works at least, from now on. */
  readonly ms: number;
  /**
   * The subject whose lasting confirmation works as long, because this one goes to nobody. Default: this one is the
   * lasting one.
   */
  readonly of?: string | undefined;
}

/** A confirmation that only its link proves. */
type NewLink<Extra extends object> = Pick<NewConfirmation<Extra>, "purpose" | "subject" | "extra">;

/** A link for the mail about a change, and the record that makes it work: to be stored in the commit of the change. */
interface PreparedLink {
  readonly link: string;
  readonly record: RecordData;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** A pending confirmation. */
export interface Pending<Extra> {
  readonly purpose: ConfirmationPurpose;
  readonly subject: string;
  readonly interaction: string | undefined;
  readonly extra: Extra;
  /** Whether its code or link was already accepted: see {@link FoundConfirmation.keep}. */
  readonly confirmed: boolean;
  readonly triesLeft: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** A confirmation as a transaction has read it. Changes to it are committed with the rest of the transaction. */
export interface FoundConfirmation<Extra> extends Pending<Extra> {
  /** Removes it, because it was used or is no longer usable. */
  remove(): void;
  /**
   * Keeps it as proven: the person has something else to do first.
   * @param extra replaces what happens afterwards.
   */
  keep(extra?: Extra & object): void;
}

/** Which confirmation is meant. */
type ConfirmationQuery =
  | { readonly purpose: ConfirmationPurpose; readonly subject: string }
  /** The sign-in that waits for it; of several, the newest. */
  | { readonly purpose: ConfirmationPurpose; readonly interaction: string };

/** By the token of its link. */
interface ByLink {
  readonly link: string;
}

/** Why a proof was not accepted. */
export type Unproven =
  /** The code is wrong. With no tries left, only the link works, or a new code. */
  | { readonly kind: "wrong"; readonly triesLeft: number }
  /** There is no such confirmation: it was used or replaced, or it has expired. */
  | { readonly kind: "gone" };

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface Confirmations {
  /** Stores a confirmation for the time of its purpose, or longer if it is lasting, in place of an earlier one, together with its mail. */
  issue<Extra extends object>(confirmation: NewConfirmation<Extra>): Promise<void>;
  /** The same within a transaction. */
  issueWithin<Extra extends object>(within: Transaction, confirmation: NewConfirmation<Extra>): Promise<void>;
  /** Makes a link, and stores nothing. */
  prepare<Extra extends object>(wanted: NewLink<Extra>): PreparedLink;
  find<Extra>(by: ConfirmationQuery): Promise<Pending<Extra> | undefined>;
  /** Like `find`, inside a transaction. The commit doesn't depend on what it returns. */
  peek<Extra>(
    within: Transaction,
    purpose: ConfirmationPurpose,
    subject: string,
  ): Promise<Pending<Extra> | undefined>;
  /** What a link is for, without using it. @param link the token as it came, which may be anything. */
  findByLink<Extra>(link: string): Promise<Pending<Extra> | undefined>;
  /**
   * Replaces code, link and expiry, and sends them, if a confirmation is pending and not yet confirmed.
   * @returns whether one did.
   */
  renew(by: ConfirmationQuery, mail: NewConfirmation<object>["mail"]): Promise<boolean>;
  /** Decides about a confirmation in a transaction. @param act is called again after a conflict. */
  change<Extra, T>(
    by: ConfirmationQuery,
    act: (found: FoundConfirmation<Extra> | undefined, tx: Transaction) => T | Promise<T>,
  ): Promise<T>;
  /**
   * Checks a proof and, if it is right, lets `act` decide in the same transaction. A wrong code costs a try.
   * @param where the subject or the interaction that the proof must belong to; a link to a reset needs neither.
   * @param act removes or keeps the confirmation; otherwise it stays, and the proof works again. It is called again after
   *   a conflict, once the proof is checked again.
   */
  prove<Extra, T>(
    purpose: ConfirmationPurpose,
    where: { readonly subject: string } | { readonly interaction: string } | undefined,
    proof: ConfirmationProof,
    act: (found: FoundConfirmation<Extra>, tx: Transaction) => Promise<T>,
  ): Promise<T | Unproven>;
  /** The subject of a confirmation for a name that no account has: it can't be proven, and takes the same work. */
  nobody(name: string): string;
  /** Removes the pending confirmation for this purpose, if there is one. */
  cancel(purpose: ConfirmationPurpose, subject: string): Promise<void>;
}

/** How long a code and a link work. */
export const CONFIRMATION_LIFETIME_MS = 3_600_000;
/** How long a code that signs in works. */
export const SIGN_IN_CODE_LIFETIME_MS = 600_000;
/** How long a link works that undoes a change of address, or a first second factor. */
const UNDO_LIFETIME_MS = 7 * 86_400_000;
/** How long the link of an invitation works. */
export const INVITATION_LIFETIME_MS: number = 7 * 86_400_000;
/** How many wrong tries end a code. */
const CODE_TRIES = 5;

/** Crockford's Base32: without I, L, O and U. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE = /^[0-9A-HJKMNP-TV-Z]+$/;
const CODE_LENGTH = 8;
const LINK_BYTES = 32;
/** Longer than a code with spaces and dashes. Longer text is not even normalized. */
const MAX_TYPED_LENGTH = 64;

/** A random code that people can type: 5 bits a character. */
export function randomCode(length: number): string {
  return [...randomBytes(length)].map((byte) => ALPHABET[byte % ALPHABET.length]).join("");
}

function newSecrets(): ConfirmationSecrets {
  return { code: randomCode(CODE_LENGTH), link: randomBytes(LINK_BYTES).toString("base64url") };
}

/**
 * A code as typed: case, spaces and dashes don't count, O is 0, I and L are 1. `undefined` if it can't be one: that is
 * a slip, not a guess.
 * @param length of the code. Default: that of a code in mail.
 */
export function normalizeCode(typed: string, length: number = CODE_LENGTH): string | undefined {
  if (typed.length > MAX_TYPED_LENGTH) return undefined;
  const code = typed
    .toWellFormed()
    .normalize("NFKC")
    .toUpperCase()
    .replaceAll(/[\s\p{Pd}]/gu, "")
    .replaceAll("O", "0")
    .replaceAll(/[IL]/g, "1");
  return code.length === length && CODE.test(code) ? code : undefined;
}

function lifetimeMs(purpose: ConfirmationPurpose): number {
  if (purpose === "sign-in") return SIGN_IN_CODE_LIFETIME_MS;
  if (purpose === "invitation") return INVITATION_LIFETIME_MS;
  return UNDOING.has(purpose) ? UNDO_LIFETIME_MS : CONFIRMATION_LIFETIME_MS;
}

/** Either way two records change, so that an unknown name costs what a known one does. */
async function putLasting(tx: Transaction, record: StoredConfirmation, { ms, of }: Lasting): Promise<void> {
  const { purpose, subject } = record;
  const before = await tx.get(
    CONFIRMATION.ref(confirmationKey({ purpose, subject: of ?? subject, lasting: true })),
  );
  const expiresAt = Math.max(record.expiresAt, record.createdAt + ms, before?.expiresAt ?? 0);
  if (of === undefined) {
    tx.remove(CONFIRMATION.ref(confirmationKey(record)));
    tx.put(CONFIRMATION.record({ ...record, expiresAt, lasting: true }));
  } else {
    tx.overwrite(CONFIRMATION.record(record));
    if (before !== undefined) tx.put(CONFIRMATION.record({ ...before, expiresAt }));
  }
}

/**
 * @param key the HMAC key of codes and links.
 * @param onMail called after a commit that stored mail.
 */
export function createConfirmations(
  { storage, clock, sealer }: Pick<StorageServices, "storage" | "clock" | "sealer">,
  key: KeyObject,
  onMail: () => void,
): Confirmations {
  const { records } = storage;
  const codeHmac = (purpose: ConfirmationPurpose, subject: string, code: string): string =>
    hmac(key, JSON.stringify(["code", purpose, subject, code]));
  const sealed = (purpose: ConfirmationPurpose, subject: string, extra: object): string =>
    sealer.seal(confirmationContext(purpose, subject), JSON.stringify(extra));
  const linkHmac = (link: string): string => hmac(key, JSON.stringify(["link", link]));

  /** A record with new secrets. */
  function made<Extra extends object>({
    purpose,
    subject,
    interaction,
    extra,
  }: Omit<NewConfirmation<Extra>, "mail" | "lasting">): {
    readonly record: StoredConfirmation;
    readonly secrets: ConfirmationSecrets;
  } {
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
      sealed: sealed(purpose, subject, extra),
      createdAt: now,
      expiresAt: now + lifetimeMs(purpose),
    };
    return { record, secrets };
  }

  /** Stores a confirmation in place of an earlier one, with its mail. */
  async function put<Extra extends object>(
    tx: Transaction,
    { mail, lasting, ...confirmation }: NewConfirmation<Extra>,
  ): Promise<void> {
    const { record, secrets } = made(confirmation);
    if (lasting === undefined) tx.overwrite(CONFIRMATION.record(record));
    else await putLasting(tx, record, lasting);
    tx.create(MAIL.record(sealMail(sealer, mail(secrets), record.createdAt)));
    tx.afterCommit(() => onMail());
  }

  function opened<Extra>(value: StoredConfirmation): Pending<Extra> {
    const { purpose, subject, interaction, confirmed, triesLeft, expiresAt } = value;
    return {
      purpose,
      subject,
      interaction: interaction ?? undefined,
      extra: JSON.parse(sealer.open(confirmationContext(purpose, subject), value.sealed)),
      confirmed,
      triesLeft,
      expiresAt,
    };
  }

  /** Reads a confirmation, on condition that it does not change until the commit. */
  async function read(
    tx: Transaction,
    by: ByLink | ConfirmationQuery,
  ): Promise<StoredConfirmation | undefined> {
    if ("subject" in by) return tx.get(CONFIRMATION.ref([by.purpose, by.subject]));
    // A registration has its interaction as its subject.
    if ("interaction" in by && by.purpose === "registration")
      return tx.get(CONFIRMATION.ref([by.purpose, by.interaction]));
    const query =
      "link" in by
        ? CONFIRMATION.where("link", linkHmac(by.link))
        : CONFIRMATION.where("interaction", [by.purpose, by.interaction]);
    const [found = []] = await tx.list<StoredConfirmation>([{ ...query, descending: true, limit: 1 }]);
    return found[0] && tx.get(CONFIRMATION.ref(confirmationKey(found[0])));
  }

  function inTransaction<Extra>(tx: Transaction, value: StoredConfirmation): FoundConfirmation<Extra> {
    return {
      ...opened<Extra>(value),
      remove: () => tx.remove(CONFIRMATION.ref(confirmationKey(value))),
      keep: (extra) =>
        tx.put(
          CONFIRMATION.record({
            ...value,
            confirmed: true,
            ...(extra && { sealed: sealed(value.purpose, value.subject, extra) }),
          }),
        ),
    };
  }

  /** Compares a code. A wrong one costs a try. */
  function compare(tx: Transaction, value: StoredConfirmation, typed: string): Unproven | undefined {
    const { purpose, subject, triesLeft } = value;
    const code = normalizeCode(typed);
    if (triesLeft === 0 || code === undefined) return { kind: "wrong", triesLeft };
    if (isEqual(codeHmac(purpose, subject, code), value.code)) return undefined;
    tx.put(CONFIRMATION.record({ ...value, triesLeft: triesLeft - 1 }));
    return { kind: "wrong", triesLeft: triesLeft - 1 };
  }

  async function find<Extra>(by: ByLink | ConfirmationQuery): Promise<Pending<Extra> | undefined> {
    const found = await records.transact((tx) => read(tx, by));
    return found && opened<Extra>(found);
  }

  return {
    issue: (confirmation) => records.transact((tx) => put(tx, confirmation)),
    issueWithin: put,

    prepare(wanted) {
      const { record, secrets } = made(wanted);
      return { link: secrets.link, record: CONFIRMATION.record(record), expiresAt: record.expiresAt };
    },

    find,
    async peek<Extra>(within: Transaction, purpose: ConfirmationPurpose, subject: string) {
      const [found] = await within.peekAll([CONFIRMATION.ref([purpose, subject])]);
      return found && opened<Extra>(found);
    },
    findByLink: (link) => (isLink(link) ? find({ link }) : Promise.resolve(undefined)),

    renew: (by, mail) =>
      records.transact(async (tx) => {
        const found = await read(tx, by);
        if (found === undefined || found.confirmed) return false;
        const { purpose, subject, interaction, extra } = opened<object>(found);
        await put(tx, { purpose, subject, interaction, extra, mail });
        return true;
      }),

    change: <Extra, T>(
      by: ConfirmationQuery,
      act: (found: FoundConfirmation<Extra> | undefined, tx: Transaction) => T | Promise<T>,
    ) =>
      records.transact(async (tx) => {
        const found = await read(tx, by);
        return act(found && inTransaction<Extra>(tx, found), tx);
      }),

    prove: <Extra, T>(
      purpose: ConfirmationPurpose,
      where: { readonly subject: string } | { readonly interaction: string } | undefined,
      proof: ConfirmationProof,
      act: (found: FoundConfirmation<Extra>, tx: Transaction) => Promise<T>,
    ) =>
      records.transact<T | Unproven>(async (tx) => {
        const by = "link" in proof ? isLink(proof.link) && proof : where && { purpose, ...where };
        const found = by ? await read(tx, by) : undefined;
        if (found === undefined || !belongs(found, purpose, where)) return { kind: "gone" };
        const unproven = "code" in proof ? compare(tx, found, proof.code) : undefined;
        return unproven ?? act(inTransaction<Extra>(tx, found), tx);
      }),

    nobody: (name) => hmac(key, JSON.stringify(["nobody", name])),

    cancel: (purpose, subject) => records.transact((tx) => tx.remove(CONFIRMATION.ref([purpose, subject]))),
  };
}

const isLink = (token: string): boolean => /^[\w-]{43}$/.test(token);

function belongs(
  { purpose, subject, interaction }: StoredConfirmation,
  wanted: ConfirmationPurpose,
  where: { readonly subject: string } | { readonly interaction: string } | undefined,
): boolean {
  if (purpose !== wanted) return false;
  if (where === undefined) return true;
  return "subject" in where ? subject === where.subject : interaction === where.interaction;
}
