/** The table of limits: what each one counts, for whom, and how much is allowed (decisions.md, Rate limits). */
import type { RateLimit } from "../../config/configuration.ts";
import type { RateLimits } from "../../config/rate-limits.ts";

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
const GUESSED: RateLimit = { points: 20, seconds: 3_600 };
/** The same from one network. The rest is left to people elsewhere, such as the owner. */
const GUESSED_NEARBY: RateLimit = { points: 5, seconds: 3_600 };

/** Wrong codes of an app, and wrong recovery codes. Each is counted separately. */
const SECOND_FACTOR: RateLimit = { points: 5, seconds: 900 };

/** Wrong passkeys in one sign-in. No sign-in lasts longer than a day. */
const PASSKEYS: RateLimit = { points: 10, seconds: 86_400 };

/**
 * First second factors and linked identities of one account. The mail about each has a link that undoes it, so this limits mail
 * without ever leaving a change unannounced.
 */
const UNDOABLE: RateLimit = { points: 10, seconds: 3_600 };

/** New passwords that are tried with links and codes from the mail of one account. */
const NEW_PASSWORDS: RateLimit = { points: 30, seconds: 3_600 };

/** Trips to providers in one sign-in, or of one account. No sign-in lasts longer than a day. */
const TRIPS: RateLimit = { points: 30, seconds: 86_400 };

/** A pushed request is used once, within a minute. */
const PUSHED: RateLimit = { points: 1, seconds: 120 };

/** How often one account, or one registration, may learn that a username is taken. */
const USERNAMES: RateLimit = { points: 10, seconds: 3_600 };

/** Fetching what a request names makes a request to somebody else. */
const DOCUMENTS: RateLimit = { points: 20, seconds: 900 };
const DOCUMENTS_OF_ORIGIN: RateLimit = { points: 60, seconds: 3_600 };
const ALL_DOCUMENTS: RateLimit = { points: 300, seconds: 3_600 };

/** Each makes a record that is kept for a day. */
const IDEMPOTENCY_KEYS: RateLimit = { points: 10_000, seconds: 86_400 };

/** What a viewer and support may do in an hour of administration. */
const ACCOUNTS_READ: RateLimit = { points: 600, seconds: 3_600 };
const CHANGES_MADE: RateLimit = { points: 60, seconds: 3_600 };
const PEOPLE_HELPED: RateLimit = { points: 10, seconds: 3_600 };
const ONE_PERSON: RateLimit = { points: 1, seconds: 3_600 };

