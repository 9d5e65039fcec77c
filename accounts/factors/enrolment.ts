/**
 * Enrolling a second factor: the code to the confirmed address that guards the first one, what an app or a browser
 * needs to make a factor, and the test of the new factor before it counts (decisions.md, The first factor).
 *
 * Somebody who only knows the password can't read the code in the mailbox, so can't enrol. To stop somebody who only
 * has a session, the caller asks for a recent sign-in before `sendCode` and `begin`.
 */
import { randomUUID } from "node:crypto";
import { AlreadyExists } from "../../core/errors.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { type AccountInternals, isDisabled, stateOf } from "../account.ts";
import type { Attempt } from "../limits/attempt-limits.ts";
import type { Unproven } from "../people/confirmations.ts";
import { type AskedAt, callerAs, type Limited, refusalOf } from "../people/requests.ts";
import { type Way, WAYS } from "../ways/ways.ts";
import type { AccountServices } from "../services.ts";
import { matchingStep } from "./codes.ts";
import {
  type ChangedFactors,
  type FactorState,
  factorStateOf,
  hasSecondFactor,
  type NewPasskey,
  newUserHandle,
  type OwnFactorChange,
  passkeyName,
  type UnchangedFactors,
} from "./factor.ts";
import { createGuardCodes, type SentGuardCode } from "./guard-codes.ts";
import type { PasskeyCreation, PasskeyOwner, Passkeys } from "./passkeys.ts";

/**
 * A running enrolment, to be kept sealed with the step or the page: it holds the secret of the new app. It can be stored
 * as JSON. It allows adding one factor; whatever changes the account's factors, password, address or sessions ends it.
 */
export interface Enrolment {
  readonly sub: string;
  readonly as: FactorState;
  /** Whether the account had no second factor. */
  readonly isFirst: boolean;
  /** The secret of a new app in Base32, and its `otpauth:` address for a QR code. `null`: the account has an app. */
  readonly app: { readonly secret: string; readonly uri: string } | null;
  /** The options for the browser to make a passkey. `null`: passkeys are off, or the account has ten. */
  readonly passkey: { readonly publicKey: PasskeyCreation } | null;
  /** Milliseconds since the epoch: ten minutes after it began. */
  readonly expiresAt: number;
}

/**
 * The enrolment of a passkey together with its account, so that the account never lacks both a password and a passkey.
 */
export interface NewAccountEnrolment extends Omit<Enrolment, "as" | "isFirst" | "app" | "passkey"> {
  /** There is no account yet. */
  readonly as: null;
  readonly app: null;
  readonly passkey: NonNullable<Enrolment["passkey"]>;
}

/** Why an enrolment did not begin. */
type NotBegun =
  /** The account has no second factor yet: call `sendCode`, and pass the code that the person enters. */
  | { readonly kind: "code-required" }
  /** There is no such account, or it is disabled; or there is nothing that it could add. */
  | { readonly kind: "gone" }
  | Unproven;

/** Why a factor was not added. */
type NotAdded =
  /** The code or the passkey is wrong, or the name is empty or too long. The enrolment continues. */
  { readonly kind: "wrong" } | UnchangedFactors | Limited;

