/** The security headers of all pages. */

/** What the function needs of a Koa context. */
interface HeaderTarget {
  set(field: string, value: string): void;
}

export interface PageSecurity {
  /**
   * The CSP hash of the only style block of the page, as `sha256-…` in Base64. If it is left out, no styles are
   * allowed.
   */
  readonly styleHash?: string;
  /** The CSP hash of the only script of the page. Default: no script is allowed. */
  readonly scriptHash?: string;
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
  { styleHash, scriptHash, libraryScript = false, secure }: PageSecurity,
): void {
  ctx.set("Content-Security-Policy", policy(styleHash, scriptHash, libraryScript));
  ctx.set("X-Content-Type-Options", "nosniff");
  ctx.set("Referrer-Policy", "no-referrer");
  ctx.set("X-Frame-Options", "DENY");
  ctx.set("Cache-Control", "no-store");
  // Without includeSubDomains: other hosts of the domain may belong to others.
  if (secure) ctx.set("Strict-Transport-Security", `max-age=${HSTS_MAX_AGE_SECONDS}`);
}

/** Without form-action: browsers also apply it to redirects after a submitted form, which lead to the client. */
function policy(
  styleHash: string | undefined,
  scriptHash: string | undefined,
  libraryScript: boolean,
): string {
  const script = scriptHash === undefined ? "'none'" : `'${scriptHash}'`;
  return [
    "default-src 'none'",
    // An empty list allows nothing either, but a hash can be added to it. Browsers reject a hash next to 'none'.
    libraryScript ? "script-src" : `script-src ${script}`,
    `style-src ${styleHash === undefined ? "'none'" : `'${styleHash}'`}`,
    "img-src 'self' data:",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
