/** How back-channel logout tokens are sent: public addresses only, unless the configuration allows the host. */
import ipaddr from "ipaddr.js";
import type { Configuration } from "../../config/configuration.ts";

/** Whether `allowedReceivers` names this host, as a name, an address or by a range. */
export function isAllowedHost(hostname: string, allowed: readonly string[]): boolean {
  const host = hostname.replace(/^\[|\]$/g, "").toLowerCase();
  const address = ipaddr.isValid(host) ? ipaddr.process(host) : undefined;
  return allowed.some((entry) => {
    if (entry.toLowerCase() === host) return true;
    if (address === undefined) return false;
    if (ipaddr.isValid(entry)) return ipaddr.process(entry).toString() === address.toString();
    if (!ipaddr.isValidCIDR(entry)) return false;
    const [range, bits] = ipaddr.parseCIDR(entry);
    return range.kind() === address.kind() && address.match(range, bits);
  });
}

/** The library's guard against special-use addresses sits in the `dispatcher` that it passes along. */
type GuardedInit = RequestInit & { dispatcher?: unknown };

/** `fetch` of oidc-provider. */
export function backchannelFetch({ fetch: given, notifications }: Configuration): typeof globalThis.fetch {
  const send = given ?? globalThis.fetch;
  return async (target, init) => {
    const url = new URL(target instanceof Request ? target.url : target);
    const { dispatcher: guard, ...rest } = (init ?? {}) as GuardedInit;
    if (isAllowedHost(url.hostname, notifications.allowedReceivers)) return send(target, rest);
    // Where the library could not set up its guard it would send without one.
    if (guard === undefined || url.protocol !== "https:") {
      throw new TypeError("this address is not allowed for back-channel logout");
    }
    return send(target, init);
  };
}
