/** From which address a request came and which host it names, as far as proxies are trusted. */
import type { IncomingMessage } from "node:http";
import ipaddr from "ipaddr.js";
import type { Deployment, ProxyTrust } from "../config/configuration.ts";

function isTrusted(address: string, ranges: readonly string[]): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  return ranges.some((entry) => {
    const [range, bits] = entry.includes("/")
      ? ipaddr.parseCIDR(entry)
      : [ipaddr.process(entry), ipaddr.process(entry).kind() === "ipv4" ? 32 : 128];
    return range.kind() === parsed.kind() && parsed.match(range, bits);
  });
}

function forwarded(req: IncomingMessage, name: string): string[] {
  const header = req.headers[name];
  const text = Array.isArray(header) ? header.join(",") : (header ?? "");
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** Some proxies append the port of the connection. */
function withoutPort(address: string): string {
  return /^\[([^\]]*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address;
}

/** Whether the request came directly from a trusted proxy. */
export function isFromProxy(req: IncomingMessage, proxy: ProxyTrust): boolean {
  return typeof proxy === "number" || (proxy !== false && isTrusted(req.socket.remoteAddress ?? "", proxy));
}

/** The rightmost address of `X-Forwarded-For` that is not a trusted proxy; without a proxy, the peer's address. */
export function remoteAddress(req: IncomingMessage, proxy: ProxyTrust): string {
  const socket = req.socket.remoteAddress ?? "";
  if (proxy === false) return socket;
  const chain = [...forwarded(req, "x-forwarded-for").map(withoutPort), socket];
  if (typeof proxy === "number") return chain[Math.max(0, chain.length - 1 - proxy)] ?? socket;
  for (let index = chain.length - 1; index >= 0; index -= 1) {
    const address = chain[index] ?? "";
    if (!isTrusted(address, proxy)) return address;
  }
  return chain[0] ?? socket;
}

/**
 * The forwarding header that is ignored, because its sender is not trusted or because it is `Forwarded` (RFC 7239), which
 * is never read.
 */
export function ignoredHeader(req: IncomingMessage, proxy: ProxyTrust): string | undefined {
  const { headers } = req;
  if (isFromProxy(req, proxy)) {
    return "forwarded" in headers && !("x-forwarded-for" in headers) ? "Forwarded" : undefined;
  }
  return ["X-Forwarded-For", "X-Forwarded-Host", "Forwarded"].find((name) => name.toLowerCase() in headers);
}

/** @param rawHeaders alternating names and values. */
function countHosts(rawHeaders: readonly string[]): number {
  return rawHeaders.filter((text, index) => index % 2 === 0 && /^host$/i.test(text)).length;
}

/** The host that a trusted proxy says the browser has requested, as written; `undefined` if it says nothing. */
export function forwardedHost(req: IncomingMessage, proxy: ProxyTrust): string | undefined {
  return isFromProxy(req, proxy) ? forwarded(req, "x-forwarded-host").at(-1) : undefined;
}

/**
 * The host that the browser requested, as written. `X-Forwarded-Host` counts only from a trusted proxy. Empty if there is
 * no `Host` or more than one: RFC 9112 section 3.2 allows exactly one.
 */
export function requestedHost(req: IncomingMessage, proxy: ProxyTrust): string {
  const last = forwardedHost(req, proxy);
  if (last !== undefined) return last;
  if (countHosts(req.rawHeaders) > 1) return "";
  // HTTP/2 uses `:authority`.
  return String(req.headers[":authority"] ?? req.headers.host ?? "");
}

/** A name or an address, and an optional port. `URL` accepts much more. */
const HOST = /^(?:\[[\da-f:.]+\]|[\w.~-]+)(?::\d{0,5})?$/i;

function parsedHost(written: string, scheme: "http" | "https"): URL | undefined {
  if (!HOST.test(written)) return undefined;
  return URL.parse(`${scheme}://${written.replace(/\.(?=:\d*$|$)/, "")}`) ?? undefined;
}

/** Whether a host is the deployment's. Case, a default port and a trailing dot make no difference. */
export function isHostOf({ host, secure }: Pick<Deployment, "host" | "secure">, written: string): boolean {
  return parsedHost(written, secure ? "https" : "http")?.host === host;
}

/** The name or address in a host, without its port, as `URL` writes it; `undefined` if it is none. */
export function hostNameOf(written: string): string | undefined {
  return parsedHost(written, "http")?.hostname;
}
