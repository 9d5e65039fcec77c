/** The mail that waits to be sent: its records, and the sealing of what is personal in them. */
import { randomUUID } from "node:crypto";
import type { DeploymentKind } from "../../config/configuration.ts";
import { defineKind, type Kind } from "../kinds.ts";
import type { Sealer } from "../../core/sealing.ts";

/** What a mail is about. */
export const MAIL_KINDS = [
  "password-changed",
  "address-changed",
  "confirm-registration",
  "known-address",
  "reset-password",
  "confirm-address",
  "confirm-factor",
  "sign-in-code",
  "confirm-identity",
  "invitation",
  "factors-changed",
  "identity-linked",
  "recovery-code-used",
  "app-stopped",
  "many-failures",
  "new-browser",
  "device-connected",
  "document-allowed",
  "operator-factor",
] as const;

export type MailKind = (typeof MAIL_KINDS)[number];

const WITH_CODE: ReadonlySet<MailKind> = new Set([
  "confirm-registration",
  "reset-password",
  "confirm-address",
  "confirm-factor",
  "sign-in-code",
  "confirm-identity",
  "invitation",
]);

/** Mail that somebody waits for, in front of a page: it is sent before notices. */
const AWAITED: ReadonlySet<MailKind> = new Set([...WITH_CODE, "known-address"]);

/** Whether the mail contains a code. */
export const isWithCode = ({ kind }: Pick<StoredMail, "kind">): boolean => WITH_CODE.has(kind);

/** A mail to one person. */
export interface NewMail {
  readonly kind: MailKind;
  /**
   * The address of the recipient. If it is empty, the mail is stored, claimed and removed like any other, but not sent: an
   * answer about an unknown name takes as much work as one about a known name.
   */
  readonly to: string;
  /** The language of the account. Default, and for a language without texts: the first configured locale. */
  readonly locale?: string;
  /** The deployment that the links lead to. */
  readonly deployment: DeploymentKind;
  /** The values that fill in the text. Which ones depends on the kind: see `messages.ts`. */
  readonly params: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. From then on the mail is not sent. */
  readonly expiresAt: number;
}

/** A notice that arrives later is useless. */
const NOTICE_LIFETIME_MS = 3 * 86_400_000;

/**
 * Mail that tells the owner of an account what has just happened.
 * @param notice.at milliseconds since the epoch.
 */
export function noticeTo(
  { email, locale }: { readonly email: string; readonly locale?: string | null },
  {
    at,
    params,
    ...notice
  }: Pick<NewMail, "kind" | "deployment"> & { readonly at: number; readonly params?: NewMail["params"] },
): NewMail {
  return {
    ...notice,
    to: email,
    ...(typeof locale === "string" && { locale }),
    params: { at: String(at), ...params },
    expiresAt: at + NOTICE_LIFETIME_MS,
  };
}

/** A mail in the storage. Times are in milliseconds since the epoch. */
export interface StoredMail {
  /** Unguessable. The Message-ID of every attempt contains it. */
  readonly id: string;
  readonly kind: MailKind;
  /** Sealed JSON: the other members of {@link NewMail}. */
  readonly sealed: string;
  readonly createdAt: number;
  /** When to try it next. While it is being sent: when another worker may take it over. */
  readonly due: number;
  readonly attempts: number;
  readonly expiresAt: number;
}

/** The `due` of mail that is held until an operator resumes it. */
export const HELD: number = Number.MAX_SAFE_INTEGER;

/** An address for which the mail server takes no mail. */
interface RefusedMail {
  /** A keyed hash of the address. */
  readonly recipient: string;
  /** Why: the word that `mail.failed` has. */
  readonly reason: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** A refusal says little about a mailbox after a month without mail to it. */
const REFUSAL_KEPT_MS = 30 * 86_400_000;

export const REFUSED_MAIL: Kind<RefusedMail> = defineKind<RefusedMail>({
  name: "refused-mail",
  holds: "that the last mail to an address was refused for good",
  key: "a keyed hash of the address",
  keyOf: ({ recipient }) => recipient,
  expires: "with the next mail that is accepted, or 30 days after the last refusal",
  expiresAt: ({ at }) => at + REFUSAL_KEPT_MS,
  store: "storage",
  exported: true,
  afterRestore: "kept",
  afterReset: "removed",
  personal: undefined,
});

/** The only partition. */
const ALL = "all";

const contextOf = (id: string): string => `mail ${id}`;

export const MAIL: Kind<StoredMail, "due" | "awaited"> = defineKind({
  name: "mail",
  holds: "a mail to a person that waits to be sent",
  key: "random",
  keyOf: ({ id }) => id,
  index: {
    due: ({ due }) => [{ at: ALL, order: due }],
    awaited: ({ kind, due }) => (AWAITED.has(kind) ? [{ at: ALL, order: due }] : []),
  },
  indexFor: {
    due: "claiming the mail to send next, and the metrics of what waits",
    awaited: "claiming codes and links before notices",
  },
  expires: "when it is sent, refused, or out of date",
  expiresAt: ({ expiresAt }) => expiresAt,
  sealed: ({ sealed, ...rest }, replace) => ({ ...rest, sealed: replace(contextOf(rest.id), sealed) }),
  store: "storage",
  exported: true,
  afterRestore: {
    becomes: "void with a code or link to confirm, else held until `deliveries resume`",
    change: (mail) => (isWithCode(mail) ? undefined : { ...mail, due: HELD }),
  },
  afterReset: "removed",
  personal: "the address of the recipient and the values in the text, sealed with `keys.secrets`",
});

export const BY_DUE: ReturnType<typeof MAIL.where> = MAIL.where("due", ALL);

/** The same of the mail that somebody waits for. */
export const AWAITED_BY_DUE: ReturnType<typeof MAIL.where> = MAIL.where("awaited", ALL);

/**
 * The mail as it is stored, due immediately.
 * @param now milliseconds since the epoch.
 * @param id several mails may have the same id: only the last one stored is sent. Default: random.
 */
export function sealMail(
  sealer: Sealer,
  { kind, expiresAt, ...personal }: NewMail,
  now: number,
  id: string = randomUUID(),
): StoredMail {
  const createdAt = Math.floor(now);
  const sealed = sealer.seal(contextOf(id), JSON.stringify(personal));
  return { id, kind, sealed, createdAt, due: createdAt, attempts: 0, expiresAt: Math.floor(expiresAt) };
}

/** @throws SignInError `unusable_secrets` when no key opens it. */
export function openMail(sealer: Sealer, { id, kind, sealed, expiresAt }: StoredMail): NewMail {
  const personal: Omit<NewMail, "kind" | "expiresAt"> = JSON.parse(sealer.open(contextOf(id), sealed));
  return { ...personal, kind, expiresAt };
}
