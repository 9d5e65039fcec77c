/** Names and flags of the cookies (decisions.md, Cookies). */
import { createSecretKey, hash } from "node:crypto";
import type { ParameterizedContext } from "koa";
import type { Configuration as ProviderConfiguration, Provider } from "oidc-provider";
import type { Configuration } from "../../config/configuration.ts";
import { cookieHeader, cookiePairs } from "../../core/cookies.ts";
import { createSigner, type Signer } from "../../core/sealing.ts";

/** The name contains a hash of the deployments' URLs, so two services on one host have different cookies. */
export function cookieName(configuration: Configuration, purpose: string): string {
  const { oauth2, openid } = configuration.deployments;
  const urls = [oauth2?.url ?? "", openid?.url ?? ""].join(" ");
  return `${configuration.cookies.prefix}sis_${purpose}_${hash("sha256", urls, "hex").slice(0, 8)}`;
}

/** Whether every deployment uses https. Only then can a cookie name have a `__Host-` or `__Secure-` prefix. */
export function allSecure(configuration: Configuration): boolean {
  const { oauth2, openid } = configuration.deployments;
  return [oauth2, openid].every((deployment) => deployment?.secure ?? true);
}

/** With https, the cookie is bound to the host, or to the configured domain. */
function boundName(configuration: Configuration, purpose: string): string {
  const name = cookieName(configuration, purpose);
  if (!allSecure(configuration)) return name;
  return `${configuration.cookies.domain === undefined ? "__Host-" : "__Secure-"}${name}`;
}

export const sessionCookieName = (configuration: Configuration): string =>
  boundName(configuration, "session");

/** The name of the cookie that tells browsers apart. */
export const browserCookieName = (configuration: Configuration): string =>
  boundName(configuration, "browser");

/** The cookies that browsers keep between sign-ins. With https, they are bound to the host. */
export function hostCookieName(
  configuration: Configuration,
  purpose: "device" | "way" | "remembered",
): string {
  return `${allSecure(configuration) ? "__Host-" : ""}${cookieName(configuration, purpose)}`;
}

/** The methods of the signing keys that Koa's cookies use. */
export interface CookieSignatures extends Signer {
  /** 0 when one of the keys made the signature, else -1. */
  index(data: string, signature: string): number;
}

/**
 * Koa signs a cookie again if `index` reports another key than the first, and loses its path, domain and lifetime, so
 * the browser gets two signatures for one session, or none after it was closed. `index` therefore always reports the
 * first key. oidc-provider signs the session cookie with it at the next authorization.
 * @param keys `keys.cookies`: the first signs, all verify.
 */
export function cookieSignatures(keys: readonly string[]): CookieSignatures {
  const signer = createSigner(keys.map((key) => createSecretKey(key, "utf8")));
  return { ...signer, index: (data, signature) => (signer.verify(data, signature) ? 0 : -1) };
}

/** The flags of the cookies of a sign-in. */
function shortFlags({ cookies: { domain } }: Configuration) {
  return {
    signed: true,
    httpOnly: true,
    sameSite: "lax" as const,
    overwrite: true,
    ...(domain === undefined ? {} : { domain }),
  };
}

/** `cookies` of oidc-provider. */
export function cookieSettings(
  configuration: Configuration,
  keys: readonly string[],
): NonNullable<ProviderConfiguration["cookies"]> {
  const flags = shortFlags(configuration);
  return {
    keys: cookieSignatures(keys),
    names: {
      session: sessionCookieName(configuration),
      interaction: cookieName(configuration, "interaction"),
      resume: cookieName(configuration, "resume"),
    },
    // Browsers only send such a session cookie with a form that another site posts to the authorization endpoint.
    long: {
      ...flags,
      path: "/",
      ...(configuration.deployments.openid?.post && { sameSite: "none" as const }),
    },
    short: flags,
  };
}

/** The parts of a running sign-in of oidc-provider that are needed to set its cookies again. */
interface CookiesOf {
  readonly uid: string;
  readonly returnTo: string;
}

/**
 * Sets the two cookies of a running sign-in again, as oidc-provider set them when it began (interactions.js in
 * lib/actions/authorization), with a new lifetime. oidc-provider has no call for that.
 * @param path that of the sign-in's pages.
 */
export function renewSignInCookies(
  provider: Provider,
  { req, res }: Pick<ParameterizedContext, "req" | "res">,
  { uid, returnTo }: CookiesOf,
  settings: {
    readonly configuration: Configuration;
    readonly path: string;
    readonly secure: boolean;
    readonly lifetimeSeconds: number;
  },
): void {
  const { configuration, path, secure, lifetimeSeconds } = settings;
  const ctx = provider.createContext(req, res);
  Object.defineProperty(ctx.request, "protocol", { value: secure ? "https" : "http" });
  const options = { ...shortFlags(configuration), maxAge: lifetimeSeconds * 1_000 };
  ctx.cookies.set(cookieName(configuration, "interaction"), uid, { ...options, path });
  const { domain: _domain, ...bound } = options;
  ctx.cookies.set(cookieName(configuration, "resume"), uid, { ...bound, path: new URL(returnTo).pathname });
}

/** `Set-Cookie` headers that remove the session cookie from a browser. */
export function endedSessionCookies(configuration: Configuration): readonly string[] {
  const { domain } = configuration.cookies;
  const session = sessionCookieName(configuration);
  const gone = { value: "", lifetimeSeconds: 0, secure: allSecure(configuration), domain };
  return [session, `${session}.sig`].map((name) => cookieHeader({ name, ...gone }));
}

/** Removes the session cookie from the header if it occurs twice: an attacker may have set one of them. */
export function withoutDoubleCookie(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  const pairs = cookiePairs(header);
  const named = (wanted: string): readonly string[] => pairs.filter((pair) => pair.startsWith(`${wanted}=`));
  if (named(name).length < 2 && named(`${name}.sig`).length < 2) return header;
  return pairs.filter((pair) => !pair.startsWith(`${name}=`) && !pair.startsWith(`${name}.sig=`)).join("; ");
}
