/** The second factors of an account, and the calls that change them. */
import { hash, randomBytes } from "node:crypto";
import type { z } from "zod";
import type { Configuration } from "../../config/configuration.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { AccountRecord, ApiRecord, ClientRecord } from "../../records/directory/directory.ts";
import type { StoredPasskey } from "../../records/factors/factor-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import { described } from "../../config/documented-schema.ts";
import { exactly, ruled } from "../arguments.ts";
import { textProblem } from "../text-rules.ts";
import { hasWay, isFactorWay, type OwnedWays, WAYS, type WayOwner } from "../ways/ways.ts";
import type { NewIdentity } from "../identities/identity.ts";

const MAX_PASSKEY_NAME = 64;

/** The user handle of a new account's passkeys (WebAuthn section 5.4.3). */
export function newUserHandle(): string {
  return randomBytes(32).toString("base64url");
}

/** Whether the account has a second factor: then its password alone signs nobody in. */
export function hasSecondFactor(account: WayOwner): boolean {
  return hasWay(account, isFactorWay);
}

/** Whether something that people sign in for wants a second factor by itself: an API, or a client. */
export const wantsFactor = ({ second_factor }: { readonly second_factor?: string | undefined }): boolean =>
  second_factor === "required";

/**
 * Whether people need a second factor to sign in to this client, for these APIs. `profile: strict` wants one for every third party.
 */
export function needsSecondFactor(
  client: Pick<ClientRecord, "first_party" | "second_factor">,
  profile: Configuration["profile"],
  apis: Iterable<Pick<ApiRecord, "second_factor">> = [],
): boolean {
  return wantsFactor(client) || (profile === "strict" && !client.first_party) || [...apis].some(wantsFactor);
}

/**
 * A credential id is long, and chosen by an authenticator: addresses and forms carry its digest.
 * @param id of a passkey, or `app`, which stays.
 */
export function factorKey(id: string): string {
  return id === "app" ? id : hash("sha256", id, "base64url").slice(0, 22);
}

/** Whether the account has something for its owner to review: anything besides the password. */
export function isReviewed(account: WayOwner): boolean {
  return hasWay(account, ({ methods }) => methods !== undefined);
}

/**
 * The account, marked so that its owner reviews the second factors and identities, if any, at the next sign-in
 * (decisions.md, Lost factors).
 */
export function withReview(account: AccountRecord): AccountRecord {
  const { review: _earlier, ...ways } = account.ways;
  return { ...account, ways: isReviewed(account) ? { ...ways, review: "due" } : ways };
}

/** How long a person who was asked to add a passkey is not asked again. */
const OFFER_PAUSE_SECONDS = 30 * 86_400;

/** Whether a person may be asked at sign-in to add a passkey. @param now seconds since the epoch. */
export function isPasskeyOfferDue(account: WayOwner, now: number): boolean {
  const { passkey_offer: last } = account.ways;
  if (WAYS.passkey.ids(account).length > 0 || last?.declined === true) return false;
  return last === undefined || last.at + OFFER_PAUSE_SECONDS <= now;
}

/** The generation of the account's factors; 0 if it never had one. */
export function factorsGeneration({ ways }: Pick<AccountRecord, "ways">): number {
  return ways.generation ?? 0;
}

/** The state of an account when an enrolment began. No factor is added once any of it has changed. */
export interface FactorState {
  readonly email: string;
  readonly password_generation: number;
  readonly sessions_generation: number;
  readonly factors_generation: number;
}

export function factorStateOf(record: AccountRecord): FactorState {
  return {
    email: record.email,
    password_generation: record.ways.password?.generation ?? 0,
    sessions_generation: record.sessions_generation,
    factors_generation: factorsGeneration(record),
  };
}

/** Whether nothing has changed since. */
export function isStill(record: AccountRecord, as: FactorState): boolean {
  const now = factorStateOf(record);
  return (Object.keys(now) as (keyof FactorState)[]).every((name) => now[name] === as[name]);
}

/** A factor that has been tried. */
export type NewFactor =
  /** `secret` in Base32; `lastStep` is the time step of the code that was tried. */
  | { readonly kind: "app"; readonly secret: string; readonly lastStep: number }
  | {
      readonly kind: "passkey";
      readonly passkey: Omit<StoredPasskey, "sub" | "added_at" | "last_used_at">;
      /** Of the account, if it has none yet. */
      readonly userHandle: string;
    };

/** What a new account signs in with. */
export type FirstWay = NewPassword | NewPasskey | NewIdentity;

/** A password that breaks no rule. */
export interface NewPassword {
  readonly kind: "password";
  /** PHC string. */
  readonly hash: string;
}

/** A passkey that has been tried. */
export type NewPasskey = Extract<NewFactor, { readonly kind: "passkey" }>;

/** The name of a passkey as a person typed it; `undefined` if it is empty or too long. */
export function passkeyName(typed: string): string | undefined {
  const name = typed.trim();
  return textProblem(name) === undefined && name.length <= MAX_PASSKEY_NAME ? name : undefined;
}

/** How a person changes their factors. */
export interface OwnFactorChange {
  /** The `uid` of the session that stays signed in, with the returned generation from now on. Left out: none does. */
  readonly keepSession?: string | undefined;
  /** The `sessions_generation` that the account must still have. Left out: any. */
  readonly generation?: number | undefined;
  /** Whether the last factor has to stay, whatever the services of the person need. Left out: no. */
  readonly keepsLast?: boolean | undefined;
}

