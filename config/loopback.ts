import { isIPv4 } from "node:net";

/**
 * Whether a host is this machine itself: `127.0.0.0/8`, `::1`, `localhost` and names under `.localhost`
 * (RFC 6761). There, and only there, plain http is allowed and the rules for production don't apply.
 *
 * @param hostname as `URL.hostname` gives it: lower case, an IPv6 address in brackets.
 */
export function isLoopback(hostname: string): boolean {
  if (isIPv4(hostname)) return hostname.startsWith("127.");
  return hostname === "[::1]" || hostname === "localhost" || hostname.endsWith(".localhost");
}
