/** Rate limits of guesses: which buckets an attempt consumes a point of (decisions.md, Rate limits). */
import { createHmac, type KeyObject } from "node:crypto";
import type { AuditEvent, Refusal } from "../../records/audit/audit-event.ts";
import type { AuditCollector } from "../../records/audit/collector.ts";
import type { Bucket, RateLimits as Counters, LimitAnswer, Rider } from "../../records/rate-limits.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { namesOf, type SignInName } from "../names.ts";
import { type LimitName, RATE_LIMITS } from "./limit-table.ts";
import { callerNetwork, callerNetworks, createNetworkFactors, wideNetwork } from "./networks.ts";
import type { RateLimits } from "../../config/rate-limits.ts";

/** An attempt that has consumed its points, and whether it may continue. */
export interface Attempt {
  readonly allowed: boolean;
  /** Seconds until the next attempt can succeed; 0 when allowed. */
  readonly retryAfter: number;
  /** The buckets without a point left; empty when allowed. */
  readonly refusedBy: readonly Refusal[];
  /** The buckets of which more than {@link OWN_RECORDS} points are consumed in this window. */
  readonly repeatedIn: readonly Refusal[];
  /** Gives the points back because the attempt succeeded. @param rider what is written with them. */
  succeed(rider?: Rider): Promise<void>;
  /** Gives the points back because a fault kept the secret from being checked. */
  withdraw(): Promise<void>;
}

/** What an attempt's buckets say. */
export type AttemptVerdict = Omit<Attempt, "succeed" | "withdraw">;

