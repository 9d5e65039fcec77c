/** Rate limits of guesses: which buckets an attempt takes a point from (decisions.md, Rate limits). */
import { createHmac } from "node:crypto";
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";
import type { RateLimiter, RateLimiterFactory } from "../../adapters/rate-limits.ts";
import type { RateLimit, RateLimits } from "../../config/configuration.ts";
import type { AuditEvent, Refusal } from "../../records/audit/audit-event.ts";
import type { AuditCollector } from "../../records/audit/collector.ts";
import { typedName } from "../text-rules.ts";
import type { SecretKey } from "../../core/sealing.ts";

/** An attempt that has taken its points, and whether it may continue. */
export interface Attempt {
  readonly allowed: boolean;
  /** Seconds until the next attempt can succeed; 0 when allowed. */
  readonly retryAfter: number;
  /** The buckets without a point left; empty when allowed. */
  readonly refusedBy: readonly Refusal[];
  /** Gives the points back because the attempt succeeded. */
  succeed(): Promise<void>;
  /** Gives the points back because a fault kept the secret from being checked. */
  withdraw(): Promise<void>;
}

export interface AttemptLimits {
  /**
   * A submitted sign-in form.
   * @param attempt.name as typed.
   * @param attempt.device the id of a device cookie that belongs to the account of this name. It has a bucket of its own, and
   *   is stopped by no other.
   * @param attempt.guessed whether so many tries with this name have failed in a row that a browser without a device
   *   cookie is limited further.
   */
  signIn(attempt: {
    readonly name: string;
    readonly address: string;
    readonly device: string | undefined;
    readonly guessed: boolean;
  }): Promise<Attempt>;
  /** @param attempt.name as the client sent it. @param attempt.guessed as in `signIn`. */
  passwordGrant(attempt: {
    readonly name: string;
    readonly client: string;
    readonly guessed: boolean;
  }): Promise<Attempt>;
  /**
   * A client secret. Comparing it is cheap and happens first: a wrong secret takes a point, a correct one that a person chose
   * only needs one to be left, and one that this service generated needs none: nobody guesses it. Parallel guesses count too,
   * because each takes its point before its response is known.
   * @param check called synchronously.
   */
  clientSecret(
    attempt: { readonly client: string; readonly address: string },
    check: () => "generated" | "chosen" | undefined,
  ): Promise<Pick<Attempt, "allowed" | "retryAfter" | "refusedBy"> & { readonly matches: boolean }>;
  /** A new interaction. Its point is not given back. */
  interaction(address: string): Promise<Attempt>;
  /**
   * A request for mail by someone who may be a stranger. Its points are not given back.
   */
  mail(request: MailRequest): Promise<Attempt>;
  /** A registration. It also counts as a request for mail. */
  registration(request: MailRequest): Promise<Attempt>;
  /**
   * The mail itself, after `mail` or `registration` let the request through: names of one account share its address. The
   * result must not reach the person who asks, because it shows which names belong together.
   * @param request.name the address that gets the mail.
   */
  recipient(request: MailRequest): Promise<boolean>;
  /** A change that a signed-in person makes. Its point is not given back. */
  change(sub: string): Promise<Attempt>;
  /** Saying that a username is taken. @param asker the `sub` of an account, or the id of a running registration. */
  usernameTaken(asker: string): Promise<Attempt>;
}

/** Who asks for mail, and to which address. */
export interface MailRequest {
  /** The address or the name as typed, whether or not an account has it. */
  readonly name: string;
  /** The caller's IP address. */
  readonly address: string;
  /** The id of a device cookie that belongs to the account of this name. It has a bucket of its own, and is stopped by no other. */
  readonly device?: string | undefined;
}

/** Length of a bucket key: long enough against collisions, and short enough to keep 20,000 per limit in memory. */
const KEY_BYTES = 16;

/** One of the limits, with its counters. */
interface Limit {
  readonly name: LimitName;
  readonly seconds: number;
  readonly limiter: RateLimiter;
}

type Bucket = readonly [limit: Limit, key: string];

/** The members of an audit event that identify a bucket: a refused attempt is recorded with these only. */
const ABOUT = {
  "signIn.accountAndAddress": ["address"],
  "signIn.account": [],
  "signIn.address": ["address"],
  "signIn.guessed": [],
  "passwordGrant.accountAndClient": ["client"],
  "passwordGrant.account": [],
  "passwordGrant.client": ["client"],
  "mail.recipientAndCaller": ["address"],
  "mail.recipientAndCallerDaily": ["address"],
  "mail.recipient": [],
  "mail.recipientDaily": [],
  "mail.caller": ["address"],
  "mail.device": ["address"],
  changes: ["subject"],
  usernames: [],
  registrations: ["address"],
  "passwordGrant.guessed": [],
  clientSecret: ["subject", "address"],
  interactions: ["address"],
} as const;

