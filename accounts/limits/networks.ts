/** The networks that count as one caller (decisions.md, Network). */
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";
import { shortenedAddress } from "../../records/audit/origin.ts";

/** A network that shares a bucket. */
export interface CallerNetwork {
  readonly network: string;
  /** How many times the points of a limit it has. */
  readonly share: number;
}

/** Longer than any IPv6 address with its zone. */
const MAX_ADDRESS_LENGTH = 64;

/** A site usually has a whole /48, which holds 65,536 networks of one caller each. */
const SITE = { bits: 48, share: 10 } as const;

/**
 * The networks of an address, the narrowest first: an IPv4 address; or the /64 of an IPv6 address and its /48, which has ten
 * times the points. Other text (a proxy may write `unknown`) is a caller of its own, by its first 64 characters.
 */
export function callerNetworks(address: string): readonly [CallerNetwork, ...CallerNetwork[]] {
  if (isIPv4(address)) return [named(address.split(".").map(Number), 32, 1)];
  if (address.length > MAX_ADDRESS_LENGTH || !ipaddr.isValid(address))
    return [{ network: address.slice(0, MAX_ADDRESS_LENGTH), share: 1 }];
  const parsed = ipaddr.process(address);
  const bytes = parsed.toByteArray();
  if (parsed.kind() === "ipv4") return [named(bytes, 32, 1)];
  return [named(bytes, 64, 1), named(bytes, SITE.bits, SITE.share)];
}

function named(bytes: readonly number[], bits: number, share: number): CallerNetwork {
  return { network: `${Buffer.from(bytes.slice(0, bits / 8)).toString("hex")}/${bits}`, share };
}

/**
 * How many times the points of a limit the callers of an address have: the largest factor of the networks that contain it.
 * @param own `rateLimits.networks`, read once.
 */
export function createNetworkFactors(own: Readonly<Record<string, number>>): (address: string) => number {
  const networks = Object.entries(own).map(([network, factor]) => ({
    range: ipaddr.parseCIDR(network.includes("/") ? network : `${network}/${isIPv4(network) ? 32 : 128}`),
    factor,
  }));
  return function factorOf(address) {
    if (networks.length === 0 || address.length > MAX_ADDRESS_LENGTH || !ipaddr.isValid(address)) return 1;
    const parsed = ipaddr.process(address);
    const factors = networks
      .filter(({ range: [network] }) => network.kind() === parsed.kind())
      .filter(({ range }) => parsed.match(range))
      .map(({ factor }) => factor);
    return Math.max(1, ...factors);
  };
}

/** The narrowest network of an address. */
export const callerNetwork = (address: string): string => callerNetworks(address)[0].network;

/** The wide network of an address: the /24 of an IPv4 address, the /48 of an IPv6 address. Other text is its own. */
export const wideNetwork = (address: string): string =>
  shortenedAddress(address) ?? address.slice(0, MAX_ADDRESS_LENGTH);
