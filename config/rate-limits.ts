/** The keys of `rateLimits`: how many failures and requests are let through. */
import { z } from "zod";
import { described, section, seconds, text, whole } from "./documented-schema.ts";
import { isTrustworthyNetwork, NETWORK_FORM } from "./value-forms.ts";

const QUARTER_HOUR = 15 * 60;
const HOUR = 60 * 60;
const DAY = 24 * HOUR;

/** A rate limit. @param points its default. @param window the default of `seconds`. */
function limit(points: number, window: number) {
  return section({
    /** how many in a window. */
    points: whole(1, 1_000_000_000).default(points),
    /** seconds of the window. */
    seconds: seconds().default(window),
  }).prefault({});
}

const limits = section({
  /** The sign-in form. */
  signIn: section({
    /** Failed sign-ins with one name from one address. Default 10 in 900 seconds. */
    accountAndAddress: limit(10, QUARTER_HOUR),
    /** Failed sign-ins with one name. Default 100 in 3600 seconds. */
    account: limit(100, HOUR),
    /** Failed sign-ins from one address (IPv6: /64). Default 300 in 900 seconds. */
    address: limit(300, QUARTER_HOUR),
  }).prefault({}),
  /** The password grant. */
  passwordGrant: section({
    /** Failed password grants with one name at one client. Default 10 in 900 seconds. */
    accountAndClient: limit(10, QUARTER_HOUR),
    /** Failed password grants with one name. Default 100 in 3600 seconds. */
    account: limit(100, HOUR),
    /** Failed password grants at one client. Default 1000 in 900 seconds. */
    client: limit(1000, QUARTER_HOUR),
  }).prefault({}),
  /** Mail that a stranger can cause: confirmations and password resets. */
  mail: section({
    /** Mail to one address, requested from one address (IPv6: /64). Default 5 in 3600 seconds. */
    recipientAndCaller: limit(5, HOUR),
    /** The same in a day. Default 10 in 86400 seconds. */
    recipientAndCallerDaily: limit(10, DAY),
    /** Mail to one address, whoever requests it. Default 20 in 3600 seconds. */
    recipient: limit(20, HOUR),
    /** The same in a day. Default 40 in 86400 seconds. */
    recipientDaily: limit(40, DAY),
    /** Mail requested from one address (IPv6: /64). Default 100 in 3600 seconds. */
    caller: limit(100, HOUR),
    /**
     * Mail requested in a browser that has signed in to the account before. The other limits on mail don't apply to it.
     * Default 5 in 3600 seconds.
     */
    device: limit(5, HOUR),
  }).prefault({}),
  /** Changes that a signed-in person makes to one account. Default 30 in 3600 seconds. */
  changes: limit(30, HOUR),
  /** Registrations from one address (IPv6: /64). Default 100 in 3600 seconds. */
  registrations: limit(100, HOUR),
  /** Codes that devices ask for, for one client from one address (IPv6: /64). Default 100 in 900 seconds. */
  deviceRequests: limit(100, QUARTER_HOUR),
  /** The page on which a person enters the code of a device. */
  deviceCodes: section({
    /** Wrong codes entered by one account. Default 10 in 900 seconds. */
    account: limit(10, QUARTER_HOUR),
    /** Wrong codes from one address (IPv6: /64). Default 100 in 900 seconds. */
    address: limit(100, QUARTER_HOUR),
  }).prefault({}),
  /** Wrong secrets and assertions for one client from one address. Default 20 in 900 seconds. */
  clientSecret: limit(20, QUARTER_HOUR),
  /** Wrong DPoP proofs from one address. Default 20 in 900 seconds. */
  dpopProof: limit(20, QUARTER_HOUR),
  /** Sign-ins started from one address. Default 600 in 900 seconds. */
  interactions: limit(600, QUARTER_HOUR),
  /** Authorizations of one account without a page: its browser is signed in. Default 600 in 900 seconds. */
  authorizations: limit(600, QUARTER_HOUR),
  /**
   * Networks of one's own, in CIDR notation, and how many times the points of each limit by address their callers have, such as
   * `{ "203.0.113.0/24": 20 }` for an office. Limits by name, account and client stay. Default `{}`.
   */
  networks: described(
    z
      .record(text(50, isTrustworthyNetwork, NETWORK_FORM), whole(1, 1_000))
      .readonly()
      .default({}),
    { form: `an object: each key ${NETWORK_FORM}, each value a whole number from 1 to 1000` },
  ),
});

/** How many failures and requests are let through. */
export interface RateLimits extends z.output<typeof limits> {}
export interface RateLimitsInput extends z.input<typeof limits> {}

/** Its type has a name, as that of `interactions`. */
export const rateLimits: z.ZodType<RateLimits, RateLimitsInput> = limits;
