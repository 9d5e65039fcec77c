/** Cookies as browsers handle them (RFC 6265): by host, not by port, and by path. */
import { parseSetCookie, type Cookie as SetCookie } from "set-cookie-parser";

/** One cookie in the jar. */
export interface Cookie {
  readonly name: string;
  readonly value: string;
  /** Without a leading dot. */
  readonly domain: string;
  /** Whether only the host itself gets the cookie, not its subdomains. */
  readonly hostOnly: boolean;
  readonly path: string;
  readonly secure: boolean;
  readonly httpOnly: boolean;
  /** In lower case; empty if it was not set. */
  readonly sameSite: string;
  /** Milliseconds since the epoch; `undefined`: until the browser is closed. */
  readonly expires: number | undefined;
}

/** Whether browsers send `Secure` cookies to this address. */
function isTrustworthy({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || /^(?:127\.[\d.]+|\[::1\]|(?:.+\.)?localhost)$/.test(hostname);
}

function isUnder(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`);
}

function pathFits(path: string, cookiePath: string): boolean {
  return path === cookiePath || path.startsWith(cookiePath.endsWith("/") ? cookiePath : `${cookiePath}/`);
}

function defaultPath({ pathname }: URL): string {
  return pathname.slice(0, Math.max(1, pathname.lastIndexOf("/")));
}

/** `Max-Age` wins over `Expires`; an invalid one is ignored. */
function endOf({ maxAge, expires }: SetCookie, now: number): number | undefined {
  if (maxAge !== undefined && !Number.isNaN(maxAge)) return now + maxAge * 1000;
  const end = expires?.getTime() ?? Number.NaN;
  return Number.isNaN(end) ? undefined : end;
}

/** Reads one `Set-Cookie`; `undefined` if a browser would reject it from this address. */
export function readCookie(header: string, url: URL, now: number): Cookie | undefined {
  const [set] = parseSetCookie(header, { decodeValues: false, split: false });
  if (set === undefined || set.name === "") return undefined;
  const { name, secure = false } = set;
  const domain = set.domain?.replace(/^\./, "").toLowerCase();
  const cookie: Cookie = {
    name,
    value: set.value,
    domain: domain ?? url.hostname,
    hostOnly: domain === undefined,
    path: set.path?.startsWith("/") === true ? set.path : defaultPath(url),
    secure,
    httpOnly: set.httpOnly ?? false,
    sameSite: set.sameSite?.toLowerCase() ?? "",
    expires: endOf(set, now),
  };
  if (domain !== undefined && !isUnder(url.hostname, domain)) return undefined;
  if (secure && !isTrustworthy(url)) return undefined;
  if (name.startsWith("__Secure-") && !secure) return undefined;
  if (name.startsWith("__Host-") && !(secure && cookie.hostOnly && cookie.path === "/")) return undefined;
  return cookie;
}

/** The cookies of one browser. */
export class CookieJar {
  readonly #cookies = new Map<string, Cookie>();
  readonly #now: () => number;

  /** @param now milliseconds since the epoch; default the system's clock. */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Sets the cookies of a response from this address; expired ones are deleted. */
  take(url: URL, setCookies: readonly string[]): void {
    for (const header of setCookies) {
      const cookie = readCookie(header, url, this.#now());
      if (cookie === undefined) continue;
      const key = `${cookie.domain} ${cookie.path} ${cookie.name}`;
      this.#cookies.delete(key);
      if (!this.#isOver(cookie)) this.#cookies.set(key, cookie);
    }
  }

  /** The cookies for a request to this address, longer paths first. */
  for(url: URL): Cookie[] {
    return [...this.#cookies.values()]
      .filter((cookie) => !this.#isOver(cookie))
      .filter(({ domain, hostOnly }) => (hostOnly ? url.hostname === domain : isUnder(url.hostname, domain)))
      .filter(({ path }) => pathFits(url.pathname, path))
      .filter(({ secure }) => !secure || isTrustworthy(url))
      .toSorted((one, other) => other.path.length - one.path.length);
  }

  /** The value of the `Cookie` header; empty when there are none. */
  header(url: URL): string {
    return this.for(url)
      .map(({ name, value }) => `${name}=${value}`)
      .join("; ");
  }

  /** All cookies. */
  all(): Cookie[] {
    return [...this.#cookies.values()].filter((cookie) => !this.#isOver(cookie));
  }

  /** Deletes the cookies of this name, or all of them. */
  clear(name?: string): void {
    for (const [key, cookie] of this.#cookies) {
      if (name === undefined || cookie.name === name) this.#cookies.delete(key);
    }
  }

  #isOver({ expires }: Cookie): boolean {
    return expires !== undefined && expires <= this.#now();
  }
}
