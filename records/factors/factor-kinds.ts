/**
 * The second factors of an account, and the browsers in which it is not asked for one. The account's own record says
 * which factors it has (`AccountFactors`); the records here are read only when a factor is used or changed.
 */
import { hash } from "node:crypto";
import { ACCOUNT } from "../directory/directory-kinds.ts";
import { defineKind, type Kind } from "../kinds.ts";

/** An authenticator app (RFC 6238). Times of factors are in seconds since the epoch. */
export interface StoredApp {
  readonly sub: string;
  /** The secret in Base32, sealed for {@link appContext}. */
  readonly sealed: string;
  readonly added_at: number;
  /** `null`: never, apart from the code that added it. */
  readonly last_used_at: number | null;
  /** The time step of the last code that was accepted. Codes of this step and of earlier ones are refused. */
  readonly last_step: number;
  /** Wrong codes since the last right one. */
  readonly wrong_codes: number;
}

/** The length of a time step of an app. */
export const STEP_MS = 30_000;

/** The sealing context of an app's secret. */
export const appContext = (sub: string): string => `authenticator-app ${sub}`;

export const AUTHENTICATOR_APP: Kind<StoredApp> = defineKind<StoredApp>({
  name: "authenticator-app",
  holds: "the authenticator app of an account, its secret sealed with `keys.secrets`",
  key: "the `sub`",
  keyOf: ({ sub }) => sub,
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  sealed: ({ sealed, ...rest }, replace) => ({ ...rest, sealed: replace(appContext(rest.sub), sealed) }),
  store: "storage",
  exported: true,
  afterRestore: {
    becomes: "without the codes up to now and of the next 30 seconds: they may have been used",
    change: (app, now) => ({ ...app, last_step: Math.max(app.last_step, Math.floor(now / STEP_MS) + 1) }),
  },
  afterReset: "removed",
  personal: "the `sub`, when the app was added and last used",
});

/** A passkey (WebAuthn). Binary values are in Base64url. */
export interface StoredPasskey {
  /** The credential id, which the authenticator has chosen. */
  readonly id: string;
  readonly sub: string;
  /** A COSE key. */
  readonly public_key: string;
  /** The signature counter; 0 for authenticators without one. */
  readonly counter: number;
  readonly transports: readonly string[];
  /** Whether it can be copied to other devices. It never changes. */
  readonly backup_eligible: boolean;
  /** Whether it was copied, according to its last use. */
  readonly backed_up: boolean;
  /** The domain that it was made for. */
  readonly rp_id: string;
  /** Chosen by the person. */
  readonly name: string;
  readonly added_at: number;
  readonly last_used_at: number | null;
}

export const PASSKEY: Kind<StoredPasskey> = defineKind<StoredPasskey>({
  name: "passkey",
  holds: "a passkey of an account",
  key: "the credential id, so that it belongs to one account",
  keyOf: ({ id }) => id,
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: "the `sub`, the name that the person gave it, when it was added and last used",
});

export interface StoredRecoveryCodes {
  readonly sub: string;
  /** HMACs of the codes that are left. */
  readonly codes: readonly string[];
}

export const RECOVERY_CODES: Kind<StoredRecoveryCodes> = defineKind<StoredRecoveryCodes>({
  name: "recovery-codes",
  holds: "the remaining recovery codes of an account, as HMACs",
  key: "the `sub`",
  keyOf: ({ sub }) => sub,
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  store: "storage",
  exported: true,
  afterRestore: {
    becomes: "empty: any code may have been used",
    change: ({ sub }) => ({ sub, codes: [] }),
  },
  personal: "the `sub`",
});

/** A browser in which a person is not asked for the second factor. */
export interface StoredRememberedBrowser {
  /** The digest of its cookie and the account: see {@link rememberedBrowserId}. */
  readonly id: string;
  readonly sub: string;
  /** The generation of the account's factors at the time. With another one, the browser is no longer remembered. */
  readonly generation: number;
  /** Words of a fixed list; `null` if unknown. */
  readonly browser: string | null;
  readonly system: string | null;
  readonly added_at: number;
  readonly expires_at: number;
}

/** The digest under which a browser is stored, so that the storage does not reveal its cookie. */
export function rememberedBrowserId(cookie: string, sub: string): string {
  return hash("sha256", JSON.stringify(["remembered browser", cookie, sub]), "base64url");
}

export const REMEMBERED_BROWSER: Kind<StoredRememberedBrowser, "account"> = defineKind({
  name: "remembered-browser",
  holds: "a browser in which an account is not asked for its second factor",
  key: "the SHA-256 of the browser's cookie and the `sub`",
  keyOf: ({ id }) => id,
  index: { account: ({ sub, added_at }) => [{ at: sub, order: added_at }] },
  indexFor: { account: "the list of remembered browsers on the account pages" },
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  expires: "after `secondFactor.remember` days",
  expiresAt: ({ expires_at }) => expires_at * 1000,
  store: "storage",
  exported: true,
  afterRestore: "removed",
  personal: "the `sub`, the families of browser and system, and when it was remembered",
});

/** A challenge that a passkey has answered and that can't be used again. */
interface UsedChallenge {
  readonly digest: string;
  /** Milliseconds since the epoch. */
  readonly expires_at_ms: number;
}

export const USED_CHALLENGE: Kind<UsedChallenge> = defineKind<UsedChallenge>({
  name: "used-challenge",
  holds: "a challenge that was answered with a passkey",
  key: "the SHA-256 of the challenge",
  keyOf: ({ digest }) => digest,
  expires: "with the challenge",
  expiresAt: ({ expires_at_ms }) => expires_at_ms,
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});

/** A domain for which passkeys were made. A start under another one is refused: see `relying-party.ts`. */
interface UsedRpId {
  readonly rp_id: string;
}

export const USED_RP_ID: Kind<UsedRpId> = defineKind<UsedRpId>({
  name: "passkey-domain",
  holds: "a domain (`rpId`) that passkeys were made for",
  key: "the domain",
  keyOf: ({ rp_id }) => rp_id,
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});
