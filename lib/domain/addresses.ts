/** Rules for addresses that clients and receivers register. Each says what is wrong, without repeating the address. */
import { isLoopback } from "../../config/value-forms.ts";
import type { Problem } from "./text-rules.ts";

const MAX_LENGTH = 2048;

/**
 * Redirect, post-logout and back-channel addresses: absolute, https or http on loopback, no userinfo, no
 * fragment, nothing that two readers could understand differently. They are compared as registered.
 */
export function clientAddressProblem(address: string): Problem {
  const problem = writtenProblem(address);
  if (problem !== undefined) return problem;
  if (address.includes("*")) return "must not have a wildcard";
  const url = new URL(address);
  const allowed = url.protocol === "https:" || isLoopback(url.hostname);
  return allowed ? undefined : "must be https, or http on loopback";
}

/**
 * Where a receiver lives: http or https, no userinfo, no fragment. Whether the address may be connected to is
 * checked when a notification is sent, for that is when a name has an address.
 */
export function receiverAddressProblem(address: string): Problem {
  return writtenProblem(address);
}

/** What is wrong with any address. The URL parser mends much silently, and another parser in another way. */
function writtenProblem(address: string): Problem {
  if (address.length > MAX_LENGTH) return `must have at most ${MAX_LENGTH} characters`;
  if (!/^[\u0021-\u007e]*$/u.test(address)) return "must be printable ASCII without spaces";
  if (/[\\"<>^`{|}]/u.test(address)) return "must not have a character that a URL can't have";
  if (address.includes("#")) return "must not have a fragment";
  const authority = /^https?:\/\/([^/?]+)/u.exec(address)?.[1];
  if (authority === undefined) return "must be an absolute URL that begins with https:// or http://";
  if (authority.includes("@")) return "must not have a user name or password";
  const host = authority.replace(/:\d*$/u, "").toLowerCase();
  // `127.1`, `0x7f000001` and `%61` are hosts by another name: what a person checks must be what is meant.
  return URL.parse(address)?.hostname === host
    ? undefined
    : "must be an absolute URL with its host written plainly";
}