export interface AttemptLimits {
  /**
   * A submitted sign-in form.
   * @param attempt.name `undefined`: no account can have it.
   * @param attempt.device the id of a device cookie that belongs to the account of this name. It has its own bucket, and no other bucket stops it.
   * @param attempt.guessed whether so many tries with this name have failed in a row that a browser without a device
   *   cookie is limited further.
   */
  signIn(attempt: {
    readonly name: SignInName | undefined;
    readonly address: string;
    readonly device: string | undefined;
    readonly guessed: boolean;
  }): Promise<Attempt>;
  /** @param attempt.name and `guessed` as in `signIn`. */
  passwordGrant(attempt: {
    readonly name: SignInName | undefined;
    readonly client: string;
    readonly guessed: boolean;
  }): Promise<Attempt>;
  /**
   * A client secret. Comparing it is cheap and happens first: a wrong secret consumes a point, a correct one that a person chose
   * only needs one to be left, and one that this service generated needs none: nobody guesses it. Parallel guesses count too,
   * because each consumes its point before its response is known.
   * @param check called synchronously.
   */
  clientSecret(
    attempt: { readonly client: string; readonly address: string },
    check: () => "generated" | "chosen" | undefined,
  ): Promise<AttemptVerdict & { readonly matches: boolean }>;
  /**
   * Other credentials of a client that were wrong, such as an assertion. Right ones need no point.
   * @param failure.client `undefined`: no client has the name that was sent. Such names share one bucket for each caller.
   */
  wrongClient(failure: { readonly client: string | undefined; readonly address: string }): Promise<Attempt>;
  /** A DPoP proof that was wrong. Right ones need no point. */
  wrongProof(address: string): Promise<Attempt>;
  /** A passkey that was wrong. A right one needs no point: nobody guesses a signature. */
  wrongPasskey(failure: { readonly interaction: string; readonly address: string }): Promise<Attempt>;
  /**
   * Somebody leaves for a provider. Its points are not refunded.
   * @param trip.about the id of the sign-in, or the `sub` of the account that something is linked to.
   */
  trip(trip: { readonly about: string; readonly address: string }): Promise<Attempt>;
  /**
   * The document of an unregistered client, which is fetched for the first time. Its points are not refunded.
   * @param fetch.sub the account that is signed in; `undefined`: nobody is.
   */
  document(fetch: {
    readonly sub: string | undefined;
    readonly address: string;
    readonly origin: string;
  }): Promise<Attempt>;
  /** A device asks for a code. Its point is not refunded. */
  deviceRequest(attempt: { readonly client: string; readonly address: string }): Promise<Attempt>;
  /** The code of a device that a signed-in person enters. */
  deviceCode(attempt: { readonly sub: string; readonly address: string }): Promise<Attempt>;
  /** A code for an account without a page. Its point is not refunded. @param rider the code, which is written with the point. */
  authorization(sub: string, rider?: Rider): Promise<Attempt>;
  /**
   * A new interaction. Its point is not refunded.
   * @param options.pushed the pushed request that it is for, if that has consumed a point: the first interaction consumes
   *   no other.
   * @param options.rider the interaction, which is written with the point.
   */
  interaction(
    address: string,
    options?: { readonly pushed?: string | undefined; readonly rider?: Rider | undefined },
  ): Promise<Attempt>;
  /**
   * A request for mail by someone who may be a stranger. Its points are not refunded.
   */
  mail(request: MailRequest): Promise<MailAttempt>;
  /** A registration. It also counts as a request for mail. */
  registration(request: MailRequest): Promise<MailAttempt>;
  /** A registration without mail, because a provider vouches for the address. Its point is not refunded. */
  vouchedRegistration(address: string): Promise<Attempt>;
  /** Refunds what `mail` consumed, or what `registration` consumed for the mail, because none is sent. */
  notMailed(request: MailRequest): Promise<void>;
  /** A password that somebody chooses with a link or code from mail. Its point is not refunded. */
  newPassword(sub: string): Promise<Attempt>;
  /**
   * The mail itself, after `mail` or `registration` let the request through: names of one account share its address. The
   * result must not reach the person who asks, because it shows which names belong together; it costs the same work.
   * @param request.name the address that gets the mail.
   */
  recipient(request: MailRequest): Promise<Pick<MailAttempt, "allowed" | "fullFor">>;
  /** A change that a signed-in person makes. Its point is not refunded. */
  change(sub: string): Promise<Attempt>;
  /** A factor that has been tried, for an account without one. */
  firstFactor(sub: string): Promise<Attempt>;
  /** An identity that is linked to an account. */
  identity(sub: string): Promise<Attempt>;
  /**
   * A code of an authenticator app, or a recovery code, after the right password.
   * @param attempt.device the id of a browser that has signed in to the account completely before. It has its own bucket, and no other bucket stops it.
   */
  secondFactor(attempt: {
    readonly factor: "app" | "recovery";
    readonly sub: string;
    readonly device: string | undefined;
  }): Promise<Attempt>;
  /** A new `Idempotency-Key` of an administrator. Its point is not refunded. */
  idempotencyKey(actor: { readonly kind: string; readonly id?: string }): Promise<Attempt>;
  /**
   * The limits that hold an account back now, whoever asks from wherever, with the seconds until they end. Shown to operators
   * only. Limits of a caller are not among them: nobody knows where the person is.
   */
  full(account: Pick<AccountRecord, "sub" | "email" | "username">): Promise<readonly FullLimit[]>;
  /** Revealing that a username is taken. @param asker the `sub` of an account, or the id of a running registration. */
  usernameTaken(asker: string): Promise<Attempt>;
}

/** A limit without a point left. */
export interface FullLimit {
  readonly limit: LimitName;
  readonly endsIn: number;
}

/** A request for mail that has consumed its points. */
export interface MailAttempt extends Attempt {
  /**
   * Seconds until the totals over all callers have room again, if this request consumed the last point of one. Otherwise 0.
   */
  readonly fullFor: number;
}

/** What the mail is for. Each has totals of its own, so that none keeps an account from another. */
export type MailPurpose = "reset" | "registration" | "address" | "factor" | "sign-in";

