/** Rate limits of guesses: which buckets an attempt takes a point from (decisions.md, Rate limits). */
import { createHmac, type KeyObject } from "node:crypto";
import type { RateLimit, RateLimits } from "../../config/configuration.ts";
import type { AuditEvent, Refusal } from "../../records/audit/audit-event.ts";
import type { AuditCollector } from "../../records/audit/collector.ts";
import type { Bucket, RateLimits as Counters, Taken } from "../../records/rate-limits.ts";
import { typedName } from "../text-rules.ts";
import { callerNetwork, callerNetworks } from "./networks.ts";

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
   * @param attempt.device the id of a device cookie that belongs to the account of this name. It has its own bucket, and no other bucket stops it.
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
  /** A device asks for a code. Its point is not given back. */
  deviceRequest(attempt: { readonly client: string; readonly address: string }): Promise<Attempt>;
  /** The code of a device that a signed-in person enters. */
  deviceCode(attempt: { readonly sub: string; readonly address: string }): Promise<Attempt>;
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
  /**
   * A code of an authenticator app, or a recovery code, after the right password.
   * @param attempt.device the id of a browser that has signed in to the account completely before. It has its own bucket, and no other bucket stops it.
   */
  secondFactor(attempt: {
    readonly factor: "app" | "recovery";
    readonly sub: string;
    readonly device: string | undefined;
  }): Promise<Attempt>;
  /** Revealing that a username is taken. @param asker the `sub` of an account, or the id of a running registration. */
  usernameTaken(asker: string): Promise<Attempt>;
}

/** Who asks for mail, and to which address. */
interface MailRequest {
  /** The address or the name as typed, whether or not an account has it. */
  readonly name: string;
  /** The caller's IP address. */
  readonly address: string;
  /** The id of a device cookie that belongs to the account of this name. It has its own bucket, and no other bucket stops it. */
  readonly device?: string | undefined;
}

/** Length of a bucket key: long enough against collisions. */
const KEY_BYTES = 16;

/** A limit of the service. */
export interface LimitDeclaration {
  /** What it counts, in words for the documentation. */
  readonly counts: string;
  /** Who shares a bucket. */
  readonly per: string;
  /** Whether a success gives its point back. */
  readonly failuresOnly: boolean;
  readonly rule: (limits: RateLimits) => RateLimit;
  /** The members of an audit event that identify the bucket: a refused attempt is recorded with these only. */
  readonly about: readonly ("subject" | "client" | "address")[];
}

/** Attempts with a name after 100 failures in a row, until one succeeds. */
const GUESSED: RateLimit = { points: 5, seconds: 3_600 };

/** Wrong codes of an app, and wrong recovery codes. Each is counted separately. */
const SECOND_FACTOR: RateLimit = { points: 5, seconds: 900 };

/** How often one account, or one registration, may learn that a username is taken. */
const USERNAMES: RateLimit = { points: 10, seconds: 3_600 };

