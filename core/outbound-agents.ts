/**
 * HTTP agents for receivers of notifications and logout tokens. Every new connection is checked against the address
 * rules, and goes to exactly the address that was checked. A reused connection was checked when it was opened.
 */
import { lookup, type LookupAddress, type LookupOptions } from "node:dns";
import { Resolver } from "node:dns/promises";
import type * as Http from "node:http";
import type * as Https from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { callbackify } from "node:util";
import { SignInError } from "./errors.ts";
import type { AddressRules, Destination } from "./outbound-addresses.ts";

/** The address of a connection is not allowed. The message tells the operator why. */
export class AddressRefused extends SignInError {
  constructor(reason: string) {
    super("address_refused", reason);
  }
}

export interface GuardedAgentOptions {
  readonly rules: AddressRules;
  /** Idle connections that are kept for each host; 0: every request opens a connection. */
  readonly keep: number;
  /** Parallel connections to each host; further requests wait. Default: no limit. */
  readonly most?: number | undefined;
  /** Default: the system's resolver, with its hosts file. */
  readonly resolve?: Resolve | undefined;
  /** Certificates (PEM) to trust instead of the system's. TLS is always verified. */
  readonly ca?: string | undefined;
}

/**
 * Node's HTTP modules without their ES module wrappers: an `import` reads every export, which also loads `fetch` and
 * `WebSocket`, 10 MB that a worker does not use.
 */
export const http: typeof Http = process.getBuiltinModule("node:http");
export const https: typeof Https = process.getBuiltinModule("node:https");

/** All addresses of a host name. It rejects with a `code` of Node's `dns.lookup`, such as `ENOTFOUND`. */
export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

/** The agents for `http.request` and `https.request`. */
export interface GuardedAgents {
  agentFor(protocol: string): Http.Agent | Https.Agent;
  /** Closes all connections. */
  close(): void;
}

/** How long an idle connection is kept. Many servers close it after five seconds. */
const IDLE_MS = 4_000;

function notFound(host: string): Error {
  return Object.assign(new Error(`${host} has no address`), { code: "ENOTFOUND" });
}

/** Throws if any address of the destination is not allowed: the others may be there to hide it. */
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

/** Also checks hosts that are IP addresses, which are not looked up. */
function guard<A extends Http.Agent>(agent: A, rules: AddressRules, protocol: Destination["protocol"]): A {
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

export function createGuardedAgents({
  rules,
  keep,
  most = Infinity,
  resolve = createSystemResolve(),
  ca,
}: GuardedAgentOptions): GuardedAgents {
  const settings = (protocol: Destination["protocol"]): Http.AgentOptions => ({
    maxSockets: most,
    ...(keep > 0 ? { keepAlive: true, maxFreeSockets: keep, timeout: IDLE_MS } : { keepAlive: false }),
    lookup: guardedLookup(rules, protocol, resolve),
  });
  const open = guard(new http.Agent(settings("http:")), rules, "http:");
  const secure = guard(
    new https.Agent({
      ...settings("https:"),
      // Set explicitly, so that no environment variable can turn it off.
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

interface SystemResolveOptions {
  /** The system's resolver, whose result is final. */
  readonly system: Resolve;
  /** Queries the name servers directly. */
  readonly direct: Resolve;
  /** After this time, the name servers are queried too. Default 500. */
  readonly directAfterMs: number;
}

/** The time-out of one query in milliseconds, and how often it is sent. */
const QUERY = { timeout: 1500, tries: 2 };

/**
 * Resolves host names with the system's resolver, which knows the hosts file. It blocks one of Node's four threads
 * for each name, so a few silent name servers would delay all deliveries for seconds. Two things prevent that: a host has
 * at most one system look-up at a time, and a slow one is raced by a direct query, which needs no thread.
 */
export function createSystemResolve({
  system = systemLookup,
  direct = queryNameServers,
  directAfterMs = 500,
}: Partial<SystemResolveOptions> = {}): Resolve {
  const running = new Map<string, ReturnType<Resolve>>();

  function lookUpOnce(host: string): ReturnType<Resolve> {
    const known = running.get(host);
    if (known !== undefined) return known;
    const started = system(host).finally(() => running.delete(host));
    running.set(host, started);
    return started;
  }

  return (host) =>
    new Promise((resolve, reject) => {
      const answer = lookUpOnce(host);
      const timer = setTimeout(() => void direct(host).then(resolve, () => undefined), directAfterMs);
      const settled = (): void => clearTimeout(timer);
      answer.then(settled, settled);
      answer.then(resolve, reject);
    });
}

function systemLookup(host: string): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(host, { all: true }, (error, addresses) => (error ? reject(error) : resolve(addresses)));
  });
}

async function queryNameServers(host: string): Promise<LookupAddress[]> {
  // A new resolver each time, because the configured name servers may have changed.
  const resolver = new Resolver(QUERY);
  const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  if (four.status === "rejected" && six.status === "rejected") throw four.reason;
  return [
    ...(four.status === "fulfilled" ? four.value : []).map((address) => ({ address, family: 4 })),
    ...(six.status === "fulfilled" ? six.value : []).map((address) => ({ address, family: 6 })),
  ];
}