type LimitName = keyof typeof ABOUT;

/** Counts a refused attempt in the audit, once for each bucket that refused it. */
export function noteLimited(
  audit: Pick<AuditCollector, "noteRefusal">,
  event: AuditEvent,
  { refusedBy }: Pick<Attempt, "refusedBy">,
): void {
  for (const refusal of refusedBy) {
    const names: readonly ("subject" | "client" | "address")[] = ABOUT[refusal.limit as LimitName];
    const known = names.map((name) => [name, event[name]] as const);
    const { action, actor } = event;
    audit.noteRefusal(
      {
        action,
        actor,
        ...Object.fromEntries(known.filter(([, value]) => value !== undefined)),
        outcome: "failure",
        reason: "limited",
        detail: { limit: refusal.limit, seconds: refusal.seconds },
      },
      refusal,
    );
  }
}

const refusalOf = ([{ name, seconds }, bucket]: Bucket): Refusal => ({ limit: name, bucket, seconds });

/** Tries with a name with which 100 in a row have failed, until one succeeds. */
const GUESSED: RateLimit = { points: 5, seconds: 3_600 };

/** How often one account, or one registration, can learn that a username is taken. */
const USERNAMES: RateLimit = { points: 10, seconds: 3_600 };

/** Longer than any IPv6 address with its zone. */
const MAX_ADDRESS_LENGTH = 64;

/**
 * The network that counts as one caller: an IPv4 address, or the /64 of an IPv6 address. Other text (a proxy may write
 * `unknown`) is a caller of its own, by its first 64 characters.
 */
export function callerNetwork(address: string): string {
  if (isIPv4(address)) return `${Buffer.from(address.split(".").map(Number)).toString("hex")}/32`;
  if (address.length > MAX_ADDRESS_LENGTH || !ipaddr.isValid(address))
    return address.slice(0, MAX_ADDRESS_LENGTH);
  const parsed = ipaddr.process(address);
  const [bytes, bits] = [parsed.toByteArray(), parsed.kind() === "ipv4" ? 32 : 64];
  return `${Buffer.from(bytes.slice(0, bits / 8)).toString("hex")}/${bits}`;
}

/**
 * The bucket of a name. It depends only on the name as typed, so a limit reveals neither which names exist nor which
 * belong to one account. Names that are too long for any account share one bucket per caller.
 */
function subjectOf(typed: string, caller: string): readonly string[] {
  const name = typedName(typed);
  return name === undefined ? ["too long", caller] : ["name", name];
}

async function take(buckets: readonly Bucket[]): Promise<Attempt> {
  const taken = await Promise.all(buckets.map(([{ limiter }, key]) => limiter.take(key)));
  const refused = taken.filter(({ allowed }) => !allowed);
  // A refused attempt is not a guess, so it takes no points from the other buckets.
  if (refused.length > 0) {
    const granted = buckets.filter((_bucket, index) => taken[index]?.allowed);
    await Promise.all(granted.map(([{ limiter }, key]) => limiter.giveBack(key)));
  }
  async function giveBack(): Promise<void> {
    await Promise.all(buckets.map(([{ limiter }, key]) => limiter.giveBack(key)));
  }
  return {
    allowed: refused.length === 0,
    retryAfter: Math.max(0, ...refused.map(({ retryAfter }) => retryAfter)),
    refusedBy: buckets.filter((_bucket, index) => !taken[index]?.allowed).map(refusalOf),
    succeed: giveBack,
    withdraw: giveBack,
  };
}

/**
 * @param create creates the counters of one limit, in memory or shared between processes.
 * @param key makes HMACs of names and addresses, so that all buckets are small and the storage shows neither. Processes
 *   that share buckets need the same key.
 */