/** All calls reject with `StorageUnavailable` when the storage fails. */
export interface Enrolments {
  /** The name that authenticators show for new passkeys and apps. */
  readonly issuer: string;
  /**
   * Sends a code to the confirmed address, or to the one before it for seven days after a change. An address that is not
   * confirmed gets it as well, and the code then confirms it.
   * @param subject what the code belongs to: the id of the interaction, or the `uid` of the session.
   */
  sendCode(
    sub: string,
    subject: string,
    at: AskedAt,
  ): Promise<SentGuardCode | { readonly kind: "gone" } | Limited>;
  /**
   * Begins an enrolment. Call it after a recent sign-in.
   * @param code as typed; for the first factor of an account only: see `sendCode`.
   */
  begin(
    sub: string,
    subject: string,
    code: string | undefined,
    at: AskedAt,
  ): Promise<{ readonly kind: "begun"; readonly enrolment: Enrolment } | NotBegun>;
  /** Adds the app once its code is right. @param code as typed. */
  addApp(
    enrolment: Enrolment,
    code: string,
    change: OwnFactorChange,
    at: AskedAt,
  ): Promise<ChangedFactors | NotAdded>;
  /**
   * Adds a passkey.
   * @param credential `RegistrationResponseJSON`, which may be anything.
   * @param name as typed.
   * @returns with `backupEligible` whether it can be copied to other devices.
   */
  addPasskey(
    enrolment: Enrolment,
    credential: unknown,
    name: string,
    change: OwnFactorChange,
    at: AskedAt,
  ): Promise<(ChangedFactors & { readonly backupEligible: boolean }) | NotAdded>;
  /**
   * Begins the enrolment for an account that is created with its passkey. Returns `undefined` if passkeys are off.
   * @param earlier of the same person, who begins again: the new passkey then replaces the one on the device.
   */
  beginNewAccount(
    owner: PasskeyOwner,
    earlier: NewAccountEnrolment | undefined,
  ): Promise<NewAccountEnrolment | undefined>;
  /**
   * Checks the passkey of a new account. Nothing is stored: see `Registrations.complete`.
   * @param credential `RegistrationResponseJSON`, which may be anything.
   * @param name as typed.
   */
  tryNewAccount(
    enrolment: NewAccountEnrolment,
    credential: unknown,
    name: string,
    at: AskedAt,
  ): Promise<
    | { readonly kind: "right"; readonly factor: NewPasskey }
    | { readonly kind: "wrong" }
    | { readonly kind: "stale" }
    | Limited
  >;
  /**
   * Makes new recovery codes; the old ones end.
   * @param generation the `sessions_generation` of the account: with another one, somebody else has changed it.
   */
  renewCodes(
    sub: string,
    generation: number,
    at: AskedAt,
  ): Promise<ChangedFactors | UnchangedFactors | Limited>;
  /**
   * Undoes the first factor of an account with the link from the mail about it, within seven days and in any browser: all
   * factors, codes, tokens, sessions and the password end.
   * @returns `undone` with the token of a link to choose a new password, for this browser; `blocked`: the account is
   * disabled, and nothing was changed.
   */
  undo(
    link: string,
    at: AskedAt,
  ): Promise<{ readonly kind: "undone"; readonly reset: string } | { readonly kind: "blocked" } | Unproven>;
}

const LIFETIME_MS = 600_000;

/**
 * @param passkeys missing if they are off.
 * @param issuer the name of the service in authenticator apps.
 */
