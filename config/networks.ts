/** Networks and hosts as the configuration writes them. */
import { isIP } from "node:net";

const BITS = { 4: 32, 6: 128 } as const;

/** The version of an IP address in its usual form, without a zone: `0` when it is none. */
function addressVersion(text: string): 0 | 4 | 6 {
  const version = text.includes("%") ? 0 : isIP(text);
  return version === 4 || version === 6 ? version : 0;
}

/** Whether this is an IP address, or a network in CIDR notation such as `10.0.0.0/8` or `fd00::/8`. */
export function isNetwork(text: string): boolean {
  const [, address = "", length] = /^([^/]*)(?:\/(0|[1-9]\d{0,2}))?$/u.exec(text) ?? [];
  const version = addressVersion(address);
  return version !== 0 && (length === undefined || Number(length) <= BITS[version]);
}

/** A network that may be trusted: not the whole Internet, for then nobody's address would be left. */
export function isTrustworthyNetwork(text: string): boolean {
  return isNetwork(text) && !text.endsWith("/0");
}

/** The network in CIDR notation; a single address becomes a network of one. */
export function toCidr(network: string): string {
  const version = addressVersion(network);
  return version === 0 ? network : `${network}/${BITS[version]}`;
}

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const HOST_NAME = new RegExp(`^(?:${LABEL}\\.)*${LABEL}$`, "u");
const MAX_HOST_NAME = 253;

/** Whether this is a host name: lower case, no port, no trailing dot, and nothing that could be an IP address. */
export function isHostName(text: string): boolean {
  return text.length <= MAX_HOST_NAME && HOST_NAME.test(text) && !/(?:^|\.)(?:\d+|0x[\da-f]*)$/u.test(text);
}