export function createAttemptLimits(
  limits: RateLimits,
  create: RateLimiterFactory,
  key: SecretKey,
): AttemptLimits {
  const keyOf = (...parts: readonly string[]): string =>
    createHmac("sha256", key).update(JSON.stringify(parts)).digest().toString("base64url", 0, KEY_BYTES);
  const limit = (name: LimitName, rules: RateLimit): Limit => ({
    name,
    seconds: rules.seconds,
    limiter: create(name, rules),
  });
  const signIn = {
    accountAndAddress: limit("signIn.accountAndAddress", limits.signIn.accountAndAddress),
    account: limit("signIn.account", limits.signIn.account),
    address: limit("signIn.address", limits.signIn.address),
    guessed: limit("signIn.guessed", GUESSED),
  };
  const passwordGrant = {
    accountAndClient: limit("passwordGrant.accountAndClient", limits.passwordGrant.accountAndClient),
    account: limit("passwordGrant.account", limits.passwordGrant.account),
    client: limit("passwordGrant.client", limits.passwordGrant.client),
    guessed: limit("passwordGrant.guessed", GUESSED),
  };
  const clientSecret = limit("clientSecret", limits.clientSecret);
  const interactions = limit("interactions", limits.interactions);
  const mail = {
    recipientAndCaller: limit("mail.recipientAndCaller", limits.mail.recipientAndCaller),
    recipientAndCallerDaily: limit("mail.recipientAndCallerDaily", limits.mail.recipientAndCallerDaily),
    recipient: limit("mail.recipient", limits.mail.recipient),
    recipientDaily: limit("mail.recipientDaily", limits.mail.recipientDaily),
    caller: limit("mail.caller", limits.mail.caller),
    device: limit("mail.device", limits.mail.device),
  };
  const registrations = limit("registrations", limits.registrations);
  const changes = limit("changes", limits.changes);
  const usernames = limit("usernames", USERNAMES);
  /** @param what `asked` counts names as typed, and `sent` the addresses that get the mail. */
  function mailBuckets(what: "asked" | "sent", { name, address, device }: MailRequest): readonly Bucket[] {
    const network = callerNetwork(address);
    const subject = [what, ...subjectOf(name, network)];
    // Requests from elsewhere must not keep the owner of an account from a new password.
    if (device !== undefined) return [[mail.device, keyOf(...subject, "device", device)]];
    return [
      [mail.recipientAndCaller, keyOf(...subject, network)],
      [mail.recipientAndCallerDaily, keyOf(...subject, network)],
      [mail.recipient, keyOf(...subject)],
      [mail.recipientDaily, keyOf(...subject)],
    ];
  }
  function askedBuckets(request: MailRequest): readonly Bucket[] {
    const own = mailBuckets("asked", request);
    return request.device === undefined
      ? [...own, [mail.caller, keyOf(callerNetwork(request.address))]]
      : own;
  }
  return {
    signIn({ name, address, device, guessed }) {
      const network = callerNetwork(address);
      const subject = subjectOf(name, network);
      // Guesses by others, also behind the same address, don't lock out a browser that has signed in to this account before.
      if (device !== undefined)
        return take([[signIn.accountAndAddress, keyOf(...subject, "device", device)]]);
      return take([
        [signIn.accountAndAddress, keyOf(...subject, network)],
        [signIn.account, keyOf(...subject)],
        [signIn.address, keyOf(network)],
        ...(guessed ? [[signIn.guessed, keyOf(...subject)] as const] : []),
      ]);
    },
    passwordGrant({ name, client, guessed }) {
      const subject = subjectOf(name, client);
      return take([
        [passwordGrant.accountAndClient, keyOf(...subject, client)],
        [passwordGrant.account, keyOf(...subject)],
        [passwordGrant.client, keyOf(client)],
        ...(guessed ? [[passwordGrant.guessed, keyOf(...subject)] as const] : []),
      ]);
    },
    async clientSecret({ client, address }, check) {
      const bucket = keyOf(client, callerNetwork(address));
      const match = check();
      if (match === "generated") return { allowed: true, matches: true, retryAfter: 0, refusedBy: [] };
      const { limiter } = clientSecret;
      const { allowed, retryAfter } = await (match ? limiter.look(bucket) : limiter.take(bucket));
      const refusedBy = allowed ? [] : [refusalOf([clientSecret, bucket])];
      return { allowed, matches: match !== undefined, retryAfter, refusedBy };
    },
    interaction: (address) => take([[interactions, keyOf(callerNetwork(address))]]),
    mail: (request) => take(askedBuckets(request)),
    registration: (request) =>
      take([...askedBuckets(request), [registrations, keyOf(callerNetwork(request.address))]]),
    recipient: async (request) => (await take(mailBuckets("sent", request))).allowed,
    change: (sub) => take([[changes, keyOf(sub)]]),
    usernameTaken: (asker) => take([[usernames, keyOf(asker)]]),
  };
}
