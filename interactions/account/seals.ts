/** Signs and encrypts what the forms and addresses of the account pages carry, for one session of one person. */
import type { KeyObject } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { SignedIn } from "../../provider/account.ts";
import { createEncrypter, type Signer } from "../../core/sealing.ts";

/** The notice of a page about the change that led to it; its text is `account.notice.<notice>`. */
export const NOTICES = [
  "profile",
  "password",
  "session",
  "sessions",
  "remembered",
  "service",
  "address",
  "addressCancelled",
  "codeSent",
  "device",
  "deviceRefused",
  "deviceEnded",
  "applicationEnded",
  "factorCode",
  "appAdded",
  "passkeyAdded",
  "appRemoved",
  "passkeyRemoved",
  "passkeyRenamed",
  "identityLinked",
  "identityRemoved",
  "identityChanged",
  "factorsFull",
  "factorOutdated",
  "unsaved",
] as const;

export type Notice = (typeof NOTICES)[number];

export interface AccountSeals {
  /** The hidden field of the forms of one page. */
  token(person: SignedIn, path: string): string;
  isToken(person: SignedIn, path: string, presented: string): boolean;
  /** A notice as a query parameter, for one page. */
  seal(person: SignedIn, path: string, notice: Notice): string;
  /** `undefined` unless it was sealed for this page and session. */
  open(person: SignedIn, path: string, sealed: string | undefined): Notice | undefined;
  /** Encrypts a hidden field of a form. Only this service can read it, and it is accepted only from this session and page. */
  encrypt(person: SignedIn, path: string, text: string): string;
  /** `undefined` unless it was encrypted for this page and session. */
  decrypt(person: SignedIn, path: string, sealed: string): string | undefined;
  /** Says for ten minutes, to anybody, that a form of a page was not saved: by then no one is signed in. */
  sealUnsaved(path: string): string;
  isUnsaved(path: string, sealed: string): boolean;
  /** Proves for ten minutes, in the hands of anybody, that an account was deleted: by then no one is signed in. */
  sealDeleted(): string;
  isDeleted(sealed: string): boolean;
}

const LIFETIME_MS = 600_000;

function signed(purpose: string, { session, account }: SignedIn, parts: readonly string[]): string {
  const { sub, sessions_generation } = account;
  return JSON.stringify([`account ${purpose}`, session, sub, sessions_generation, ...parts]);
}

const deleted = (until: string): string => JSON.stringify(["account deleted", until]);
const unsaved = (path: string) => (until: string) => JSON.stringify(["account unsaved", path, until]);

/**
 * @param signer with other keys, all forms are stale.
 * @param keys the first encrypts, all decrypt; at least one.
 */
export function createAccountSeals(
  { signer, keys }: { readonly signer: Signer; readonly keys: readonly KeyObject[] },
  clock: Clock,
): AccountSeals {
  const encrypter = createEncrypter(keys);

  function sealFor(text: (until: string) => string): string {
    const until = String(Math.floor(clock.now()) + LIFETIME_MS);
    return `${until}.${signer.sign(text(until))}`;
  }

  function isSealedFor(text: (until: string) => string, sealed: string): boolean {
    const [until = "", signature = ""] = sealed.split(".", 2);
    return signer.verify(text(until), signature) && clock.now() < Number(until);
  }

  return {
    token: (person, path) => signer.sign(signed("form", person, [path])),
    isToken: (person, path, presented) => signer.verify(signed("form", person, [path]), presented),
    seal: (person, path, notice) => `${notice}.${signer.sign(signed("notice", person, [path, notice]))}`,
    open(person, path, sealed = "") {
      const [text = "", signature = ""] = sealed.split(".", 2);
      const notice = NOTICES.find((each) => each === text);
      const isOurs =
        notice !== undefined && signer.verify(signed("notice", person, [path, notice]), signature);
      return isOurs ? notice : undefined;
    },
    encrypt: (person, path, text) => encrypter.encrypt(signed("hidden", person, [path]), text),
    decrypt: (person, path, sealed) => encrypter.decrypt(signed("hidden", person, [path]), sealed),
    sealUnsaved: (path) => sealFor(unsaved(path)),
    isUnsaved: (path, sealed) => isSealedFor(unsaved(path), sealed),
    sealDeleted: () => sealFor(deleted),
    isDeleted: (sealed) => isSealedFor(deleted, sealed),
  };
}