/** Who asks for mail, and to which address. */
interface MailRequest {
  readonly purpose: MailPurpose;
  /** The address or the name, whether or not an account has it. `undefined`: no account can have it. */
  readonly name: SignInName | undefined;
  /** The caller's IP address. */
  readonly address: string;
  /** The id of a device cookie that belongs to the account of this name. It has its own bucket, and no other bucket stops it. */
  readonly device?: string | undefined;
}

/** Length of a bucket key: long enough against collisions. */
const KEY_BYTES = 16;

/** Failures of one bucket in one window that have an audit record of their own. The rest share one with a count. */
const OWN_RECORDS = 10;

/** The limits of mail over all callers. */
const MAIL_TOTALS: ReadonlySet<string> = new Set<LimitName>(["mail.recipient", "mail.recipientDaily"]);

/** The only bucket of a limit over everybody. */
const ALL = "all";

/** Stands for all names that no client has. A `client_id` has no space. */
const NO_CLIENT = "no client";

/** Records a refused attempt in the audit, once for each bucket that refused it. */
export function noteLimited(
  audit: Pick<AuditCollector, "noteRefusal">,
  event: AuditEvent,
  { refusedBy }: Pick<Attempt, "refusedBy">,
): void {
  for (const refusal of refusedBy) countRefusal(audit, { ...event, reason: "limited" }, refusal);
}

/**
 * Records a failure that consumed its points, or was refused, in the audit: the first of a bucket in a window one by one, the
 * rest in one record with a count, so that nobody fills the storage with failures.
 */
export function noteFailure(
  audit: Pick<AuditCollector, "note" | "noteRefusal">,
  event: AuditEvent,
  verdict: Pick<Attempt, "allowed" | "refusedBy" | "repeatedIn">,
): void {
  const repeated = verdict.repeatedIn.at(-1);
  if (!verdict.allowed) noteLimited(audit, event, verdict);
  else if (repeated === undefined) audit.note({ ...event, outcome: "failure" });
  else countRefusal(audit, event, repeated);
}

/** Counts an event in the record of its bucket. The record has only what all events of the bucket have in common. */
function countRefusal(
  audit: Pick<AuditCollector, "noteRefusal">,
  { reason, ...event }: AuditEvent,
  refusal: Refusal,
): void {
  const { about } = RATE_LIMITS[refusal.limit as LimitName];
  const known = about.map((name) => [name, event[name]] as const);
  const { action, actor } = event;
  audit.noteRefusal(
    {
      action,
      actor,
      ...Object.fromEntries(known.filter(([, value]) => value !== undefined)),
      outcome: "failure",
      ...(reason !== undefined && { reason }),
      detail: { limit: refusal.limit, seconds: refusal.seconds },
    },
    refusal,
  );
}

/** A bucket, and how many failures in it have an audit record of their own. */
type FailureBucket = Bucket & { readonly ownRecords: number };

/** @param answers about each bucket. */
function verdictOf(buckets: readonly FailureBucket[], answers: readonly LimitAnswer[]): AttemptVerdict {
  const which = (isMeant: (answer: LimitAnswer, bucket: FailureBucket) => boolean): readonly Refusal[] =>
    buckets
      .filter((bucket, index) => isMeant(answers[index]!, bucket))
      .map(({ limit, key, seconds }) => ({ limit, bucket: key, seconds }));
  return {
    allowed: answers.every(({ allowed }) => allowed),
    retryAfter: Math.max(...answers.map(({ retryAfter }) => retryAfter)),
    refusedBy: which(({ allowed }) => !allowed),
    repeatedIn: which(({ used }, { ownRecords }) => used > ownRecords),
  };
}

/**
 * The bucket of a name. It depends only on the name, so a limit reveals neither which names exist nor which belong to
 * one account. Names that are too long for any account share one bucket per caller.
 */
