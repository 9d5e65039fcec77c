/** Forms of single strings: addresses, hosts, networks, names. No check throws, and no message quotes the text. */
import { isIP, isIPv4 } from "node:net";

/** Whether a text has no control characters and no line breaks. */
export function isPrintable(text: string): boolean {
  return !/\p{Cc}/u.test(text);
}

/** Whether this is a URL with a host and one of these protocols. */
export function isUrl(text: string, protocols: RegExp): boolean {
  if (!isPrintable(text) || /\s/u.test(text)) return false;
  const url = URL.parse(text);
  return url !== null && protocols.test(url.protocol) && url.hostname !== "";
}

/** Whether mail to this server would go unencrypted over the network if the server offered no STARTTLS. */
export function isClearSmtp(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  // The parser doesn't know the scheme `smtp:`, so it keeps the case of the host.
  return protocol === "smtp:" && !isLoopback(hostname.toLowerCase());
}

/** Whether this is an `smtp://` or `smtps://` URL with a host. */
export function isSmtpAddress(text: string): boolean {
  return isUrl(text, /^smtps?:$/u);
}

/** Whether this is a sender: an address or `Name <address>`. Line breaks are refused, because they would add headers. */
export function isSender(text: string): boolean {
  return isPrintable(text) && /^(?:[^\s<>@]+@[^\s<>@]+|[^<>]* <[^\s<>@]+@[^\s<>@]+>)$/u.test(text);
}

/** The form of {@link isPathPrefix}. */
export const PATH_FORM = "a path such as `/login`, with a leading and without a trailing slash";

/** Whether this is a path that a proxy can strip: one or more segments, without a slash at the end. */
export function isPathPrefix(text: string): boolean {
  return /^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~-]+)+$/u.test(text);
}

/** Whether this can be a prefix of cookie names. `__Host-` and `__Secure-` are refused, because browsers interpret them. */
export function isCookiePrefix(text: string): boolean {
  return /^[A-Za-z0-9_-]{0,32}$/u.test(text) && !/^__(?:host|secure)-/iu.test(text);
}

/** Whether this is a language tag such as `en` or `pt-BR` (BCP 47, without extensions). */
export function isLanguageTag(text: string): boolean {
  return /^[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*$/u.test(text);
}

/** Whether this is a valid Bearer token (RFC 6750 section 2.1). */
export function isBearerToken(text: string): boolean {
  return /^[A-Za-z0-9._~+/-]+=*$/u.test(text);
}

/** Whether this is a UUID, of any version. */
export function isUuid(text: string): boolean {
  return /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/iu.test(text);
}

/**
 * Whether this is a color for the theme: `#rgb` or `#rrggbb`. The pages compute contrast from these forms only, and they
 * leave no way to inject other CSS.
 */
export function isColor(text: string): boolean {
  return /^#(?:[\da-f]{3}|[\da-f]{6})$/iu.test(text);
}

/** Whether these are names of fonts, separated by commas. No name has a character that ends a CSS string. */
export function isFontList(text: string): boolean {
  return text.split(",").every((name) => /^ *[\p{L}\p{N}][\p{L}\p{N} _-]{0,63}$/u.test(name));
}

/** The form of a web address. */
export const WEB_ADDRESS_FORM = "an https address, or http on loopback";

function isWebAddress(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname));
}

/** Whether a page may link to this web address. `{locale}` stands for the page's language. */
export function isPageLink(text: string): boolean {
  return isPrintable(text) && !/\s/u.test(text) && isWebAddress(text.replaceAll("{locale}", "en"));
}

