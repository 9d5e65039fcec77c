/** A cookie that says "this browser signed in to this account before": nobody can lock such a browser out. */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { type SecretKey, hmac } from "../lib/sealing.ts";

/** What the cookie is read from and written to. */
interface CookieContext {
  readonly req: { readonly headers: { readonly cookie?: string | undefined } };
  append(field: string, value: string): void;
}

export interface DeviceCookies {
  /** The id of the device, when the cookie of this account is there and ours. */
  read(ctx: CookieContext, account: string): string | undefined;
  /** Gives the browser the cookie of this account, or prolongs it. */
  write(ctx: CookieContext, account: string, device: string | undefined, path: string, secure: boolean): void;
}

/** Seconds: a year. */
const LIFETIME = 31_536_000;

const VALUE = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/;

/**
 * @param key signs; another key makes all devices unknown.
 * @param prefix of the name; the name ends in a keyed digest, so that it does not say whose it is.
 */
export function createDeviceCookies(key: SecretKey, prefix: string): DeviceCookies {
  const nameOf = (account: string): string => `${prefix}_${hmac(key, `name ${account}`).slice(0, 8)}`;
  const signature = (device: string, account: string): string => hmac(key, `device ${device} ${account}`);
  return {
    read(ctx, account) {
      const name = `${nameOf(account)}=`;
      const values = (ctx.req.headers.cookie ?? "").split(/; */).filter((pair) => pair.startsWith(name));
      const parts = values.length === 1 ? VALUE.exec(values[0]!.slice(name.length)) : null;
      const [, device, signed] = parts ?? [];
      if (device === undefined || signed === undefined) return undefined;
      const expected = Buffer.from(signature(device, account));
      return timingSafeEqual(expected, Buffer.from(signed)) ? device : undefined;
    },
    write(ctx, account, device, path, secure) {
      const id = device ?? randomBytes(16).toString("base64url");
      const flags = `Path=${path === "" ? "/" : path}; Max-Age=${LIFETIME}; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`;
      ctx.append("Set-Cookie", `${nameOf(account)}=${id}.${signature(id, account)}; ${flags}`);
    },
  };
}
