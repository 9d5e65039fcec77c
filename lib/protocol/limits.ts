/** Which buckets an attempt takes its points from (decisions.md, Rate limits). */
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";
import type { RateLimiter, RateLimiterFactory } from "../../adapters/rate-limits.ts";
import type { RateLimits } from "../../config/configuration.ts";

/** An attempt that took its points: allowed to go on, or not for so many seconds. */
export interface Attempt {
  readonly allowed: boolean;
  /** Seconds; 0 when allowed. */
  readonly retryAfter: number;
  /** The attempt was a success: gives all its points back. */
  succeed(): Promise<void>;
  /** A fault kept the secret from being checked, so it was no guess: gives all its points back. */
  withdraw(): Promise<void>;
}

export interface AttemptLimits {
  /** A submitted sign-in form. `device` is the id of a device cookie that belongs to this account. */
  signIn(attempt: {
    readonly account: string;
    readonly address: string;
    readonly device?: string;
  }): Promise<Attempt>;
  passwordGrant(attempt: { readonly account: string; readonly client: string }): Promise<Attempt>;
  /**
   * A client secret. It is compared in no time, so that is done first: a wrong one takes a point, a right one only
   * needs that there is one. Guesses in parallel still count, for each takes its point before its answer is known.
   * @param check is called at once.
   */
  clientSecret(
    attempt: { readonly client: string; readonly address: string },
    check: () => boolean,
  ): Promise<{ readonly allowed: boolean; readonly matches: boolean; readonly retryAfter: number }>;
  /** A new interaction; it is not given back. */
  interaction(address: string): Promise<Attempt>;
}

type Bucket = readonly [limiter: RateLimiter, key: string];

/**
 * The network that counts as one caller: an IPv4 address, or the /64 of an IPv6 one. What is no address at all
 * (a proxy may write `unknown`) counts as it is.
 */
export function callerNetwork(address: string): string {
  // What most are, and read in a fraction of the time.
  if (isIPv4(address)) return `${Buffer.from(address.split(".").map(Number)).toString("hex")}/32`;
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  const [bytes, bits] = [parsed.toByteArray(), parsed.kind() === "ipv4" ? 32 : 64];
  return `${Buffer.from(bytes.slice(0, bits / 8)).toString("hex")}/${bits}`;
}

async function take(buckets: readonly Bucket[]): Promise<Attempt> {
  const taken = await Promise.all(buckets.map(([limiter, key]) => limiter.take(key)));
  const refused = taken.filter(({ allowed }) => !allowed);
  // A refused attempt is no guess: whoever hammers on one full bucket must not empty the others.
  if (refused.length > 0) {
    const granted = buckets.filter((_bucket, index) => taken[index]?.allowed);
    await Promise.all(granted.map(([limiter, key]) => limiter.giveBack(key)));
  }
  async function giveBack(): Promise<void> {
    await Promise.all(buckets.map(([limiter, key]) => limiter.giveBack(key)));
  }
  return {
    allowed: refused.length === 0,
    retryAfter: Math.max(0, ...refused.map(({ retryAfter }) => retryAfter)),
    succeed: giveBack,
    withdraw: giveBack,
  };
}

/** @param create makes the limiter of one bucket, in memory or shared between processes. */
export function createAttemptLimits(limits: RateLimits, create: RateLimiterFactory): AttemptLimits {
  const signIn = {
    accountAndAddress: create("signIn.accountAndAddress", limits.signIn.accountAndAddress),
    account: create("signIn.account", limits.signIn.account),
    address: create("signIn.address", limits.signIn.address),
  };
  const passwordGrant = {
    accountAndClient: create("passwordGrant.accountAndClient", limits.passwordGrant.accountAndClient),
    account: create("passwordGrant.account", limits.passwordGrant.account),
    client: create("passwordGrant.client", limits.passwordGrant.client),
  };
  const clientSecret = create("clientSecret", limits.clientSecret);
  const interactions = create("interactions", limits.interactions);
  return {
    signIn({ account, address, device }) {
      const network = callerNetwork(address);
      // A browser that signed in to this account before can't be locked out by somebody else's guesses.
      const own: readonly Bucket[] =
        device === undefined
          ? [
              [signIn.accountAndAddress, `${account} ${network}`],
              [signIn.account, account],
            ]
          : [[signIn.accountAndAddress, `${account} device ${device}`]];
      return take([...own, [signIn.address, network]]);
    },
    passwordGrant: ({ account, client }) =>
      take([
        [passwordGrant.accountAndClient, `${account} ${client}`],
        [passwordGrant.account, account],
        [passwordGrant.client, client],
      ]),
    async clientSecret({ client, address }, check) {
      const key = `${client} ${callerNetwork(address)}`;
      const matches = check();
      const { allowed, retryAfter } = await (matches ? clientSecret.look(key) : clientSecret.take(key));
      return { allowed, matches, retryAfter };
    },
    interaction: (address) => take([[interactions, callerNetwork(address)]]),
  };
}
