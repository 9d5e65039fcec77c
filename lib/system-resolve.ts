/**
 * Addresses of host names, as the processes beside this one see them: by the system's resolver, with its hosts file.
 *
 * The system answers on a thread, and few of them look names up at once: names whose name servers are silent would keep
 * all others waiting for many seconds. So a name that has not been answered soon is also asked for in another way,
 * which needs no thread; the first that finds an address counts. That way knows no hosts file.
 */
import { lookup, type LookupAddress } from "node:dns";
import { Resolver } from "node:dns/promises";

/** All addresses of a host name; rejects with the `code` of Node's `dns.lookup`, such as `ENOTFOUND`. */
export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

/** The ways to ask. */
export interface Ways {
  /** The one that counts, also when it finds nothing. */
  readonly system: Resolve;
  /** The name servers themselves. */
  readonly direct: Resolve;
  /** Milliseconds in which the system usually answers. */
  readonly patience: number;
}

const PATIENCE = 500;
/** Milliseconds for one question to a name server, and how often it is put. */
const QUESTION = { timeout: 1500, tries: 2 };

function systemLookup(host: string): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(host, { all: true }, (error, addresses) => (error ? reject(error) : resolve(addresses)));
  });
}

async function askDirectly(host: string): Promise<LookupAddress[]> {
  // Made anew each time: which name servers there are may have changed.
  const resolver = new Resolver(QUESTION);
  const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  if (four.status === "rejected" && six.status === "rejected") throw four.reason;
  return [
    ...(four.status === "fulfilled" ? four.value : []).map((address) => ({ address, family: 4 })),
    ...(six.status === "fulfilled" ? six.value : []).map((address) => ({ address, family: 6 })),
  ];
}

/** One question about a name at a time: the same name holds one thread, not all. */
export function coalesced(resolve: Resolve): Resolve {
  const running = new Map<string, Promise<readonly LookupAddress[]>>();
  return (host) => {
    const known = running.get(host);
    if (known !== undefined) return known;
    const started = resolve(host).finally(() => running.delete(host));
    running.set(host, started);
    return started;
  };
}

/** Nothing is asked before the first name. */
export function createSystemResolve({
  system = systemLookup,
  direct = askDirectly,
  patience = PATIENCE,
}: Partial<Ways> = {}): Resolve {
  // It goes on when somebody else has answered, and is not begun again meanwhile.
  const lookUp = coalesced(system);
  return (host) =>
    new Promise((resolve, reject) => {
      const answer = lookUp(host);
      const late = setTimeout(() => void direct(host).then(resolve, () => undefined), patience);
      const settled = (): void => clearTimeout(late);
      answer.then(settled, settled);
      answer.then(resolve, reject);
    });
}