const LIMITS = {
  "signIn.accountAndAddress": {
    counts: "Failed sign-ins",
    per: "name and caller; name and browser, if the browser has signed in to the account before",
    failuresOnly: true,
    rule: (limits) => limits.signIn.accountAndAddress,
    about: ["address"],
  },
  "signIn.account": {
    counts: "Failed sign-ins",
    per: "name",
    failuresOnly: true,
    rule: (limits) => limits.signIn.account,
    about: [],
  },
  "signIn.address": {
    counts: "Failed sign-ins",
    per: "caller",
    failuresOnly: true,
    rule: (limits) => limits.signIn.address,
    about: ["address"],
  },
  "signIn.guessed": {
    counts: "Failed sign-ins after 100 failures in a row",
    per: "name",
    failuresOnly: true,
    rule: () => GUESSED,
    about: [],
  },
  "passwordGrant.accountAndClient": {
    counts: "Failed password grants",
    per: "name and client",
    failuresOnly: true,
    rule: (limits) => limits.passwordGrant.accountAndClient,
    about: ["client"],
  },
  "passwordGrant.account": {
    counts: "Failed password grants",
    per: "name",
    failuresOnly: true,
    rule: (limits) => limits.passwordGrant.account,
    about: [],
  },
  "passwordGrant.client": {
    counts: "Failed password grants",
    per: "client",
    failuresOnly: true,
    rule: (limits) => limits.passwordGrant.client,
    about: ["client"],
  },
  "passwordGrant.guessed": {
    counts: "Failed password grants after 100 failures in a row",
    per: "name",
    failuresOnly: true,
    rule: () => GUESSED,
    about: [],
  },
  clientSecret: {
    counts: "Wrong client secrets",
    per: "client and caller",
    failuresOnly: true,
    rule: (limits) => limits.clientSecret,
    about: ["subject", "address"],
  },
  deviceRequests: {
    counts: "Codes requested by devices",
    per: "client and caller",
    failuresOnly: false,
    rule: (limits) => limits.deviceRequests,
    about: ["subject", "address"],
  },
  "deviceCodes.account": {
    counts: "Wrong codes of devices",
    per: "account",
    failuresOnly: true,
    rule: (limits) => limits.deviceCodes,
    about: ["subject"],
  },
  "deviceCodes.address": {
    counts: "Wrong codes of devices",
    per: "caller",
    failuresOnly: true,
    rule: (limits) => limits.deviceCodes,
    about: ["address"],
  },
  interactions: {
    counts: "Sign-ins started",
    per: "caller",
    failuresOnly: false,
    rule: (limits) => limits.interactions,
    about: ["address"],
  },
  registrations: {
    counts: "Registrations",
    per: "caller",
    failuresOnly: false,
    rule: (limits) => limits.registrations,
    about: ["address"],
  },
  "mail.recipientAndCaller": {
    counts: "Requested mail",
    per: "recipient and caller",
    failuresOnly: false,
    rule: (limits) => limits.mail.recipientAndCaller,
    about: ["address"],
  },
  "mail.recipientAndCallerDaily": {
    counts: "Requested mail",
    per: "recipient and caller",
    failuresOnly: false,
    rule: (limits) => limits.mail.recipientAndCallerDaily,
    about: ["address"],
  },
  "mail.recipient": {
    counts: "Requested mail",
    per: "recipient",
    failuresOnly: false,
    rule: (limits) => limits.mail.recipient,
    about: [],
  },
  "mail.recipientDaily": {
    counts: "Requested mail",
    per: "recipient",
    failuresOnly: false,
    rule: (limits) => limits.mail.recipientDaily,
    about: [],
  },
  "mail.caller": {
    counts: "Requested mail",
    per: "caller",
    failuresOnly: false,
    rule: (limits) => limits.mail.caller,
    about: ["address"],
  },
  "mail.device": {
    counts:
      "Mail requested in a browser that has signed in to the account before; no other limit of mail counts it",
    per: "recipient and browser",
    failuresOnly: false,
    rule: (limits) => limits.mail.device,
    about: ["address"],
  },
  changes: {
    counts: "Changes that a signed-in person makes",
    per: "account",
    failuresOnly: false,
    rule: (limits) => limits.changes,
    about: ["subject"],
  },
  "secondFactor.app": {
    counts: "Wrong codes of an authenticator app",
    per: "account; account and browser, if the browser has signed in to the account before",
    failuresOnly: true,
    rule: () => SECOND_FACTOR,
    about: ["subject"],
  },
  "secondFactor.recovery": {
    counts: "Wrong recovery codes",
    per: "account; account and browser, if the browser has signed in to the account before",
    failuresOnly: true,
    rule: () => SECOND_FACTOR,
    about: ["subject"],
  },
  usernames: {
    counts: "Answers that a username is taken",
    per: "account, or running registration",
    failuresOnly: false,
    rule: () => USERNAMES,
    about: [],
  },
} as const satisfies Readonly<Record<string, LimitDeclaration>>;

type LimitName = keyof typeof LIMITS;

/** Every limit of the service, by its name. `docs/security.md` prints it. */
export const RATE_LIMITS: Readonly<Record<string, LimitDeclaration>> = LIMITS;

