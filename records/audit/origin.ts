/** Where a request came from, as far as the audit records it: a network and a browser family, never more. */
import ipaddr from "ipaddr.js";
import type { Caller } from "./audit-event.ts";

/** Longer than any IPv6 address with a zone. A proxy may send anything. */
const MAX_ADDRESS_LENGTH = 64;
/** Characters of a `User-Agent` that are read: the browser is always named within them. */
const MAX_USER_AGENT_READ = 512;

/** Many browsers also name others for compatibility, so the first row that matches counts. */
const FAMILIES: readonly (readonly [family: string, token: RegExp])[] = [
  ["Edge", /\bEdg(?:e|A|iOS)?\//],
  ["Opera", /\b(?:OPR|OPX|Opera)\//],
  ["Samsung Internet", /\bSamsungBrowser\//],
  ["Firefox", /\b(?:Firefox|FxiOS)\//],
  ["Chrome", /\b(?:(?:Headless)?Chrome|CriOS|Chromium)\//],
  ["Safari", /\bSafari\//],
];

/** Systems that name others, such as Android, which names Linux, come first. */
const SYSTEMS: readonly (readonly [system: string, token: RegExp])[] = [
  ["iPhone", /\b(?:iPhone|iPod)\b/],
  ["iPad", /\biPad\b/],
  ["Android", /\bAndroid\b/],
  ["Windows", /\bWindows\b/],
  ["ChromeOS", /\bCrOS\b/],
  ["macOS", /\bMac(?:intosh| OS X)\b/],
  ["Linux", /\bLinux\b/],
];

/** The operating system or kind of device: one of a fixed set of words; `undefined` if it is none of them. */
export function systemFamily(userAgent: string | undefined): string | undefined {
  const text = (userAgent ?? "").slice(0, MAX_USER_AGENT_READ);
  return SYSTEMS.find(([, token]) => token.test(text))?.[0];
}

/** The browser family: one of a fixed set of words, whatever the header contains; `undefined` without a header. */
export function browserFamily(userAgent: string | undefined): string | undefined {
  if (userAgent === undefined || userAgent === "") return undefined;
  const text = userAgent.slice(0, MAX_USER_AGENT_READ);
  return FAMILIES.find(([, token]) => token.test(text))?.[0] ?? "other";
}

/** The /24 of an IPv4 address or the /48 of an IPv6 address; `undefined` for anything else. */
export function shortenedAddress(address: string): string | undefined {
  if (address.length > MAX_ADDRESS_LENGTH || !ipaddr.isValid(address)) return undefined;
  const parsed = ipaddr.process(address);
  const bits = parsed.kind() === "ipv4" ? 24 : 48;
  const bytes = parsed.toByteArray().map((byte, index) => (index < bits / 8 ? byte : 0));
  return `${ipaddr.fromByteArray(bytes).toString()}/${bits}`;
}

/** @param address the caller's, according to the trusted proxies. @param userAgent the header. */
export function originOf(
  address: string,
  userAgent: string | undefined,
): Pick<Caller, "address" | "browser"> {
  const network = shortenedAddress(address);
  const browser = browserFamily(userAgent);
  return {
    ...(network === undefined ? {} : { address: network }),
    ...(browser === undefined ? {} : { browser }),
  };
}
