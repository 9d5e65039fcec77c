/** What is stored about the sign-ins of an account: how many failed in a row, and that it has signed in before. */
import { ACCOUNT } from "../directory/directory-kinds.ts";
import { MAIL, type NewMail, type StoredMail } from "./mail-kinds.ts";
import { NOTICE_COUNT, putNotice } from "./notices.ts";
import { defineKind, type Kind } from "../kinds.ts";
import type { KeyObject } from "node:crypto";
import { hmac, type Sealer } from "../../core/sealing.ts";
import type { Records, Transaction } from "../records.ts";

/** Where passwords are tried. Each counts by itself. */
const SOURCES = ["form", "password_grant"] as const;
export type PasswordSource = (typeof SOURCES)[number];

/** Failures without a success in between. */
interface FailedSignIns {
  readonly source: PasswordSource;
  /** A keyed hash of the name as typed, whether or not an account has it. */
  readonly subject: string;
  readonly failures: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Failures are forgotten after a month without one: guessing this slowly is hopeless. */
const FORGOTTEN_AFTER_MS = 30 * 86_400_000;

export const FAILED_SIGN_INS: Kind<FailedSignIns> = defineKind<FailedSignIns>({
  name: "failed-sign-ins",
  holds: "the number of failed sign-ins with a name since the last success of its account, if there is one",
  key: "`form` or `password_grant`, and a keyed hash of the name",
  keyOf: ({ source, subject }) => [source, subject],
  expires: "30 days after the last failure",
  expiresAt: ({ expiresAt }) => expiresAt,
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});

/** Marks an account that has been signed in to from a browser. */
interface SignedInBefore {
  readonly sub: string;
  /** The id of the mail about the last new browser, so that a sign-in that is submitted twice sends one mail. */
  readonly last: string;
}

export const SIGNED_IN_BEFORE: Kind<SignedInBefore> = defineKind<SignedInBefore>({
  name: "signed-in-before",
  holds: "an account that somebody has signed in to in a browser",
  key: "the `sub`",
  keyOf: ({ sub }) => sub,
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "the `sub`",
});

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface SignInStore {
  /** The failures since the last success. */
  failures(source: PasswordSource, subject: string): Promise<number>;
  /**
   * Counts one more.
   * @param mailAt the number of the failure that stores mail, in the same commit: exactly one of parallel failures.
   * @returns how many there are now.
   */
  addFailure(
    source: PasswordSource,
    subject: string,
    mailAt?: { readonly failures: number; readonly mail: () => StoredMail | undefined },
  ): Promise<number>;
  clearFailures(source: PasswordSource, subject: string): Promise<void>;
  /**
   * Records a sign-in from a browser that is new to the account, with the sign-in itself.
   * @param id of the sign-in and its mail.
   * @param notice is stored unless this is the first sign-in, it was noted before, or there were too many.
   * @returns whether it was stored.
   */
  noteNewBrowser(
    tx: Transaction,
    sub: string,
    id: string,
    notice?: { readonly mail: NewMail; readonly sealer: Sealer },
  ): Promise<boolean>;
}

/** The subject under which failures with a name are counted. @param name in its normal form. */
export const failureSubject = (key: KeyObject, name: string): string =>
  hmac(key, JSON.stringify(["failures of name", name]));

async function clear(
  tx: Transaction,
  failures: readonly (readonly [source: PasswordSource, subject: string])[],
): Promise<void> {
  const refs = failures.map((each) => FAILED_SIGN_INS.ref([...each]));
  const found = await tx.getAll(refs);
  for (const [index, ref] of refs.entries()) if (found[index] !== undefined) tx.remove(ref);
}

/** Forgets all failures of these subjects with a new password, which makes what was guessed before worthless. */
export const forgetFailures = (tx: Transaction, subjects: readonly string[]): Promise<void> =>
  clear(
    tx,
    SOURCES.flatMap((source) => subjects.map((subject) => [source, subject] as const)),
  );

export function createSignInStore(records: Records): SignInStore {
  return {
    async failures(source, subject) {
      const found = await records.find(FAILED_SIGN_INS.ref([source, subject]));
      return found?.value.failures ?? 0;
    },
    addFailure: (source, subject, mailAt) =>
      records.transact(async (tx) => {
        const before = await tx.get(FAILED_SIGN_INS.ref([source, subject]));
        const failures = (before?.failures ?? 0) + 1;
        const expiresAt = Math.floor(records.clock.now()) + FORGOTTEN_AFTER_MS;
        tx.put(FAILED_SIGN_INS.record({ source, subject, failures, expiresAt }));
        const mail = failures === mailAt?.failures ? mailAt.mail() : undefined;
        if (mail !== undefined) tx.create(MAIL.record(mail));
        return failures;
      }),
    clearFailures: (source, subject) => records.transact((tx) => clear(tx, [[source, subject]])),
    async noteNewBrowser(tx, sub, id, notice) {
      // The count of its notices, and the mail of an earlier try, are read along with them.
      const [account, before] = await tx.peekAll([
        ACCOUNT.ref(sub),
        SIGNED_IN_BEFORE.ref(sub),
        NOTICE_COUNT.ref([sub, "new-browser"]),
        MAIL.ref(id),
      ]);
      // Without the account, the sign-in fails where its session is checked.
      if (account === undefined || before?.last === id) return false;
      tx.put(SIGNED_IN_BEFORE.record({ sub, last: id }));
      if (before === undefined || notice === undefined) return false;
      // The mail of this sign-in may be there already: its id says which sign-in it is about.
      return putNotice(tx, sub, notice.mail, { sealer: notice.sealer, now: records.clock.now(), id });
    },
  };
}
