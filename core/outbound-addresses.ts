/**
 * The addresses that receivers of notifications and logout tokens may have: public ones with https, and others if the
 * configuration names them. `outbound-agents.ts` enforces the rules when it connects.
 */
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = readonly [Address, number];

/**
 * `public`: on the Internet. `local`: loopback and private networks, which can be allowed by host name or address.
 * `special`: all others (link-local, metadata, shared, multicast, mapped, translated, reserved, unassigned), which
 * can be allowed by address or range only.
 */
type AddressClass = "public" | "local" | "special";

/** The class of an address, and the name of its range for messages. */
interface ClassifiedAddress {
  readonly class: AddressClass;
  readonly range: string;
}

const LOCAL: ReadonlySet<string> = new Set(["loopback", "private", "uniqueLocal"]);

/** The range that IANA has allocated as global unicast. Other IPv6 addresses are not on the Internet. */
const GLOBAL_UNICAST: Network = ipaddr.parseCIDR("2000::/3");

/** Metadata services of cloud providers that are not link-local addresses. */
const METADATA: readonly Network[] = [
  "100.100.100.200/32", // Alibaba Cloud
  "168.63.129.16/32", // Azure
  "192.0.0.192/32", // Oracle Cloud
  "fd00:ec2::/32", // AWS
  "fd20:ce::/32", // Google Cloud
].map((network) => ipaddr.parseCIDR(network));

function within(address: Address, [network, bits]: Network): boolean {
  return network.kind() === address.kind() && address.match(network, bits);
}

/** `undefined` if this is not an IP address in its usual form. The zone is removed: it names an interface. */
function parse(text: string): Address | undefined {
  const [address = ""] = text.split("%", 1);
  return isIP(text) === 0 ? undefined : ipaddr.parse(address);
}

/** @param text an IPv4 or IPv6 address in its usual form. */
export function classifyAddress(text: string): ClassifiedAddress {
  const address = parse(text);
  if (address === undefined) return { class: "special", range: "no address" };
  if (METADATA.some((network) => within(address, network))) return { class: "special", range: "metadata" };
  const range = address.range();
  const name = range.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  if (LOCAL.has(range)) return { class: "local", range: name };
  if (range !== "unicast") return { class: "special", range: name };
  if (address.kind() === "ipv6" && !within(address, GLOBAL_UNICAST)) {
    return { class: "special", range: "not global" };
  }
  return { class: "public", range: name };
}

/** The destination of a connection. */
export interface Destination {
  readonly protocol: "http:" | "https:";
  /** A host name in lower case, or an IP address, without brackets. */
  readonly host: string;
}

/** The rules of one configuration. */
export interface AddressRules {
  /** Whether the configuration names this host: as a name, as an address, or in a range. */
  names(host: string): boolean;
  /** Why connections to this address are refused; `undefined` if they are allowed. */
  refusal(destination: Destination, address: string): string | undefined;
}

/** @param allowed `notifications.allowedReceivers`: IP addresses, networks in CIDR notation, host names. */
export function createAddressRules(allowed: readonly string[]): AddressRules {
  const networks: Network[] = [];
  const hosts = new Set<string>();
  for (const entry of allowed) {
    const address = parse(entry) && ipaddr.process(entry);
    if (entry.includes("/")) networks.push(ipaddr.parseCIDR(entry));
    else if (address !== undefined) networks.push([address, address.kind() === "ipv4" ? 32 : 128]);
    else hosts.add(entry.toLowerCase());
  }

  /** As an address or in a range. `::ffff:10.0.0.1` connects to 10.0.0.1, so it also counts as that address. */
  function isNamed(text: string): boolean {
    const address = parse(text);
    if (address === undefined) return false;
    const forms = [address, ipaddr.process(address.toString())];
    return forms.some((form) => networks.some((network) => within(form, network)));
  }

  return {
    names: (host) => hosts.has(host.toLowerCase()) || isNamed(host),
    refusal({ protocol, host }, address) {
      if (isNamed(address)) return undefined;
      const byName = hosts.has(host.toLowerCase());
      const { class: kind, range } = classifyAddress(address);
      if (kind === "special" || (kind === "local" && !byName)) {
        return `the address ${address} is not public (${range}), and allowedReceivers does not allow it`;
      }
      if (protocol === "http:" && !byName)
        return "plain http is only allowed for hosts that allowedReceivers names";
      return undefined;
    },
  };
}
