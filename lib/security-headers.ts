/** The headers that every page of the service carries, so that all of them carry the same. */

/** What the function needs of a Koa context. */
interface HeaderTarget {
  set(field: string, value: string): void;
}

export interface PageSecurity {
  /** The CSP source of the page's one style block, as `sha256-…` in Base64; left out: no style at all. */
  readonly styleHash?: string;
  /** A script of oidc-provider's own: it adds its hash to a `script-src` that it finds. Default `false`. */
  readonly libraryScript?: boolean;
  /** The deployment is on https: the browser is told to stay there. */
  readonly secure: boolean;
}

/** Seconds for which a browser keeps to https: one year. */
const STAY_ON_HTTPS = 31_536_000;

/**
 * Sets Content-Security-Policy, X-Content-Type-Options, Referrer-Policy, X-Frame-Options, Cache-Control
 * and, on https, Strict-Transport-Security. Set it before oidc-provider renders: it adds the hash of its own
 * auto-submitting script to a `script-src` that it finds.
 */
export function securityHeaders(
  ctx: HeaderTarget,
  { styleHash, libraryScript = false, secure }: PageSecurity,
): void {
  ctx.set("Content-Security-Policy", policy(styleHash, libraryScript));
  ctx.set("X-Content-Type-Options", "nosniff");
  ctx.set("Referrer-Policy", "no-referrer");
  ctx.set("X-Frame-Options", "DENY");
  ctx.set("Cache-Control", "no-store");
  // Without includeSubDomains: the hosts beside this one belong to somebody else.
  if (secure) ctx.set("Strict-Transport-Security", `max-age=${STAY_ON_HTTPS}`);
}

/** No form-action: browsers apply it to the redirects after a submitted form, which lead to the client. */
function policy(styleHash: string | undefined, libraryScript: boolean): string {
  return [
    "default-src 'none'",
    // An empty list allows nothing either, and takes a hash; beside 'none' browsers complain of one.
    libraryScript ? "script-src" : "script-src 'none'",
    `style-src ${styleHash === undefined ? "'none'" : `'${styleHash}'`}`,
    "img-src 'self' data:",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
