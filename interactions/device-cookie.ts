/**
 * A cookie that says to which accounts this browser has signed in: nobody can lock the owner of an account out of such a
 * browser by guessing elsewhere. It holds a random id of the browser and, for each account, signatures that only this
 * service can make and that name nobody. A new password ends what is remembered of its account.
 */
import { randomBytes } from "node:crypto";
import type { AccountRecord } from "../lib/directory/directory.ts";
import type { Deployment } from "../config/configuration.ts";
import type { Signer } from "../lib/sealing.ts";

/** What the cookie is read from and written to. */
interface CookieContext {
  readonly req: { readonly headers: { readonly cookie?: string | undefined } };
  readonly state: { readonly deployment: Pick<Deployment, "path" | "secure"> };
  append(field: string, value: string): void;
}

/** An account as far as the cookie depends on it. */
type Remembered = Pick<AccountRecord, "sub" | "password_generation">;

export interface DeviceCookies {
  /** The id of this browser, when it has signed in to the account under the password that the account has now. */
  read(ctx: CookieContext, account: Remembered): string | undefined;
  /** Remembers a sign-in, and with it the accounts of the four sign-ins before. */
  write(ctx: CookieContext, account: Remembered): void;
  /** Takes away some cookies of the kind that there was before this one: one for each account, for a year. */
  clearEarlier(ctx: CookieContext): void;
}

/** Seconds: 90 days. */
const LIFETIME = 7_776_000;
const MOST_ACCOUNTS = 5;
/** The id, and for each account two signatures without anything between them. */
const VALUE = /^[\w-]{22}(?:\.[\w-]{86}){1,5}$/;
const SIGNATURE = 43;
/** Of the name of an earlier cookie: a digest of the account. */
const EARLIER_END = /^_[\w-]{8}$/;
/** In one answer: proxies take only so many header fields. */
const MOST_CLEARED = 10;

/** What the first signature of an account is about: it finds the account whatever its password is. */
const ofAccount = (id: string, { sub }: Remembered): string => JSON.stringify(["device", id, sub]);

/** What the second signature is about. */
const ofPassword = (id: string, { sub, password_generation = 0 }: Remembered): string =>
  JSON.stringify(["device", id, sub, password_generation]);

/** Names and values of the request's cookies. */
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
 * @param parts.signer cookies under any of its keys count.
 * @param parts.name of the cookie.
 * @param parts.earlierName what the names of the earlier cookies begin with.
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
  /** The id and the signatures of each account; of two cookies one was put there by somebody else. */
  function parsed(ctx: CookieContext): readonly string[] {
    const values = cookiesOf(ctx).flatMap(([each, value]) => (each === name ? [value] : []));
    const [value = ""] = values;
    return values.length === 1 && VALUE.test(value) ? value.split(".") : [];
  }

  function isEarlier(each: string): boolean {
    return each.startsWith(`${earlierName}_`) && EARLIER_END.test(each.slice(earlierName.length));
  }

  return {
    read(ctx, account) {
      const [id = "", ...entries] = parsed(ctx);
      const text = ofPassword(id, account);
      return entries.some((entry) => signer.verify(text, entry.slice(SIGNATURE))) ? id : undefined;
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
      // They were written for the path of a deployment, and a request does not say for which.
      const paths = new Set(["/", ctx.state.deployment.path === "" ? "/" : ctx.state.deployment.path]);
      for (const each of [...new Set(names)].slice(0, MOST_CLEARED)) {
        for (const path of paths) setCookie(ctx, `${each}=`, path, 0);
      }
    },
  };
}
