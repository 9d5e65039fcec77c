/** Where a request came from and which host it asked for, as far as proxies are trusted. */
import type { IncomingMessage } from "node:http";
import ipaddr from "ipaddr.js";
import type { ProxyTrust } from "../config/configuration.ts";

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

/** Some proxies write the port too; it belongs to the connection, not to the caller. */
function withoutPort(address: string): string {
  return /^\[([^\]]*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address;
}

/** The rightmost address of `X-Forwarded-For` that is not trusted; the socket's own without a proxy. */
export function callerAddress(req: IncomingMessage, proxy: ProxyTrust): string {
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

/** The host that the browser asked for; `X-Forwarded-Host` only behind a trusted proxy. */
export function requestedHost(req: IncomingMessage, proxy: ProxyTrust): string {
  const own = req.headers.host ?? "";
  if (proxy === false) return own;
  if (typeof proxy !== "number" && !isTrusted(req.socket.remoteAddress ?? "", proxy)) return own;
  return forwarded(req, "x-forwarded-host").at(-1) ?? own;
}
