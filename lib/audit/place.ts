/** Where a request came from, as far as the audit keeps it: a network and the family of a browser, never more. */
import ipaddr from "ipaddr.js";
import type { Caller } from "./audit-event.ts";

/** Longer than any IPv6 address with its zone: a proxy may write anything. */
const LONGEST_ADDRESS = 64;
/** Of a `User-Agent`: everything that names the browser is in front of it. */
const MOST_READ = 512;

/** Many browsers also name those that they want to be taken for, so the first row that fits counts. */
const FAMILIES: readonly (readonly [family: string, token: RegExp])[] = [
  ["Edge", /\bEdg(?:e|A|iOS)?\//],
  ["Opera", /\b(?:OPR|OPX|Opera)\//],
  ["Samsung Internet", /\bSamsungBrowser\//],
  ["Firefox", /\b(?:Firefox|FxiOS)\//],
  ["Chrome", /\b(?:Chrome|CriOS|Chromium)\//],
  ["Safari", /\bSafari\//],
];

/** The family of the browser: one of a few words, whatever the header says; `undefined` without a header. */
export function browserFamily(userAgent: string | undefined): string | undefined {
  if (userAgent === undefined || userAgent === "") return undefined;
  const text = userAgent.slice(0, MOST_READ);
  return FAMILIES.find(([, token]) => token.test(text))?.[0] ?? "other";
}

/** The /24 of an IPv4 address or the /48 of an IPv6 one; `undefined` for text that is no address. */
export function shortenedAddress(address: string): string | undefined {
  if (address.length > LONGEST_ADDRESS || !ipaddr.isValid(address)) return undefined;
  const parsed = ipaddr.process(address);
  const bits = parsed.kind() === "ipv4" ? 24 : 48;
  const bytes = parsed.toByteArray().map((byte, index) => (index < bits / 8 ? byte : 0));
  return `${ipaddr.fromByteArray(bytes).toString()}/${bits}`;
}

/** @param address the caller's, as far as proxies are trusted. @param userAgent the header. */
export function placeOf(address: string, userAgent: string | undefined): Pick<Caller, "address" | "browser"> {
  const network = shortenedAddress(address);
  const browser = browserFamily(userAgent);
  return {
    ...(network === undefined ? {} : { address: network }),
    ...(browser === undefined ? {} : { browser }),
  };
}