/** Records a refused attempt in the audit, once for each bucket that refused it. */
export function noteLimited(
  audit: Pick<AuditCollector, "noteRefusal">,
  event: AuditEvent,
  { refusedBy }: Pick<Attempt, "refusedBy">,
): void {
  for (const refusal of refusedBy) {
    const { about }: LimitDeclaration = LIMITS[refusal.limit as LimitName];
    const known = about.map((name) => [name, event[name]] as const);
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

/** @param taken the answer of each bucket. */
function verdictOf(
  buckets: readonly Bucket[],
  taken: readonly Taken[],
): Pick<Attempt, "allowed" | "retryAfter" | "refusedBy"> {
  return {
    allowed: taken.every(({ allowed }) => allowed),
    retryAfter: Math.max(...taken.map(({ retryAfter }) => retryAfter)),
    refusedBy: buckets
      .filter((_bucket, index) => !taken[index]?.allowed)
      .map(({ limit, key, seconds }) => ({ limit, bucket: key, seconds })),
  };
}

/**
 * The bucket of a name. It depends only on the name as typed, so a limit reveals neither which names exist nor which
 * belong to one account. Names that are too long for any account share one bucket per caller.
 */
function subjectOf(typed: string, caller: string): readonly string[] {
  const name = typedName(typed);
  return name === undefined ? ["too long", caller] : ["name", name];
}

/**
 * @param counters of the storage.
 * @param key makes HMACs of names and addresses, so that all buckets are small and the storage shows neither. Processes
 *   that share buckets need the same key.
 */
export function createAttemptLimits(limits: RateLimits, counters: Counters, key: KeyObject): AttemptLimits {
  const keyOf = (...parts: readonly string[]): string =>
    createHmac("sha256", key).update(JSON.stringify(parts)).digest().toString("base64url", 0, KEY_BYTES);
  const bucket = (limit: LimitName, ...parts: readonly string[]): Bucket => ({
    limit,
    ...LIMITS[limit].rule(limits),
    key: keyOf(...parts),
  });
  /** A bucket for each network of the caller. */
  function perCaller(limit: LimitName, address: string, ...parts: readonly string[]): readonly Bucket[] {
    const { points, seconds } = LIMITS[limit].rule(limits);
    return callerNetworks(address).map(({ network, share }) => ({
      limit,
      points: points * share,
      seconds,
      key: keyOf(...parts, network),
    }));
  }

  /** A refused attempt is not a guess, so it takes no points. */
  async function take(buckets: readonly Bucket[]): Promise<Attempt> {
    const giveBack = (): Promise<void> => counters.giveBack(buckets);
    return { ...verdictOf(buckets, await counters.take(buckets)), succeed: giveBack, withdraw: giveBack };
  }

  /** @param what `asked` counts names as typed, and `sent` the addresses that get the mail. */
  function mailBuckets(what: "asked" | "sent", { name, address, device }: MailRequest): readonly Bucket[] {
    const subject = [what, ...subjectOf(name, callerNetwork(address))];
    // Requests from elsewhere must not keep the owner of an account from a new password.
    if (device !== undefined) return [bucket("mail.device", ...subject, "device", device)];
    return [
      ...perCaller("mail.recipientAndCaller", address, ...subject),
      ...perCaller("mail.recipientAndCallerDaily", address, ...subject),
      bucket("mail.recipient", ...subject),
      bucket("mail.recipientDaily", ...subject),
    ];
  }
  function askedBuckets(request: MailRequest): readonly Bucket[] {
    const own = mailBuckets("asked", request);
    return request.device === undefined ? [...own, ...perCaller("mail.caller", request.address)] : own;
  }
  return {
    signIn({ name, address, device, guessed }) {
      const subject = subjectOf(name, callerNetwork(address));
      // Guesses by others, even from the same address, don't lock out a browser that has signed in to this account
      // before.
      if (device !== undefined)
        return take([bucket("signIn.accountAndAddress", ...subject, "device", device)]);
      return take([
        ...perCaller("signIn.accountAndAddress", address, ...subject),
        bucket("signIn.account", ...subject),
        ...perCaller("signIn.address", address),
        ...(guessed ? [bucket("signIn.guessed", ...subject)] : []),
      ]);
    },
    passwordGrant({ name, client, guessed }) {
      const subject = subjectOf(name, client);
      return take([
        bucket("passwordGrant.accountAndClient", ...subject, client),
        bucket("passwordGrant.account", ...subject),
        bucket("passwordGrant.client", client),
        ...(guessed ? [bucket("passwordGrant.guessed", ...subject)] : []),
      ]);
    },
    async clientSecret({ client, address }, check) {
      const match = check();
      if (match === "generated") return { allowed: true, matches: true, retryAfter: 0, refusedBy: [] };
      const wrongSecrets = perCaller("clientSecret", address, client);
      if (match === undefined) return { ...(await take(wrongSecrets)), matches: false };
      return { ...verdictOf(wrongSecrets, await counters.look(wrongSecrets)), matches: true };
    },
    deviceRequest: ({ client, address }) => take(perCaller("deviceRequests", address, client)),
    deviceCode: ({ sub, address }) =>
      take([bucket("deviceCodes.account", sub), ...perCaller("deviceCodes.address", address)]),
    interaction: (address) => take(perCaller("interactions", address)),
    mail: (request) => take(askedBuckets(request)),
    registration: (request) =>
      take([...askedBuckets(request), ...perCaller("registrations", request.address)]),
    recipient: async (request) => (await take(mailBuckets("sent", request))).allowed,
    change: (sub) => take([bucket("changes", sub)]),
    secondFactor: ({ factor, sub, device }) =>
      take([bucket(`secondFactor.${factor}`, sub, ...(device === undefined ? [] : ["device", device]))]),
    usernameTaken: (asker) => take([bucket("usernames", asker)]),
  };
}
