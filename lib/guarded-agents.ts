/**
 * Connections to receivers: every new one is checked against the address rules, and the address that was checked
 * is the one connected to. A connection that is used again was checked when it was opened, for the same protocol
 * and host, and its address can't change any more.
 */
import type { LookupAddress, LookupOptions } from "node:dns";
import type { Agent as HttpAgent, AgentOptions } from "node:http";
import type { Agent as HttpsAgent } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { callbackify } from "node:util";
import { SignInError } from "./errors.ts";
import { http, https } from "./node-http.ts";
import type { AddressRules, Destination } from "./receiver-addresses.ts";
import { coalesced, createSystemResolve, type Resolve } from "./system-resolve.ts";

/** A connection was not opened: its address is not allowed. The message says why, for an operator. */
export class AddressRefused extends SignInError {
  constructor(reason: string) {
    super("address_refused", reason);
  }
}

export interface GuardedAgentOptions {
  readonly rules: AddressRules;
  /** Connections kept open for the next request, for each host; 0: every request has its own. */
  readonly keep: number;
  /** Connections at once to each host; more requests wait for one. Default: no limit. */
  readonly most?: number | undefined;
  /** Default: the system's resolver, with its hosts file. */
  readonly resolve?: Resolve | undefined;
  /** Certificates (PEM) that are trusted in place of the system's. TLS is always checked. */
  readonly ca?: string | undefined;
}

/** The agents for `http.request` and `https.request`. */
export interface GuardedAgents {
  agentFor(protocol: string): HttpAgent | HttpsAgent;
  /** Closes all connections. */
  close(): void;
}

/** Milliseconds that an idle connection is kept: less than the five seconds after which many servers close it. */
const IDLE = 4_000;

function notFound(host: string): Error {
  return Object.assign(new Error(`${host} has no address`), { code: "ENOTFOUND" });
}

/** Throws when one address of the destination is not allowed: the others may be there to hide it. */
function check(rules: AddressRules, destination: Destination, addresses: readonly string[]): void {
  for (const address of addresses) {
    const reason = rules.refusal(destination, address);
    if (reason !== undefined) throw new AddressRefused(reason);
  }
}

function guardedLookup(
  rules: AddressRules,
  protocol: Destination["protocol"],
  resolve: Resolve,
): LookupFunction {
  const find = async (host: string): Promise<LookupAddress[]> => {
    const addresses = [...(await resolve(host))];
    check(
      rules,
      { protocol, host },
      addresses.map(({ address }) => address),
    );
    return addresses;
  };
  const findAll = callbackify(find);
  return (host, { all }: LookupOptions, callback) => {
    findAll(host, (error, addresses) => {
      if (error !== null) return callback(error, "");
      const [first] = addresses;
      if (first === undefined) callback(notFound(host), "");
      else if (all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

/** Hosts that are addresses themselves are not looked up: they are checked here. */
function guard<A extends HttpAgent>(agent: A, rules: AddressRules, protocol: Destination["protocol"]): A {
  const connect = agent.createConnection.bind(agent);
  return Object.assign(agent, {
    createConnection: ((options, callback) => {
      const host = options.host ?? "";
      if (isIP(host) !== 0) {
        const reason = rules.refusal({ protocol, host }, host);
        if (reason !== undefined) {
          callback?.(new AddressRefused(reason), undefined as never);
          return undefined;
        }
      }
      return connect(options, callback);
    }) satisfies A["createConnection"],
  });
}

/** The pool of one owner; nothing is opened before the first request. */
export function createGuardedAgents({
  rules,
  keep,
  most = Infinity,
  resolve = createSystemResolve(),
  ca,
}: GuardedAgentOptions): GuardedAgents {
  const find = coalesced(resolve);
  const settings = (protocol: Destination["protocol"]): AgentOptions => ({
    maxSockets: most,
    ...(keep > 0 ? { keepAlive: true, maxFreeSockets: keep, timeout: IDLE } : { keepAlive: false }),
    lookup: guardedLookup(rules, protocol, find),
  });
  const open = guard(new http.Agent(settings("http:")), rules, "http:");
  const secure = guard(
    new https.Agent({
      ...settings("https:"),
      // Said outright, so that no environment variable turns it off.
      rejectUnauthorized: true,
      ...(ca === undefined ? {} : { ca }),
    }),
    rules,
    "https:",
  );
  return {
    agentFor: (protocol) => (protocol === "https:" ? secure : open),
    close() {
      open.destroy();
      secure.destroy();
    },
  };
}
