/** The service's own cookies: how all of them are read and written. Koa and oidc-provider read those of the session. */

/** What cookies are read from. */
export interface CookieRequest {
  readonly req: { readonly headers: { readonly cookie?: string | undefined } };
}

/** What cookies are written to. */
export interface CookieResponse {
  append(field: string, value: string): void;
}

interface CookieOptions {
  readonly name: string;
  readonly value: string;
  /** 0 deletes the cookie. */
  readonly lifetimeSeconds: number;
  /** Whether the cookie is sent over https only. */
  readonly secure: boolean;
  /** Default: `/`. */
  readonly path?: string;
  /** Default: only the host itself. */
  readonly domain?: string | undefined;
  /** Default: `Lax`. */
  readonly sameSite?: "Lax" | "None";
}

/** The value of a `Set-Cookie` header. Scripts can't read the cookie. */
export function cookieHeader(options: CookieOptions): string {
  const { name, value, lifetimeSeconds, secure, path = "/", domain, sameSite = "Lax" } = options;
  const flags = [
    `Path=${path}`,
    `Max-Age=${lifetimeSeconds}`,
    "HttpOnly",
    `SameSite=${sameSite}`,
    ...(domain === undefined ? [] : [`Domain=${domain}`]),
    ...(secure ? ["Secure"] : []),
  ];
  return `${name}=${value}; ${flags.join("; ")}`;
}

export function setCookie(ctx: CookieResponse, options: CookieOptions): void {
  ctx.append("Set-Cookie", cookieHeader(options));
}

/** The cookies of a `Cookie` header, as `name=value`. */
export function cookiePairs(header: string | undefined): readonly string[] {
  return header === undefined ? [] : header.split(/; */);
}

/** Whether the request has a cookie of this name, once or repeatedly. */
export function hasCookie({ req }: CookieRequest, name: string): boolean {
  return cookiePairs(req.headers.cookie).some((pair) => pair.startsWith(`${name}=`));
}

/** The cookie of this name. If there are two, a sibling host may have planted either of them, so both are ignored. */
export function readCookie({ req }: CookieRequest, name: string): string | undefined {
  const found = cookiePairs(req.headers.cookie).filter((pair) => pair.startsWith(`${name}=`));
  return found.length === 1 ? found[0]?.slice(name.length + 1) : undefined;
}