const LIMITS = {
  "signIn.accountAndAddress": {
    counts: "Failed sign-ins",
    per: "name and caller; name and browser, if the browser has signed in to the account before",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.signIn.accountAndAddress,
    about: ["address"],
  },
  "signIn.account": {
    counts: "Failed sign-ins",
    per: "name",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.signIn.account,
    about: [],
  },
  "signIn.address": {
    counts: "Failed sign-ins",
    per: "caller",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.signIn.address,
    about: ["address"],
  },
  "signIn.guessed": {
    counts: "Failed sign-ins after 100 failures in a row",
    per: "name",
    failuresOnly: true,
    rule: (): RateLimit => GUESSED,
    about: [],
  },
  "signIn.guessedNearby": {
    counts: "Failed sign-ins after 100 failures in a row",
    per: "name and wide network",
    failuresOnly: true,
    rule: (): RateLimit => GUESSED_NEARBY,
    about: ["address"],
  },
  "passwordGrant.accountAndClient": {
    counts: "Failed password grants",
    per: "name and client",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.passwordGrant.accountAndClient,
    about: ["client"],
  },
  "passwordGrant.account": {
    counts: "Failed password grants",
    per: "name",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.passwordGrant.account,
    about: [],
  },
  "passwordGrant.client": {
    counts: "Failed password grants",
    per: "client",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.passwordGrant.client,
    about: ["client"],
  },
  "passwordGrant.guessed": {
    counts: "Failed password grants after 100 failures in a row",
    per: "name and client",
    failuresOnly: true,
    rule: (): RateLimit => GUESSED,
    about: ["client"],
  },
  "signIn.passkeys": {
    counts: "Wrong passkeys",
    per: "sign-in",
    failuresOnly: true,
    rule: (): RateLimit => PASSKEYS,
    about: ["subject", "client", "address"],
  },
  clientSecret: {
    counts: "Wrong client secrets and assertions",
    per: "client and caller; caller, for names that no client has",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.clientSecret,
    about: ["subject", "address"],
  },
  dpopProof: {
    counts: "Wrong DPoP proofs; right ones need no point",
    per: "caller",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.dpopProof,
    about: ["address"],
  },
  deviceRequests: {
    counts: "Codes requested by devices",
    per: "client and caller",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.deviceRequests,
    about: ["subject", "address"],
  },
  "deviceCodes.account": {
    counts: "Wrong codes of devices",
    per: "account",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.deviceCodes.account,
    about: ["subject"],
  },
  "deviceCodes.address": {
    counts: "Wrong codes of devices",
    per: "caller",
    failuresOnly: true,
    rule: (limits: RateLimits): RateLimit => limits.deviceCodes.address,
    about: ["address"],
  },
  interactions: {
    counts: "Sign-ins started, and requests pushed by clients without credentials",
    per: "caller",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.interactions,
    about: ["address"],
  },
  "trips.address": {
    counts: "Trips to a provider that are started",
    per: "caller",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.interactions,
    about: ["address"],
  },
  "trips.owner": {
    counts: "Trips to a provider that are started",
    per: "sign-in; account, on the account pages",
    failuresOnly: false,
    rule: (): RateLimit => TRIPS,
    about: ["address"],
  },
  authorizations: {
    counts: "Authorization codes for people who are signed in and see no page",
    per: "account",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.authorizations,
    about: ["subject"],
  },
  "interactions.pushed": {
    counts: "Sign-ins that consume no point of `interactions`, because the pushed request did",
    per: "request pushed by a client without credentials",
    failuresOnly: false,
    rule: (): RateLimit => PUSHED,
    about: [],
  },
  registrations: {
    counts: "Registrations",
    per: "caller",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.registrations,
    about: ["address"],
  },
  "mail.recipientAndCaller": {
    counts: "Requested mail",
    per: "recipient and caller",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.mail.recipientAndCaller,
    about: ["address"],
  },
  "mail.recipientAndCallerDaily": {
    counts: "Requested mail",
    per: "recipient and caller",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.mail.recipientAndCallerDaily,
    about: ["address"],
  },
  "mail.recipient": {
    counts: "Requested mail",
    per: "recipient",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.mail.recipient,
    about: [],
  },
  "mail.recipientDaily": {
    counts: "Requested mail",
    per: "recipient",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.mail.recipientDaily,
    about: [],
  },
  "mail.caller": {
    counts: "Requested mail",
    per: "caller",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.mail.caller,
    about: ["address"],
  },
  "mail.device": {
    counts:
      "Mail requested in a browser that has signed in to the account before; no other limit of mail counts it",
    per: "recipient and browser",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.mail.device,
    about: ["address"],
  },
  idempotencyKeys: {
    counts: "Different `Idempotency-Key`s of requests to the administration",
    per: "token; operator",
    failuresOnly: false,
    rule: (): RateLimit => IDEMPOTENCY_KEYS,
    about: [],
  },
  "administration.accounts": {
    counts: "Accounts that are read over HTTP, each item of a list",
    per: "token, or operator, with the role `viewer` or `support`",
    failuresOnly: false,
    rule: (): RateLimit => ACCOUNTS_READ,
    about: [],
  },
  "administration.changes": {
    counts: "Changes that are made over HTTP",
    per: "token, or operator, with the role `viewer` or `support`",
    failuresOnly: false,
    rule: (): RateLimit => CHANGES_MADE,
    about: [],
  },
  "administration.people": {
    counts: "People whose second factors are removed over HTTP",
    per: "token, or operator, with the role `support`",
    failuresOnly: false,
    rule: (): RateLimit => PEOPLE_HELPED,
    about: [],
  },
  "administration.person": {
    counts: "A person of `administration.people`, who counts once",
    per: "token, or operator, and person",
    failuresOnly: false,
    rule: (): RateLimit => ONE_PERSON,
    about: [],
  },
  changes: {
    counts: "Changes that a signed-in person makes",
    per: "account",
    failuresOnly: false,
    rule: (limits: RateLimits): RateLimit => limits.changes,
    about: ["subject"],
  },
  "secondFactor.app": {
    counts: "Wrong codes of an authenticator app",
    per: "account; account and browser, if the browser has signed in to the account before",
    failuresOnly: true,
    rule: (): RateLimit => SECOND_FACTOR,
    about: ["subject"],
  },
  "secondFactor.recovery": {
    counts: "Wrong recovery codes",
    per: "account; account and browser, if the browser has signed in to the account before",
    failuresOnly: true,
    rule: (): RateLimit => SECOND_FACTOR,
    about: ["subject"],
  },
  firstFactors: {
    counts: "Second factors that are added to an account without one",
    per: "account",
    failuresOnly: false,
    rule: (): RateLimit => UNDOABLE,
    about: ["subject"],
  },
  identities: {
    counts: "Identities at other providers that are linked to an account",
    per: "account",
    failuresOnly: false,
    rule: (): RateLimit => UNDOABLE,
    about: ["subject"],
  },
  newPasswords: {
    counts: "New passwords tried at a reset",
    per: "account",
    failuresOnly: false,
    rule: (): RateLimit => NEW_PASSWORDS,
    about: ["subject"],
  },
  "documents.account": {
    counts: "Documents of unregistered clients that are fetched for the first time",
    per: "account",
    failuresOnly: false,
    rule: (): RateLimit => DOCUMENTS,
    about: [],
  },
  "documents.accounts": {
    counts: "Documents of unregistered clients that are fetched for the first time",
    per: "nothing: all accounts together",
    failuresOnly: false,
    rule: (): RateLimit => ALL_DOCUMENTS,
    about: [],
  },
  "documents.caller": {
    counts:
      "Documents of unregistered clients that are fetched for the first time, for nobody who is signed in",
    per: "caller",
    failuresOnly: false,
    rule: (): RateLimit => DOCUMENTS,
    about: ["address"],
  },
  "documents.origin": {
    counts:
      "Documents of unregistered clients that are fetched for the first time, for nobody who is signed in",
    per: "origin of the document",
    failuresOnly: false,
    rule: (): RateLimit => DOCUMENTS_OF_ORIGIN,
    about: [],
  },
  "documents.strangers": {
    counts:
      "Documents of unregistered clients that are fetched for the first time, for nobody who is signed in",
    per: "nothing: all callers together",
    failuresOnly: false,
    rule: (): RateLimit => ALL_DOCUMENTS,
    about: [],
  },
  usernames: {
    counts: "Answers that a username is taken",
    per: "account, or running registration",
    failuresOnly: false,
    rule: (): RateLimit => USERNAMES,
    about: [],
  },
} as const;

export type LimitName = keyof typeof LIMITS;

/** Every limit of the service, by its name. `docs/reference/limits.md` prints it. */
export const RATE_LIMITS: Readonly<Record<LimitName, LimitDeclaration>> = LIMITS;

/** Whose limit it is, for the words to the person: the text `problem.limited.<whose>`. Others have no words of their own. */
const WHOSE: Readonly<Partial<Record<LimitName, "network" | "networkMail" | "name" | "nameMail">>> = {
  "signIn.address": "network",
  interactions: "network",
  "trips.address": "network",
  registrations: "network",
  "mail.caller": "networkMail",
  "signIn.accountAndAddress": "name",
  "signIn.account": "name",
  "signIn.guessed": "name",
  "signIn.guessedNearby": "name",
  "mail.recipientAndCaller": "nameMail",
  "mail.recipientAndCallerDaily": "nameMail",
  "mail.recipient": "nameMail",
  "mail.recipientDaily": "nameMail",
  "mail.device": "nameMail",
};

/** Whose limit the first of these refusals is. */
export function whoseLimit(refusedBy: readonly { readonly limit: string }[]): string | undefined {
  const [first] = refusedBy;
  return first && WHOSE[first.limit as LimitName];
}
