/**
 * A cookie that remembers which accounts have signed in on this browser, so that wrong guesses elsewhere cannot lock the
 * owner out of it. It holds a random id of the browser and, for each account, two signatures that don't identify anyone. A new
 * password invalidates the entry of its account.
 */
import { randomBytes } from "node:crypto";
import type { AccountRecord } from "../records/directory/directory.ts";
import type { Deployment } from "../config/configuration.ts";
import type { Signer } from "../core/sealing.ts";

/** What the cookie is read from and written to. */
interface CookieContext {
  readonly req: { readonly headers: { readonly cookie?: string | undefined } };
  readonly state: { readonly deployment: Pick<Deployment, "path" | "secure"> };
  append(field: string, value: string): void;
}

/** What the cookie depends on. */
type CookieAccount = Pick<AccountRecord, "sub" | "password_generation">;

export interface DeviceCookies {
  /** Whether the request has a device cookie, of whatever account. */
  has(ctx: CookieContext): boolean;
  /** The id of this browser, if it has signed in to this account with its current password. */
  read(ctx: CookieContext, account: CookieAccount): string | undefined;
  /** Remembers a sign-in, and keeps the four most recent other accounts. */
  write(ctx: CookieContext, account: CookieAccount): void;
  /** Deletes some cookies of the earlier format, which had one cookie for each account. */
  clearEarlier(ctx: CookieContext): void;
}

/** Seconds: 90 days. */
const LIFETIME = 7_776_000;
const MOST_ACCOUNTS = 5;
/** The id and, for each account, two concatenated signatures. */
const VALUE = /^[\w-]{22}(?:\.[\w-]{86}){1,5}$/;
const SIGNATURE = 43;
/** The end of the name of an earlier cookie: a digest of the account. */
const EARLIER_END = /^_[\w-]{8}$/;
/** Cookies to delete in one response: proxies limit the number of header fields. */
const MOST_CLEARED = 10;

/** The text of the first signature, which finds the account whatever its password is. */
const ofAccount = (id: string, { sub }: CookieAccount): string => JSON.stringify(["device", id, sub]);

/** The text of the second signature. */
const ofPassword = (id: string, { sub, password_generation = 0 }: CookieAccount): string =>
  JSON.stringify(["device", id, sub, password_generation]);

/** The cookies of the request. */
function cookiesOf({ req }: CookieContext): (readonly [name: string, value: string])[] {
  return (req.headers.cookie ?? "").split(/; */).map((pair) => {
    const [name = ""] = pair.split("=", 1);
    return [name, pair.slice(name.length + 1)];
  });
}

function setCookie(ctx: CookieContext, pair: string, path: string, lifetime: number): void {
  const secure = ctx.state.deployment.secure ? "; Secure" : "";
  ctx.append("Set-Cookie", `${pair}; Path=${path}; Max-Age=${lifetime}; HttpOnly; SameSite=Lax${secure}`);
}

/**
 * @param parts.signer cookies signed with any of its keys are valid.
 * @param parts.name name of the cookie.
 * @param parts.earlierName prefix of the names of the earlier cookies.
 */
export function createDeviceCookies({
  signer,
  name,
  earlierName,
}: {
  readonly signer: Signer;
  readonly name: string;
  readonly earlierName: string;
}): DeviceCookies {
  /** The id, and the signatures of each account. Of two cookies with this name, one was set by an attacker. */
  function parsed(ctx: CookieContext): readonly string[] {
    const values = cookiesOf(ctx).flatMap(([each, value]) => (each === name ? [value] : []));
    const [value = ""] = values;
    return values.length === 1 && VALUE.test(value) ? value.split(".") : [];
  }

  function isEarlier(each: string): boolean {
    return each.startsWith(`${earlierName}_`) && EARLIER_END.test(each.slice(earlierName.length));
  }

  return {
    has: (ctx) => parsed(ctx).length > 0,
    read(ctx, account) {
      const [id = "", ...entries] = parsed(ctx);
      const text = ofPassword(id, account);
      // All of them, so that the work is the same for each account.
      const isOwn = entries.map((entry) => signer.verify(text, entry.slice(SIGNATURE)));
      return isOwn.includes(true) ? id : undefined;
    },
    write(ctx, account) {
      const [id = randomBytes(16).toString("base64url"), ...entries] = parsed(ctx);
      const others = entries.filter(
        (entry) => !signer.verify(ofAccount(id, account), entry.slice(0, SIGNATURE)),
      );
      const own = signer.sign(ofAccount(id, account)) + signer.sign(ofPassword(id, account));
      const value = [id, own, ...others.slice(0, MOST_ACCOUNTS - 1)].join(".");
      setCookie(ctx, `${name}=${value}`, "/", LIFETIME);
    },
    clearEarlier(ctx) {
      const names = cookiesOf(ctx).flatMap(([each]) => (isEarlier(each) ? [each] : []));
      // Their path was that of a deployment, and a request does not show which.
      const paths = new Set(["/", ctx.state.deployment.path === "" ? "/" : ctx.state.deployment.path]);
      for (const each of [...new Set(names)].slice(0, MOST_CLEARED)) {
        for (const path of paths) setCookie(ctx, `${each}=`, path, 0);
      }
    },
  };
}
