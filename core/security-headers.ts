/** The security headers of all pages. */

/** What the function needs of a Koa context. */
interface HeaderTarget {
  set(field: string, value: string): void;
}

interface PageSecurity {
  /**
   * The CSP hash of the only style block of the page, as `sha256-…` in Base64. If it is left out, no styles are
   * allowed.
   */
  readonly styleHash?: string;
  /** CSP sources of the scripts of the page: addresses and hashes. Default: no script is allowed. */
  readonly scripts?: readonly string[];
  /**
   * Whether the page contains a script of oidc-provider, which adds its hash to an existing `script-src`. Default
   * `false`.
   */
  readonly libraryScript?: boolean;
  /** Whether the deployment uses https. If so, HSTS is sent. */
  readonly secure: boolean;
}

/** One year. */
const HSTS_MAX_AGE_SECONDS = 31_536_000;

/**
 * Sets Content-Security-Policy, X-Content-Type-Options, Referrer-Policy, X-Frame-Options, Cache-Control and, on
 * https, Strict-Transport-Security. Call it before oidc-provider renders, so that oidc-provider can add the hash of
 * its script to `script-src`.
 */
export function securityHeaders(
  ctx: HeaderTarget,
  { styleHash, scripts = [], libraryScript = false, secure }: PageSecurity,
): void {
  ctx.set("Content-Security-Policy", policy(styleHash, scripts, libraryScript));
  ctx.set("X-Content-Type-Options", "nosniff");
  // With `no-referrer`, browsers without `Sec-Fetch-Site` would send `Origin: null` with our own forms.
  ctx.set("Referrer-Policy", "same-origin");
  ctx.set("X-Frame-Options", "DENY");
  ctx.set("Cache-Control", "no-store");
  // Without includeSubDomains: other hosts of the domain may belong to others.
  if (secure) ctx.set("Strict-Transport-Security", `max-age=${HSTS_MAX_AGE_SECONDS}`);
}

/** Without form-action: browsers also apply it to redirects after a submitted form, which lead to the client. */
function policy(styleHash: string | undefined, scripts: readonly string[], libraryScript: boolean): string {
  const sources = scripts.length === 0 && !libraryScript ? ["'none'"] : scripts;
  return [
    "default-src 'none'",
    // An empty list allows nothing either, but a hash can be added to it. Browsers reject a hash next to 'none'.
    ["script-src", ...sources].join(" "),
    `style-src ${styleHash === undefined ? "'none'" : `'${styleHash}'`}`,
    "img-src 'self' data:",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
