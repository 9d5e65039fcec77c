/**
 * Where a notification may be sent. The text of the URL is checked here before anything is looked up; the addresses
 * that its host has are checked by the agents of `lib/guarded-agents.ts` at the moment of connecting.
 * Specification: `decisions.md`, "Where a receiver may live".
 */
import { urlToHttpOptions } from "node:url";
import { receiverAddressProblem } from "../lib/domain/addresses.ts";

/** A URL that may be tried, taken apart as `http.request` wants it. */
export interface Place {
  readonly protocol: "http:" | "https:";
  /** Without brackets. */
  readonly hostname: string;
  readonly port: string | number;
  /** With the query. */
  readonly path: string;
  /** The `Host` header. */
  readonly host: string;
}

/** Where to, or why not. */
export type InspectedUrl =
  | { readonly place: Place; readonly reason?: never }
  | { readonly place?: never; readonly reason: string };

/**
 * http or https, the host written plainly (no decimal, octal or hexadecimal address, no escapes, no zone, no
 * trailing dot), no user name or password, no fragment.
 */
export function inspectUrl(text: string): InspectedUrl {
  const problem = receiverAddressProblem(text);
  if (problem !== undefined) return { reason: `the URL ${problem}` };
  const url = new URL(text);
  // Certificates and allowedReceivers name hosts without it.
  if (url.hostname.endsWith(".")) return { reason: "the URL must not have a dot at the end of its host" };
  const { hostname, port, path } = urlToHttpOptions(url);
  return {
    place: {
      protocol: url.protocol === "https:" ? "https:" : "http:",
      hostname: hostname ?? "",
      port: port ?? "",
      path: path ?? "/",
      host: url.host,
    },
  };
}