export function createEnrolments(
  services: Pick<AccountServices, "storage" | "clock" | "accounts" | "confirmations" | "limits" | "audit">,
  passkeys: Passkeys | undefined,
  issuer: string,
): Enrolments {
  const { storage, clock, accounts, confirmations, limits } = services;
  const { records } = storage;
  const codes = createGuardCodes(services, { purpose: "factor-enrolment", mail: "confirm-factor" });

  async function enabled(sub: string): Promise<AccountRecord | undefined> {
    const account = (await records.find(ACCOUNT.ref(sub)))?.value;
    return account === undefined || isDisabled(account) ? undefined : account;
  }

  async function made(account: AccountRecord): Promise<Enrolment | undefined> {
    const isFull = ({ ids, max }: Way): boolean => ids(account).length >= max;
    const makes = isFull(WAYS.passkey) ? undefined : passkeys;
    const hasApp = isFull(WAYS.app);
    if (hasApp && makes === undefined) return undefined;
    const { user_handle = newUserHandle() } = account.ways.passkey ?? {};
    const creation = await makes?.creation(account, makes.challenge().challenge, user_handle);
    return {
      sub: account.sub,
      as: factorStateOf(account),
      isFirst: !hasSecondFactor(account),
      app: hasApp ? null : await newApp(issuer, account.username ?? account.email),
      passkey: creation === undefined ? null : { publicKey: creation },
      expiresAt: Math.floor(clock.now()) + LIFETIME_MS,
    };
  }

  async function add(
    { sub, as, isFirst, expiresAt }: Enrolment,
    at: AskedAt,
    change: OwnFactorChange,
    tried: () => Promise<Parameters<AccountInternals["addFactor"]>[1] | undefined>,
  ): Promise<ChangedFactors | NotAdded> {
    if (expiresAt <= clock.now()) return { kind: "stale" };
    const attempt: Attempt = await limits.change(sub);
    const limited = refusalOf(services, at, attempt);
    if (limited !== undefined) return limited;
    const factor = await tried();
    if (factor === undefined) return { kind: "wrong" };
    const first = isFirst ? await limits.firstFactor(sub) : undefined;
    const tooMany = first && refusalOf(services, at, first);
    if (tooMany !== undefined) return tooMany;
    try {
      const result = await accounts.addFactor(sub, factor, as, change, callerAs(sub, at));
      if (result.kind !== "changed") await first?.withdraw();
      return result;
    } catch (error) {
      await first?.withdraw();
      if (!(error instanceof AlreadyExists)) throw error;
      // The credential id belongs to an account already.
      return { kind: "wrong" };
    }
  }

  async function triedPasskey(
    wanted: Enrolment["passkey"],
    credential: unknown,
    name: string,
  ): Promise<NewPasskey | undefined> {
    const label = passkeyName(name);
    if (wanted === null || passkeys === undefined || label === undefined) return undefined;
    const { challenge, user } = wanted.publicKey;
    const passkey = await passkeys.checkNew(credential, challenge, label);
    return passkey && { kind: "passkey", passkey, userHandle: user.id };
  }

  return {
    issuer,

    async sendCode(sub, subject, at) {
      const account = await enabled(sub);
      if (account === undefined || hasSecondFactor(account)) return { kind: "gone" };
      return codes.send(account, { subject }, at);
    },

    async begin(sub, subject, code, at) {
      const account = await enabled(sub);
      if (account === undefined) return { kind: "gone" };
      // A code that was given must be right, even if there is a factor now: somebody else may have added it, and nobody
      // has shown it here.
      if (code === undefined)
        return hasSecondFactor(account) ? begun(await made(account)) : { kind: "code-required" };
      const proven = await codes.prove(sub, { subject }, code, at);
      if (proven.kind !== "proven") return proven;
      // If a factor was added meanwhile, by somebody else with access to the mailbox, the person starts again.
      const current = await enabled(sub);
      return begun(current && !hasSecondFactor(current) ? await made(current) : undefined);
    },

    addApp: (enrolment, code, change, at) =>
      add(enrolment, at, change, async () => {
        const { app } = enrolment;
        const lastStep = app === null ? undefined : await matchingStep(app.secret, code, clock);
        if (app === null || lastStep === undefined) return undefined;
        return { kind: "app", secret: app.secret, lastStep };
      }),

    async addPasskey(enrolment, credential, name, change, at) {
      let backupEligible = false;
      const added = await add(enrolment, at, change, async () => {
        const factor = await triedPasskey(enrolment.passkey, credential, name);
        backupEligible = factor?.passkey.backup_eligible === true;
        return factor;
      });
      return added.kind === "changed" ? { ...added, backupEligible } : added;
    },

    async beginNewAccount(owner, earlier) {
      if (passkeys === undefined) return undefined;
      const { challenge } = passkeys.challenge();
      const userHandle = earlier?.passkey.publicKey.user.id ?? newUserHandle();
      return {
        sub: randomUUID(),
        as: null,
        app: null,
        passkey: { publicKey: await passkeys.creation(owner, challenge, userHandle) },
        expiresAt: Math.floor(clock.now()) + LIFETIME_MS,
      };
    },

    async tryNewAccount({ sub, passkey, expiresAt }, credential, name, at) {
      if (expiresAt <= clock.now()) return { kind: "stale" };
      const limited = refusalOf(services, at, await limits.change(sub));
      if (limited !== undefined) return limited;
      const factor = await triedPasskey(passkey, credential, name);
      return factor === undefined ? { kind: "wrong" } : { kind: "right", factor };
    },

    async renewCodes(sub, generation, at) {
      const limited = refusalOf(services, at, await limits.change(sub));
      if (limited !== undefined) return limited;
      return accounts.replaceRecoveryCodes(sub, { generation }, callerAs(sub, at));
    },

    undo: (link, at) =>
      confirmations.prove<object, Awaited<ReturnType<Enrolments["undo"]>>>(
        "factor-undo",
        undefined,
        { link },
        async (pending, tx) => {
          const sub = pending.subject;
          const account = await accounts.undoFactors(tx, sub, callerAs(sub, at));
          if (account === undefined) {
            const current = await tx.get(ACCOUNT.ref(sub));
            return { kind: current !== undefined && isDisabled(current) ? "blocked" : "gone" };
          }
          const reset = confirmations.prepare({
            purpose: "password-reset",
            subject: sub,
            extra: stateOf(account),
          });
          tx.overwrite(reset.record);
          return { kind: "undone", reset: reset.link };
        },
      ),
  };
}

function begun(
  enrolment: Enrolment | undefined,
): { readonly kind: "begun"; readonly enrolment: Enrolment } | { readonly kind: "gone" } {
  return enrolment === undefined ? { kind: "gone" } : { kind: "begun", enrolment };
}

/** A new secret of 160 bits (RFC 4226 section 4), and the address that authenticator apps read from a QR code. */
async function newApp(issuer: string, label: string): Promise<NonNullable<Enrolment["app"]>> {
  const { Secret, TOTP } = await import("otpauth");
  const secret = new Secret({ size: 20 });
  // A colon separates the issuer from the label.
  const totp = new TOTP({
    issuer: issuer.replaceAll(":", " "),
    label,
    algorithm: "SHA1",
    digits: 6,
    period: 30,
    secret,
  });
  return { secret: secret.base32, uri: totp.toString() };
}
