/** The operations on the second factors of an account, and what the rows of accounts have in common. */
import { z } from "zod";
import { exactly } from "../arguments.ts";
import { appSecret } from "../factors/factor.ts";
import type { Factors } from "../ways/ways.ts";
import { NONE, operation } from "./operation.ts";

const factors: z.ZodType<Factors> = exactly({
  /** The authenticator app; `null` if there is none. */
  app: exactly({
    added_at: z.int(),
    /** `null`: never since it was added. */
    last_used_at: z.int().nullable(),
    /** Whether it accepts no codes after 100 wrong ones in a row, until a passkey or a recovery code is used. */
    stopped: z.boolean(),
  })
    .readonly()
    .nullable(),
  /** Oldest first. */
  passkeys: z
    .array(
      exactly({
        /** The credential id, Base64url. */
        id: z.string(),
        /** Chosen by the person. */
        name: z.string(),
        added_at: z.int(),
        last_used_at: z.int().nullable(),
        /** Whether it was copied to other devices, as far as its last use says. */
        backed_up: z.boolean(),
      }).readonly(),
    )
    .readonly(),
  recovery_codes_left: z.int(),
}).meta({ id: "Factors" });

const codes = exactly({
  /** Ten codes such as `K7QM2-XTV4N`; none if the account keeps those that it has. */
  recovery_codes: z.array(z.string()).readonly(),
});

/** Recovery codes, in plain text only here. */
export interface NewRecoveryCodes extends Readonly<z.output<typeof codes>> {}
const newCodes: z.ZodType<NewRecoveryCodes> = codes;

/** How support has checked who is asking. The audit keeps the word. */
export const VERIFIED_BY = ["in_person", "called_back", "vouched"] as const;
export type VerifiedBy = (typeof VERIFIED_BY)[number];

/** Input of an operation that takes something from a person who asks for it. */
export const checkedPerson = exactly({
  /** How you have checked who is asking: `in_person`, `called_back` on a known number, or `vouched` for by a colleague. */
  verified_by: z.enum(VERIFIED_BY, { error: "must be in_person, called_back or vouched" }).optional(),
});

export interface CheckedPerson extends Readonly<z.output<typeof checkedPerson>> {}

export const SUB = "SUB";
export const ONE = { target: ["sub"], columns: [] } as const;
export const FINDS = {
  effect: "read",
  role: "viewer",
  limited: false,
  confirm: "none",
  audit: [],
  errors: [],
} as const;
export const CHANGES = {
  ...ONE,
  role: "administrator",
  limited: false,
  confirm: "none",
  errors: ["not_found"],
} as const;
/** What support may do as well, but not with the account of an operator. */
export const HELPS = {
  ...CHANGES,
  effect: "verb",
  role: "support",
  confirm: "page",
  errors: ["not_found", "operator_protected"],
} as const;
export const ANY = { target: [SUB], input: {} } as const;

/** Called on `accounts`: a factor belongs to one account. */
export const factorRows = {
  /**
   * Shows the second factors of an account.
   * @returns `undefined` if there is no such account.
   */
  factors: operation({
    ...FINDS,
    ...ONE,
    input: NONE,
    output: factors,
    path: "factors",
    words: "factors list",
    example: ANY,
  }),
  /**
   * Adds an authenticator app whose secret another system has made, in Base32 (RFC 6238 with SHA-1, 6 digits, 30
   * seconds). Ends all sessions; if mail is configured, the person gets a mail. With the first factor come recovery codes.
   *
   * @throws AlreadyExists when the account has an app.
   * @throws NotFound if there is no such account.
   */
  addApp: operation({
    ...CHANGES,
    effect: "verb",
    input: appSecret,
    output: newCodes,
    secret: ["recovery_codes"],
    audit: ["account.app_added"],
    errors: ["not_found", "already_exists"],
    surfaces: ["library"],
    example: { target: [SUB], input: { secret: "GEZDGNBVGY3TQOJQ" } },
  }),
  /**
   * Removes a passkey by its id, or the authenticator app: `app`.
   *
   * For somebody who has lost it. Verify first who is asking: then the password is enough to sign in. Recovery codes go with the last
   * factor. Ends all sessions; if mail is configured, the person gets a mail.
   *
   * @returns `false` if there is no such factor.
   * @throws SignInError `last_sign_in_method` when it is the last passkey of an account without a password: use `removeFactors`.
   */
  removeFactor: operation({
    ...HELPS,
    effect: "remove",
    target: ["sub", "factor"],
    input: checkedPerson,
    output: NONE,
    confirm: "final",
    audit: ["account.factor_removed"],
    errors: ["last_sign_in_method", "operator_protected"],
    recent: true,
    missing: "second factor",
    path: "factors",
    words: "factors remove",
    example: { target: [SUB, "app"], input: { verified_by: "called_back" } },
  }),
  /**
   * Removes all passkeys, the authenticator app and the recovery codes.
   *
   * For somebody who has lost them. Verify first who is asking. Ends all sessions; if mail is configured, the person gets a mail. An
   * account without a password can then sign in only after a reset by mail.
   *
   * @returns `false` if the account has no factor.
   */
  removeFactors: operation({
    ...HELPS,
    effect: "remove",
    input: checkedPerson,
    output: NONE,
    confirm: "final",
    audit: ["account.factors_removed"],
    errors: ["operator_protected"],
    recent: true,
    missing: "second factor",
    path: "factors",
    words: "factors remove-all",
    example: { target: [SUB], input: { verified_by: "in_person" } },
  }),
  /**
   * Makes new recovery codes, which are shown once.
   *
   * Verify first who is asking: together with the password, one of these codes is enough to sign in. The old codes stop working, all
   * sessions end, and if mail is configured, the person gets a mail. Hand over the codes in a way that nobody else can read them.
   *
   * @throws NotFound if there is no such account.
   * @throws SignInError `not_applicable` if it has no second factor.
   */
  resetRecoveryCodes: operation({
    ...CHANGES,
    effect: "verb",
    input: NONE,
    output: newCodes,
    secret: ["recovery_codes"],
    confirm: "final",
    audit: ["account.recovery_codes_replaced"],
    errors: ["not_found", "not_applicable"],
    // Its answer holds codes, which are not for a browser, a log or a script.
    surfaces: ["library", "command"],
    words: "factors reset-recovery-codes",
    example: ANY,
  }),
};
