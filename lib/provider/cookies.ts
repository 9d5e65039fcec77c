/** Names and flags of the cookies (decisions.md, Cookies). */
import { createSecretKey, hash } from "node:crypto";
import type { Configuration as ProviderConfiguration } from "oidc-provider";
import type { Configuration } from "../../config/configuration.ts";
import { createSigner, type Signer } from "../sealing.ts";

/** What a cookie's name starts with, so that two services on one host don't meet. */
export function cookieName(configuration: Configuration, purpose: string): string {
  const { oauth2, openid } = configuration.deployments;
  const urls = [oauth2?.url ?? "", openid?.url ?? ""].join(" ");
  return `${configuration.cookies.prefix}sis_${purpose}_${hash("sha256", urls, "hex").slice(0, 8)}`;
}

/** Whether every deployment is on https: only then a cookie name may promise it. */
export function allSecure(configuration: Configuration): boolean {
  const { oauth2, openid } = configuration.deployments;
  return [oauth2, openid].every((deployment) => deployment?.secure ?? true);
}

/** The session cookie: bound to the host on https, to the domain where one is configured. */
export function sessionCookieName(configuration: Configuration): string {
  const name = cookieName(configuration, "session");
  if (!allSecure(configuration)) return name;
  return `${configuration.cookies.domain === undefined ? "__Host-" : "__Secure-"}${name}`;
}

/** The device cookie: always of one host, so on https its name says so. */
export function deviceCookieName(configuration: Configuration): string {
  return `${allSecure(configuration) ? "__Host-" : ""}${cookieName(configuration, "device")}`;
}

/** What Koa's cookies ask of the signing keys. */
export interface CookieSignatures extends Signer {
  /** 0 when one of the keys made the signature, else -1. */
  index(data: string, signature: string): number;
}

/**
 * Koa's cookies sign a cookie again when `index` says that a later key signed it, and lose its path, domain and
 * lifetime: the browser then has two signatures for one session, or none after it was closed. So they are told that it
 * was the first key. The library signs the session cookie with that one at the next authorization.
 * @param keys `keys.cookies`: the first signs, all verify.
 */
export function cookieSignatures(keys: readonly string[]): CookieSignatures {
  const signer = createSigner(keys.map((key) => createSecretKey(key, "utf8")));
  return { ...signer, index: (data, signature) => (signer.verify(data, signature) ? 0 : -1) };
}

/** `cookies` of oidc-provider. */
export function cookieSettings(
  configuration: Configuration,
  keys: readonly string[],
): NonNullable<ProviderConfiguration["cookies"]> {
  const { domain } = configuration.cookies;
  const flags = {
    signed: true,
    httpOnly: true,
    sameSite: "lax" as const,
    overwrite: true,
    ...(domain === undefined ? {} : { domain }),
  };
  return {
    keys: cookieSignatures(keys),
    names: {
      session: sessionCookieName(configuration),
      interaction: cookieName(configuration, "interaction"),
      resume: cookieName(configuration, "resume"),
    },
    // A form that another site posts to the authorization endpoint brings no other kind of session cookie.
    long: {
      ...flags,
      path: "/",
      ...(configuration.deployments.openid?.post && { sameSite: "none" as const }),
    },
    short: flags,
  };
}

/** Two session cookies at once: neither is used, for one of them was put there by somebody else. */
export function withoutDoubleCookie(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  const pairs = header.split(/; */);
  const named = (wanted: string): string[] => pairs.filter((pair) => pair.startsWith(`${wanted}=`));
  if (named(name).length < 2 && named(`${name}.sig`).length < 2) return header;
  return pairs.filter((pair) => !pair.startsWith(`${name}=`) && !pair.startsWith(`${name}.sig=`)).join("; ");
}