/** Whether requests may go to this web address. It has no query and no fragment. */
export function isServiceAddress(text: string): boolean {
  return isPrintable(text) && !/[\s{}?#]/u.test(text) && isWebAddress(text);
}

/** Whether this is a page link, or the address of a mailbox. */
export function isHelpLink(text: string): boolean {
  return isPageLink(text) || /^mailto:[\w.+-]+@[\w-]+(?:\.[\w-]+)+$/u.test(text);
}

const BITS = { 4: 32, 6: 128 } as const;

/** The version of an IP address without a zone; `0` if it is not one. */
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

/** The form of a network that {@link isTrustworthyNetwork}. */
export const NETWORK_FORM = "an IP address or a network such as `10.0.0.0/8`, but not all addresses";

/** Whether this network can be trusted: trusting the whole Internet would leave no client address. */
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

/** Whether this is a host name: lower case, without a port or a trailing dot, and not parseable as an IP address. */
export function isHostName(text: string): boolean {
  return text.length <= MAX_HOST_NAME && HOST_NAME.test(text) && !/(?:^|\.)(?:\d+|0x[\da-f]*)$/u.test(text);
}

/** The form of an address that a server listens on. */
export const LISTEN_FORM = "an IP address or a host name in lower case";

/** Whether a server can listen on this. */
export function isListenAddress(text: string): boolean {
  return isHostName(text) || (isNetwork(text) && !text.includes("/"));
}

/**
 * Whether a host is this machine: `127.0.0.0/8`, `::1`, `localhost` and names under `.localhost` (RFC 6761). Only there,
 * plain http is allowed and the rules for production don't apply.
 *
 * @param hostname as in `URL.hostname`: lower case, with IPv6 addresses in brackets.
 */
export function isLoopback(hostname: string): boolean {
  if (isIPv4(hostname)) return hostname.startsWith("127.");
  return hostname === "[::1]" || hostname === "localhost" || hostname.endsWith(".localhost");
}

const MAX_URL = 2048;

/**
 * What is wrong with any URL, completing "NAME: …"; `undefined` if nothing is. The URL parser corrects many errors silently, and
 * other parsers correct them differently.
 */
export function urlProblem(address: string): string | undefined {
  if (address.length > MAX_URL) return `must have at most ${MAX_URL} characters`;
  if (!/^[\u0021-\u007e]*$/u.test(address)) return "must be printable ASCII without spaces";
  if (/[\\"<>^`{|}]/u.test(address)) return "must not have a character that a URL can't have";
  if (address.includes("#")) return "must not have a fragment";
  const authority = /^https?:\/\/([^/?]+)/u.exec(address)?.[1];
  if (authority === undefined) return "must be an absolute URL that begins with https:// or http://";
  if (authority.includes("@")) return "must not have a user name or password";
  const host = authority.replace(/:\d*$/u, "").toLowerCase();
  // `127.1`, `0x7f000001` and `%61` are other spellings of a host: a reviewer must see the host that is used.
  return URL.parse(address)?.hostname === host
    ? undefined
    : "must be an absolute URL with its host written plainly";
}

/** The form of {@link isSigningSecret}. */
export const SIGNING_SECRET_FORM =
  "`whsec_` and the Base64 of 24 to 64 bytes, or two of that with a space between them";

function isOneSigningSecret(text: string): boolean {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/u.exec(text)?.[1] ?? "";
  const bytes = Buffer.from(encoded, "base64");
  return bytes.length >= 24 && bytes.length <= 64 && bytes.toString("base64") === encoded;
}

/** The secrets of a `signing_secret`, the new one first; none if it is not set. */
export function signingSecrets(setting: string | undefined): string[] {
  return setting === undefined ? [] : setting.split(" ");
}

/** Whether this signs requests (Standard Webhooks): one secret, or two during a rotation. */
export function isSigningSecret(text: string): boolean {
  const secrets = signingSecrets(text);
  return secrets.length <= 2 && secrets.every(isOneSigningSecret);
}

/** Whether a domain is a host, or above it. */
export function isAtOrAbove(domain: string, host: string): boolean {
  return `.${host}`.endsWith(`.${domain}`);
}

/** The text with its percent-encoding decoded; `undefined` if that is malformed. */
export function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** A host as `node:net` expects it: only URLs put IPv6 addresses in brackets. */
export function hostOf({ hostname }: URL): string | undefined {
  return decoded(hostname.replace(/^\[(.*)\]$/u, "$1"));
}

/** An address without user, password and options. */
export function withoutCredentials(address: string): string {
  const [, scheme = "", , rest = ""] = /^([a-z+]+:\/\/)([^/]*@)?([^?]*)/u.exec(address) ?? [];
  return scheme + rest;
}