/** The result of a change of factors. */
export interface ChangedFactors {
  readonly kind: "changed";
  /** The new ones, to be shown once; empty if the old ones stay. */
  readonly recoveryCodes: readonly string[];
  /** The value that the session that stays has to carry from now on. */
  readonly sessions_generation: number;
}

/** Why nothing was changed. */
export type UnchangedFactors =
  /** The account has changed since the enrolment began: start again. */
  | { readonly kind: "stale" }
  /** There is an app already, or ten passkeys. */
  | { readonly kind: "limit_reached" }
  /** It is the last one, and a client that the person uses needs one. */
  | { readonly kind: "required" }
  /** It is the last thing that the account signs in with. */
  | { readonly kind: "last_sign_in_method" }
  /** There is no such account or factor, or the account is disabled. */
  | { readonly kind: "not_found" };

/** Changes that only the service itself makes. */
export interface FactorChanges {
  /** All second factors and identities; `undefined` if there is no such account. */
  ownedWays(sub: string): Promise<OwnedWays | undefined>;
  /**
   * Adds a factor. With the first one come recovery codes, and a mail with a link that undoes it for seven days.
   * @param as the account when the enrolment began.
   * @throws AlreadyExists when the passkey belongs to an account.
   */
  addFactor(
    sub: string,
    factor: NewFactor,
    as: FactorState,
    change: OwnFactorChange,
    caller: Caller,
  ): Promise<ChangedFactors | UnchangedFactors>;
  /**
   * Removes a factor or an identity as its owner: not the last factor while a client of a service that the person uses needs
   * one, and not the last thing that the account signs in with. `stale`
   * if the account has another `sessions_generation` than `change` says.
   * @param which the id of a passkey or an identity, or `app`.
   */
  removeOwnFactor(
    sub: string,
    which: string,
    change: OwnFactorChange & { readonly generation: number },
    caller: Caller,
  ): Promise<ChangedFactors | UnchangedFactors>;
  /**
   * Removes a factor of somebody else, or all of them, as an operator who has looked at the account: only as long as it
   * has the `sessions_generation` that it had then, else `stale`. Not the last passkey of an account without a password,
   * unless all go.
   * @param which the id of a passkey, or `app`; `undefined`: all.
   */
  removeFactorsOf(
    sub: string,
    which: string | undefined,
    generation: number,
    caller: Caller,
  ): Promise<ChangedFactors | UnchangedFactors>;
  /**
   * Gives a passkey another name: no sessions end, and no mail is sent.
   * @param name see {@link passkeyName}.
   * @returns false if the account has no such passkey.
   */
  renamePasskey(sub: string, id: string, name: string, caller: Caller): Promise<boolean>;
  /**
   * Makes new recovery codes; the old ones end. `not_found` without a second factor, `stale` if the account has another
   * `sessions_generation` than `change` says.
   */
  replaceRecoveryCodes(
    sub: string,
    change: OwnFactorChange & { readonly generation: number },
    caller: Caller,
  ): Promise<ChangedFactors | UnchangedFactors>;
  /**
   * Records that the person has looked at the second factors. Writes nothing if they need not.
   * @param amr what they have signed in with: unless a mail could have given it to them, the next sign-in with such a way shows
   *   them once more.
   * @param generation the `sessions_generation` that the account must still have.
   * @returns the account afterwards; `undefined` if it has another generation, is disabled or is gone.
   */
  reviewedFactors(
    sub: string,
    amr: readonly string[],
    generation: number,
    caller: Caller,
  ): Promise<AccountRecord | undefined>;
  /**
   * Records that the person is asked at sign-in to add a passkey. Of two sign-ins at once, one asks.
   * @returns false, and nothing is written, if the person has a passkey, was asked in the last 30 days, or never wants to be.
   */
  offerPasskey(sub: string, caller: Caller): Promise<boolean>;
  /** The person is never asked again. `false` if there is no such account. */
  declinePasskeyOffer(sub: string, caller: Caller): Promise<boolean>;
  /**
   * Undoes the first factor: all factors and recovery codes are removed, and all sessions, codes, tokens and the password
   * end. `undefined`, and nothing is put, if the account is gone or disabled, or has no factor.
   */
  undoFactors(within: Transaction, sub: string, caller: Caller): Promise<AccountRecord | undefined>;
}

/** Base32 (RFC 4648) of 10 to 64 bytes. */
const SECRET = /^[A-Z2-7]{16,103}$/;

/** A secret as people and exports write it: case, spaces, dashes and padding don't count. */
export function normaliseSecret(secret: string): string {
  return secret.toUpperCase().replaceAll(/[\s-]/g, "").replace(/=+$/, "");
}

const appSettings = exactly({
  /**
   * The secret of an authenticator app that the person has set up in another system (RFC 6238: SHA-1, 6 digits, 30 seconds).
   * Default: none: the account has no app; needed in `app`.
   */
  secret: described(
    ruled((secret) =>
      secret.length <= 200 && SECRET.test(normaliseSecret(secret))
        ? undefined
        : "must be 10 to 64 bytes in Base32",
    ),
    { form: "10 to 64 bytes in Base32" },
  ),
});

/** An app that was set up in another system. */
export interface AppSecret extends Readonly<z.input<typeof appSettings>> {}
export const appSecret: z.ZodType<AppSecret, AppSecret> = appSettings;