function subjectOf(name: SignInName | undefined, caller: string): readonly string[] {
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
  const bucket = (limit: LimitName, ...parts: readonly string[]): FailureBucket => ({
    limit,
    ...RATE_LIMITS[limit].rule(limits),
    key: keyOf(...parts),
    ownRecords: OWN_RECORDS,
  });
  const factorOf = createNetworkFactors(limits.networks);
  /** A bucket for each network of the caller. */
  function perCaller(
    limit: LimitName,
    address: string,
    ...parts: readonly string[]
  ): readonly FailureBucket[] {
    const { points, seconds } = RATE_LIMITS[limit].rule(limits);
    const factor = factorOf(address);
    return callerNetworks(address).map(({ network, share }) => ({
      limit,
      points: points * share * factor,
      seconds,
      key: keyOf(...parts, network),
      ownRecords: OWN_RECORDS * share,
    }));
  }

  /** A refused attempt is not a guess, so it consumes no points. */
  async function consume(buckets: readonly FailureBucket[], rider?: Rider): Promise<Attempt> {
    const refund = (written?: Rider): Promise<void> => counters.refund(buckets, written);
    const verdict = verdictOf(buckets, await counters.consume(buckets, { rider }));
    return { ...verdict, succeed: refund, withdraw: () => refund() };
  }

  /** @param what `asked` counts names as typed, and `sent` the addresses that get the mail. */
  function mailBuckets(
    what: "asked" | "sent",
    { purpose, name, address, device }: MailRequest,
  ): readonly FailureBucket[] {
    const subject = [what, purpose, ...subjectOf(name, callerNetwork(address))];
    // Requests from elsewhere must not keep the owner of an account from a new password.
    if (device !== undefined) return [bucket("mail.device", ...subject, "device", device)];
    return [
      ...perCaller("mail.recipientAndCaller", address, ...subject),
      ...perCaller("mail.recipientAndCallerDaily", address, ...subject),
      bucket("mail.recipient", ...subject),
      bucket("mail.recipientDaily", ...subject),
    ];
  }
  async function consumeForMail(buckets: readonly FailureBucket[], evenly = false): Promise<MailAttempt> {
    const answers = await counters.consume(buckets, { evenly });
    const refund = (): Promise<void> => counters.refund(buckets);
    const ends = buckets.map(({ limit, points }, index) => {
      const { used, endsIn } = answers[index]!;
      return MAIL_TOTALS.has(limit) && used >= points ? endsIn : 0;
    });
    const verdict = verdictOf(buckets, answers);
    const fullFor = verdict.allowed ? Math.max(...ends) : 0;
    return { ...verdict, fullFor, succeed: refund, withdraw: refund };
  }
  function askedBuckets(request: MailRequest): readonly FailureBucket[] {
    const own = mailBuckets("asked", request);
    return request.device === undefined ? [...own, ...perCaller("mail.caller", request.address)] : own;
  }
  return {
    signIn({ name, address, device, guessed }) {
      const subject = subjectOf(name, callerNetwork(address));
      // Guesses by others, even from the same address, don't lock out a browser that has signed in to this account
      // before.
      if (device !== undefined)
        return consume([bucket("signIn.accountAndAddress", ...subject, "device", device)]);
      return consume([
        ...perCaller("signIn.accountAndAddress", address, ...subject),
        bucket("signIn.account", ...subject),
        ...perCaller("signIn.address", address),
        ...(guessed
          ? [
              bucket("signIn.guessedNearby", ...subject, wideNetwork(address)),
              bucket("signIn.guessed", ...subject),
            ]
          : []),
      ]);
    },
    passwordGrant({ name, client, guessed }) {
      const subject = subjectOf(name, client);
      return consume([
        bucket("passwordGrant.accountAndClient", ...subject, client),
        bucket("passwordGrant.account", ...subject),
        bucket("passwordGrant.client", client),
        ...(guessed ? [bucket("passwordGrant.guessed", ...subject, client)] : []),
      ]);
    },
    async clientSecret({ client, address }, check) {
      const match = check();
      if (match === "generated")
        return { allowed: true, matches: true, retryAfter: 0, refusedBy: [], repeatedIn: [] };
      const wrongSecrets = perCaller("clientSecret", address, client);
      if (match === undefined) return { ...(await consume(wrongSecrets)), matches: false };
      return { ...verdictOf(wrongSecrets, await counters.look(wrongSecrets)), matches: true };
    },
    wrongClient: ({ client = NO_CLIENT, address }) => consume(perCaller("clientSecret", address, client)),
    wrongProof: (address) => consume(perCaller("dpopProof", address)),
    wrongPasskey: ({ interaction, address }) =>
      consume([bucket("signIn.passkeys", interaction), ...perCaller("signIn.address", address)]),
    trip: ({ about, address }) =>
      consume([bucket("trips.owner", about), ...perCaller("trips.address", address)]),
    document: ({ sub, address, origin }) =>
      consume(
        sub === undefined
          ? [
              ...perCaller("documents.caller", address),
              bucket("documents.origin", origin),
              bucket("documents.strangers", ALL),
            ]
          : [bucket("documents.account", sub), bucket("documents.accounts", ALL)],
      ),
    deviceRequest: ({ client, address }) => consume(perCaller("deviceRequests", address, client)),
    deviceCode: ({ sub, address }) =>
      consume([bucket("deviceCodes.account", sub), ...perCaller("deviceCodes.address", address)]),
    authorization: (sub, rider) => consume([bucket("authorizations", sub)], rider),
    async interaction(address, { pushed, rider } = {}) {
      if (pushed !== undefined) {
        const first = await consume([bucket("interactions.pushed", pushed)], rider);
        if (first.allowed) return first;
      }
      return consume(perCaller("interactions", address), rider);
    },
    mail: (request) => consumeForMail(askedBuckets(request)),
    registration: (request) =>
      consumeForMail([...askedBuckets(request), ...perCaller("registrations", request.address)]),
    vouchedRegistration: (address) => consume(perCaller("registrations", address)),
    notMailed: (request) => counters.refund(askedBuckets(request)),
    newPassword: (sub) => consume([bucket("newPasswords", sub)]),
    recipient: (request) => consumeForMail(mailBuckets("sent", request), true),
    change: (sub) => consume([bucket("changes", sub)]),
    firstFactor: (sub) => consume([bucket("firstFactors", sub)]),
    identity: (sub) => consume([bucket("identities", sub)]),
    secondFactor: ({ factor, sub, device }) =>
      consume([bucket(`secondFactor.${factor}`, sub, ...(device === undefined ? [] : ["device", device]))]),
    idempotencyKey: ({ kind, id = "" }) => consume([bucket("idempotencyKeys", kind, id)]),
    async full(account) {
      const { sub } = account;
      const names = namesOf(account).map((name) => ["name", name]);
      const mail = (["reset", "sign-in"] as const).flatMap((purpose) =>
        names.flatMap((name) =>
          (["asked", "sent"] as const).flatMap((what) => [
            bucket("mail.recipient", what, purpose, ...name),
            bucket("mail.recipientDaily", what, purpose, ...name),
          ]),
        ),
      );
      const buckets = [
        ...names.flatMap((name) => [bucket("signIn.account", ...name), bucket("signIn.guessed", ...name)]),
        bucket("secondFactor.app", sub),
        bucket("secondFactor.recovery", sub),
        bucket("newPasswords", sub),
        ...mail,
      ];
      const answers = await counters.look(buckets);
      return answers.flatMap(({ allowed, endsIn }, index) =>
        allowed ? [] : [{ limit: buckets[index]!.limit as LimitName, endsIn }],
      );
    },
    usernameTaken: (asker) => consume([bucket("usernames", asker)]),
  };
}
