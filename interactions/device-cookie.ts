/**
 * A cookie that remembers which accounts have signed in on this browser, so that wrong guesses elsewhere cannot lock the
 * owner out of it. It holds a random id of the browser and, for each account, two signatures that don't identify anyone. A new
 * password invalidates the entry of its account.
 */
import { randomBytes } from "node:crypto";
import { passwordGeneration } from "../accounts/account.ts";
import type { DeviceAccount } from "../accounts/limits/password-check.ts";
import type { Deployment } from "../config/configuration.ts";
import { type CookieRequest, type CookieResponse, readCookie, setCookie } from "../core/cookies.ts";
import type { Signer } from "../core/sealing.ts";

/** What the cookie is read from and written to. */
interface CookieContext extends CookieRequest, CookieResponse {
  readonly exchange: { readonly deployment: Pick<Deployment, "secure"> };
}

export interface DeviceCookies {
  /** Whether the request has a device cookie, of whatever account. */
  has(ctx: CookieContext): boolean;
  /** The id of this browser, if it has signed in to this account with its current password. */
  read(ctx: CookieContext, account: DeviceAccount): string | undefined;
  /** The same for the form with the password, also if the password was chosen in this browser by a reset. */
  readAtForm(ctx: CookieContext, account: DeviceAccount): string | undefined;
  /** Remembers a sign-in, and keeps the four most recent other accounts. */
  write(ctx: CookieContext, account: DeviceAccount): void;
  /** Remembers a reset. Until a complete sign-in it counts at the form only. */
  writeReset(ctx: CookieContext, account: DeviceAccount): void;
  /** The way that the page offers first: a passkey, or the provider with this key, as sent: it may be of no provider. */
  lastWay(ctx: CookieRequest): { readonly prefers?: "passkey"; readonly lastProvider?: string };
  /** The cookie that says that this browser need not show the second factor, as sent: it may be anything. */
  remembered(ctx: CookieRequest): string | undefined;
  remember(ctx: CookieContext, browser: { readonly cookie: string; readonly lifetimeSeconds: number }): void;
  /**
   * From now on the page offers passkeys first, or the provider with this key. The cookie says nothing else, so no one can be told
   * apart by it.
   */
  keepLastWay(ctx: CookieContext, way: "passkey" | { readonly provider: string }): void;
}

/** 90 days. */
const LIFETIME_SECONDS = 7_776_000;
const MAX_ACCOUNTS = 5;
/** The id and, for each account, two concatenated signatures. */
const VALUE = /^[\w-]{22}(?:\.[\w-]{86}){1,5}$/;
const SIGNATURE_CHARACTERS = 43;
/** The value for a passkey: no provider has such a key. */
const PASSKEY = "1";
const PROVIDER_KEY = /^[a-z][a-z0-9-]{0,31}$/;

/** The text of the first signature, which finds the account whatever its password is. */
const ofAccount = (id: string, { sub }: DeviceAccount): string => JSON.stringify(["device", id, sub]);

/** The text of the second signature. */
const ofPassword = (id: string, account: DeviceAccount): string =>
  JSON.stringify(["device", id, account.sub, passwordGeneration(account)]);

/** The second signature of a browser that has not shown more than the mail of a reset. */
const ofReset = (id: string, account: DeviceAccount): string => `reset ${ofPassword(id, account)}`;

/**
 * @param parts.signer cookies signed with any of its keys are valid.
 * @param parts.name name of the cookie.
 * @param parts.wayName name of the cookie that says that a passkey or a provider was used here.
 * @param parts.rememberedName name of the cookie of a browser that need not show the second factor.
 */
export function createDeviceCookies({
  signer,
  name,
  wayName,
  rememberedName,
}: {
  readonly signer: Signer;
  readonly name: string;
  readonly wayName: string;
  readonly rememberedName: string;
}): DeviceCookies {
  /** The id, and the signatures of each account. */
  function parsed(ctx: CookieContext): readonly string[] {
    const value = readCookie(ctx, name) ?? "";
    return VALUE.test(value) ? value.split(".") : [];
  }

  /** @param texts of second signatures that count. */
  function readAs(
    ctx: CookieContext,
    account: DeviceAccount,
    texts: readonly (typeof ofPassword)[],
  ): string | undefined {
    const [id = "", ...entries] = parsed(ctx);
    // All of them, so that the work is the same for each account.
    const isOwn = texts.flatMap((text) =>
      entries.map((entry) => signer.verify(text(id, account), entry.slice(SIGNATURE_CHARACTERS))),
    );
    return isOwn.includes(true) ? id : undefined;
  }

  function writeAs(ctx: CookieContext, account: DeviceAccount, text: typeof ofPassword): void {
    const [id = randomBytes(16).toString("base64url"), ...entries] = parsed(ctx);
    const others = entries.filter(
      (entry) => !signer.verify(ofAccount(id, account), entry.slice(0, SIGNATURE_CHARACTERS)),
    );
    const own = signer.sign(ofAccount(id, account)) + signer.sign(text(id, account));
    const value = [id, own, ...others.slice(0, MAX_ACCOUNTS - 1)].join(".");
    const { secure } = ctx.exchange.deployment;
    setCookie(ctx, { name, value, lifetimeSeconds: LIFETIME_SECONDS, secure });
  }

  return {
    has: (ctx) => parsed(ctx).length > 0,
    read: (ctx, account) => readAs(ctx, account, [ofPassword]),
    readAtForm: (ctx, account) => readAs(ctx, account, [ofPassword, ofReset]),
    write: (ctx, account) => writeAs(ctx, account, ofPassword),
    writeReset: (ctx, account) => writeAs(ctx, account, ofReset),
    remembered: (ctx) => readCookie(ctx, rememberedName),
    remember(ctx, { cookie: value, lifetimeSeconds }) {
      const { secure } = ctx.exchange.deployment;
      setCookie(ctx, { name: rememberedName, value, lifetimeSeconds, secure });
    },
    lastWay(ctx) {
      const value = readCookie(ctx, wayName) ?? "";
      if (value === PASSKEY) return { prefers: "passkey" };
      return PROVIDER_KEY.test(value) ? { lastProvider: value } : {};
    },
    keepLastWay(ctx, way) {
      const { secure } = ctx.exchange.deployment;
      const value = way === "passkey" ? PASSKEY : way.provider;
      setCookie(ctx, { name: wayName, value, lifetimeSeconds: LIFETIME_SECONDS, secure });
    },
  };
}
