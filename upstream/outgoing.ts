/** Requests to one provider: only where its issuer and the address rules allow, no redirects, and no large answers. */
import { isIP } from "node:net";
import type { Configuration } from "../config/configuration.ts";
import type { IdentityProvider } from "../config/providers.ts";
import { guardedFetch, limitedResponse } from "../core/guarded-fetch.ts";
import { classifyAddress, createAddressRules } from "../core/outbound-addresses.ts";
import { AddressRefused, createGuardedAgents } from "../core/outbound-agents.ts";
import type { Telemetry } from "../core/telemetry.ts";

/** What requests to providers depend on. */
export interface OutgoingSettings extends Pick<Configuration, "fetch" | "notifications" | "production"> {
  readonly telemetry?: Telemetry | undefined;
}

export interface Outgoing {
  /** Rejects with the reason of the signal, with {@link AddressRefused}, or with an error of Node.js. */
  readonly send: (url: string, init: RequestInit, signal: AbortSignal) => Promise<Response>;
  close(): void;
}

/** Bytes of an answer. Larger ones are errors. */
export const MAX_ANSWER_BYTES = 1024 * 1024;

/** As `createAddressRules` takes it. */
function hostOf(address: string): string {
  return new URL(address).hostname.replaceAll(/^\[|\]$/g, "");
}

/** The host of the issuer, where it may be loopback or private. */
function privateHosts({ issuer, allowPrivate }: IdentityProvider, production: boolean): string[] {
  const host = hostOf(issuer);
  const isSpecial = isIP(host) !== 0 && classifyAddress(host).class === "special";
  return (production && !allowPrivate) || isSpecial ? [] : [host];
}

export function createOutgoing(
  provider: IdentityProvider,
  { fetch: ownFetch, notifications, production, telemetry }: OutgoingSettings,
): Outgoing {
  const allowed = [...notifications.allowedReceivers, ...privateHosts(provider, production)];
  const agents = createGuardedAgents({ rules: createAddressRules(allowed), keep: 0 });
  const issuer = new URL(provider.issuer);
  return {
    async send(address, init, signal) {
      const url = new URL(address);
      const isOpen =
        url.protocol === "http:" && issuer.protocol === "http:" && url.hostname === issuer.hostname;
      if (url.protocol !== "https:" && !isOpen)
        throw new AddressRefused("plain http is only allowed at the host of an issuer that has it");
      signal.throwIfAborted();
      const sent: RequestInit = { ...init, redirect: "manual", signal };
      const answer = async (): Promise<Response> =>
        ownFetch === undefined
          ? guardedFetch(agents, new Request(url, sent), { bytes: MAX_ANSWER_BYTES, beyond: "refuse" })
          : limitedResponse(await ownFetch(url.href, sent), MAX_ANSWER_BYTES);
      return telemetry?.sent({ whom: "provider", method: init.method ?? "GET", url }, answer) ?? answer();
    },
    close: () => agents.close(),
  };
}
