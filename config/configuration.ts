/**
 * What each key of the configuration means, and the configuration after reading: checked, complete with defaults, and
 * frozen. `docs/configuration.md` prints the comments of the keys, and `npm run docs` compares each ` Default: ` with the
 * schema. What a key accepts is in `schema.ts`, and its default in `defaults.ts`. Keys of the pages: `pages/`.
 */
import type { JWK } from "oidc-provider";
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import type { InteractionSettings } from "./pages/settings.ts";

/** The value of `storage` when the host passed its own store. It is not a valid address. */
export const OWN_STORAGE = "own";

export type DeploymentKind = "oauth2" | "openid";

/** One base URL, and the protocol that it serves. */
export interface Deployment {
  readonly kind: DeploymentKind;
  /** The base URL, without a trailing slash. */
  readonly url: string;
  /** The path part of `url`, without a trailing slash; empty at the root. */
  readonly path: string;
  /** Host and port as a browser sends them in `Host`. */
  readonly host: string;
  readonly secure: boolean;
  /** `openid` only: the authorization endpoint also accepts POST. */
  readonly post: boolean;
}

/** A rate limit. */
export interface RateLimit {
  /** how many in a window. */
  readonly points: number;
  /** seconds of the window. */
  readonly seconds: number;
}

/** Keys for cookies, ID tokens and encryption. */
export interface ConfiguredKeys {
  /** Keys that sign cookies: the first signs, all verify. Default: created at the first start and stored. */
  readonly cookies?: readonly string[];
  /** The first signs ID tokens, all are published. Default: created at the first start and stored. */
  readonly signing?: readonly JWK[];
  /**
   * Keys that encrypt stored secrets: the first encrypts, all decrypt. Default: SQLite: created at the first start in
   * `PATH.keys`; other storages: required.
   */
  readonly secrets?: readonly string[];
  /** Rotates keys that the service created, never those of the configuration. */
  readonly rotation?: {
    /** Seconds after which the service creates a new signing key for ID tokens. Default: never. */
    readonly signing?: number;
  };
}

/** Lifetimes in seconds. */
export interface Lifetimes {
  /** Lifetime of an authorization code, in seconds. Default 60. */
  readonly authorizationCode: number;
  /** Lifetime of an access token, in seconds: `expires_in` of the response. Default 36000. */
  readonly accessToken: number;
  /** Lifetime of a refresh token, in seconds. Default 2592000. */
  readonly refreshToken: number;
  /** Lifetime of an ID token, in seconds. Default 3600. */
  readonly idToken: number;
  /** Seconds without use after which a sign-in session ends. Default 1209600. */
  readonly session: number;
  /** Seconds after the sign-in when a session ends, even if it is in use. Default 7776000. */
  readonly sessionMax: number;
  /** Seconds that a person may take to sign in. Default 3600. */
  readonly interaction: number;
}

/** Rules for refresh tokens. A client can override them. */
export interface RefreshTokenRules {
  /** Each use returns a new refresh token. Default `false`. */
  readonly rotate: boolean;
  /** Seconds for which a rotated token, used again, gets the same response. Default 10. */
  readonly reuseWindow: number;
  /** Each use extends the lifetime of the token. Default `false`. */
  readonly sliding: boolean;
  /** Seconds after which a sliding token expires for good. Default 7776000. */
  readonly maxAge: number;
}

/** Password hashing and rules. */
export interface PasswordRules {
  /** Argon2id: memory in KiB. Default 19456. */
  readonly memory: number;
  /**
   * Argon2id: passes. Memory and passes must cost at least what OWASP recommends: 47104 KiB and 1 pass, 19456 and 2, 12288
   * and 3, 9216 and 4, or 7168 and 5. Default 2.
   */
  readonly passes: number;
  /** Argon2id: lanes. Default 1. */
  readonly lanes: number;
  /** Minimum number of characters of a new password; with `profile: strict` never fewer than 15. Default 8. */
  readonly minLength: number;
  /** Maximum number of characters of a password. Default 128. */
  readonly maxLength: number;
  /** Hashes that a process computes in parallel, each in its own thread. Default 2. */
  readonly parallel: number;
  /**
   * Refuses new passwords that are known from data breaches; neither they nor their hashes are sent. Default: none: that is
   * not checked.
   */
  readonly breachCheck?: BreachCheckSettings;
}

/** The service that knows passwords from data breaches. */
export interface BreachCheckSettings {
  /**
   * Base URL of Pwned Passwords or a mirror: the first 5 of the 40 digits of a SHA-1 are added as the last segment. Default
   * `"https://api.pwnedpasswords.com/range"`.
   */
  readonly url: string;
  /** Seconds to wait for an answer; without one, the password is accepted. Default 2. */
  readonly timeout: number;
}

/** How many failures and requests are let through. */
export interface RateLimits {
  /** The sign-in form. */
  readonly signIn: {
    /** Failed sign-ins with one name from one address. Default 10 in 900 seconds. */
    readonly accountAndAddress: RateLimit;
    /** Failed sign-ins with one name. Default 100 in 3600 seconds. */
    readonly account: RateLimit;
    /** Failed sign-ins from one address (IPv6: /64). Default 300 in 900 seconds. */
    readonly address: RateLimit;
  };
  /** The password grant. */
  readonly passwordGrant: {
    /** Failed password grants with one name at one client. Default 10 in 900 seconds. */
    readonly accountAndClient: RateLimit;
    /** Failed password grants with one name. Default 100 in 3600 seconds. */
    readonly account: RateLimit;
    /** Failed password grants at one client. Default 1000 in 900 seconds. */
    readonly client: RateLimit;
  };
  /** Mail that a stranger can cause: confirmations and password resets. */
  readonly mail: {
    /** Mail to one address, requested from one address (IPv6: /64). Default 5 in 3600 seconds. */
    readonly recipientAndCaller: RateLimit;
    /** The same in a day. Default 10 in 86400 seconds. */
    readonly recipientAndCallerDaily: RateLimit;
    /** Mail to one address, whoever requests it. Default 20 in 3600 seconds. */
    readonly recipient: RateLimit;
    /** The same in a day. Default 40 in 86400 seconds. */
    readonly recipientDaily: RateLimit;
    /** Mail requested from one address (IPv6: /64). Default 100 in 3600 seconds. */
    readonly caller: RateLimit;
    /**
     * Mail requested in a browser that has signed in to the account before. The other limits on mail don't apply to it.
     * Default 5 in 3600 seconds.
     */
    readonly device: RateLimit;
  };
  /** Changes that a signed-in person makes to one account. Default 30 in 3600 seconds. */
  readonly changes: RateLimit;
  /** Registrations from one address (IPv6: /64). Default 100 in 3600 seconds. */
  readonly registrations: RateLimit;
  /** Codes that devices ask for, for one client from one address (IPv6: /64). Default 100 in 900 seconds. */
  readonly deviceRequests: RateLimit;
  /** The page on which a person enters the code of a device. */
  readonly deviceCodes: {
    /** Wrong codes entered by one account. Default 10 in 900 seconds. */
    readonly account: RateLimit;
    /** Wrong codes from one address (IPv6: /64). Default 100 in 900 seconds. */
    readonly address: RateLimit;
  };
  /** Wrong secrets and assertions for one client from one address. Default 20 in 900 seconds. */
  readonly clientSecret: RateLimit;
  /** Wrong DPoP proofs from one address. Default 20 in 900 seconds. */
  readonly dpopProof: RateLimit;
  /** Sign-ins started from one address. Default 600 in 900 seconds. */
  readonly interactions: RateLimit;
  /** Authorizations of one account without a page: its browser is signed in. Default 600 in 900 seconds. */
  readonly authorizations: RateLimit;
  /**
   * Networks of one's own, in CIDR notation, and how many times the points of each limit by address their callers have, such as
   * `{ "203.0.113.0/24": 20 }` for an office. Limits by name, account and client stay. Default `{}`.
   */
  readonly networks: Readonly<Record<string, number>>;
}

/** What one account may own. */
export interface OwnershipLimits {
  /**
   * Browsers in which an account is signed in. With one more, the least recently used session ends. `false`: no limit. Default
   * 100.
   */
  readonly sessions: number | false;
  /**
   * Authorizations of an account that one client holds tokens for. With one more, the least recently used one ends with its
   * tokens. `false`: no limit. Default 100.
   */
  readonly grants: number | false;
}

/** How notifications are delivered. */
export interface NotificationSettings {
  /** Seconds before each retry: N delays make N + 1 attempts. Default `[5,300,1800,7200,18000,36000,50400,72000,86400]`. */
  readonly retryDelays: readonly number[];
  /** Time-outs of an attempt. */
  readonly timeouts: {
    /** Seconds to connect to a receiver. Default 5. */
    readonly connect: number;
    /** Seconds for the whole attempt. Default 15. */
    readonly total: number;
  };
  /** Limits on parallel attempts. */
  readonly concurrency: {
    /** Parallel attempts of a process; one in five is reserved for receivers that have none. Default 50. */
    readonly total: number;
    /** Parallel attempts of a process to one receiver. Default 10. */
    readonly perReceiver: number;
  };
  /** Receivers of notifications and logout tokens that may have private addresses or use plain http. Default `[]`. */
  readonly allowedReceivers: readonly string[];
  /** When a failing receiver is paused, and how often it is probed. */
  readonly breaker: {
    /** Consecutive failures after which a receiver is paused and probed. Default 5. */
    readonly failures: number;
    /** Seconds until the first probe; doubled after each failed one. Default 30. */
    readonly probe: number;
    /** Maximum seconds between two probes. Default 300. */
    readonly longestProbe: number;
  };
  /** How long finished deliveries are stored. */
  readonly retention: {
    /** Seconds for which payloads are stored after delivery. Default 604800. */
    readonly payloads: number;
    /** Seconds for which finished records are stored, and parked deliveries with their payloads. Default 7776000. */
    readonly records: number;
  };
  /**
   * Seconds between polls for deliveries that other processes stored; with SQLite and PostgreSQL they are noticed sooner.
   * Default 1.
   */
  readonly poll: number;
  /** Deliver in this process. Default `true`. */
  readonly worker: boolean;
}

/** An e-mail to one person. */
export interface MailMessage {
  /** `<ID@HOST>`, the same on every attempt, so that duplicates can be recognised. */
  readonly messageId: string;
  /** The sender, as an address or `Name <address>`. */
  readonly from: string;
  /** The recipient's e-mail address. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  /** Pictures in the HTML, if there are any. */
  readonly attachments?: readonly MailAttachment[];
}

/** A picture inside a mail. The members are those of nodemailer. */
export interface MailAttachment {
  /** The HTML shows it as `cid:` and this id (RFC 2392). */
  readonly cid: string;
  readonly filename: string;
  /** Its media type. */
  readonly contentType: string;
  readonly content: Uint8Array;
}

/** Sends messages in place of SMTP. A rejected promise means that the message was not accepted. */
export interface Mailer {
  send(message: MailMessage): Promise<void>;
}

/** The mail server. */
export interface SmtpSettings {
  /** The mail server, with user and password if it requires them. */
  readonly url: string;
  /** The sender. Default: `no-reply@` and the host of the deployment. */
  readonly from?: string;
  /**
   * Whether mail, and the password of the mail server, may go unencrypted to an `smtp://` server that is not on loopback
   * and offers no STARTTLS. Default `false`.
   */
  readonly allowClearText?: boolean;
}

/** Which `X-Forwarded-For` and `X-Forwarded-Host` to trust: none, those of this many hops, or those from these networks (CIDR). */
export type ProxyTrust = false | number | readonly string[];

/** Health and metrics of the bundled server and the worker. */
export interface MetricsSettings {
  /** A port of its own for `/metrics` and the detailed `/health`; 0 is any free port, `--metrics-port` wins. */
  readonly port?: number;
  /** The address on which this port listens. Default `"127.0.0.1"`. */
  readonly host: string;
  /**
   * A Bearer token for `/metrics`, which is then also available on the public port. The separate port requires it too.
   * Default: none: no `/metrics` on the public port.
   */
  readonly token?: string;
}

/**
 * A store that the host provides: a `RecordStore` of `sign-in-service/adapters`. Only `adapters/` knows what its methods
 * take; the configuration checks that they are there.
 */
export type OwnStore = Readonly<Record<(typeof STORE_METHODS)[number], (...values: never[]) => unknown>>;

export const STORE_METHODS = [
  "get",
  "list",
  "scan",
  "count",
  "commit",
  "next",
  "sweep",
  "ping",
  "close",
] as const;

/** The keys that have the same form before and after reading. */
export interface Settings {
  /** What triggers deliveries: polling of the storage, or BullMQ. Default `"embedded"`. */
  readonly queue: string;
  /** Keys of cookies, ID tokens and encryption. */
  readonly keys: ConfiguredKeys;
  /** Lifetimes of codes, tokens and sessions. */
  readonly lifetimes: Lifetimes;
  /** Refresh tokens of clients without rules of their own. */
  readonly refreshTokens: RefreshTokenRules;
  /** Password hashing and rules. */
  readonly passwords: PasswordRules;
  /** How many failures and requests are let through. */
  readonly rateLimits: RateLimits;
  /** What one account may own. */
  readonly limits: OwnershipLimits;
  /** The record of who did what. */
  readonly audit: {
    /** Seconds for which audit records are stored. Default 34560000. */
    readonly retention: number;
    /** The same for sign-ins, and for everything that failed. At most `retention`. Default 7776000. */
    readonly signIns: number;
  };
  /** The pages. */
  readonly interactions: InteractionSettings;
  /** Second factors. */
  readonly secondFactor: {
    /**
     * Whether people who sign in with a password are asked now and then to add a passkey, on devices that can create one.
     * Default `true`.
     */
    readonly offer: boolean;
    /** Days for which people can choose not to be asked for a second factor again in a browser. Default: not offered. */
    readonly remember?: number;
  };
  /** The service's cookies. */
  readonly cookies: {
    /**
     * Domain of the session cookie: two deployments on hosts under it share their sign-in, and every subdomain is trusted.
     * Default: none: the host alone.
     */
    readonly domain?: string;
    /** Prefix of the names of all cookies. Default `""`. */
    readonly prefix: string;
  };
  /** Who may use the console: see deliveries, find people, and remove second factors that were lost. Default `[]`. */
  readonly operators: readonly string[];
  /** Features that are off by default. */
  readonly features: {
    /** Offers DPoP (RFC 9449). Default `false`. */
    readonly dpop: boolean;
  };
  /** How notifications are delivered. */
  readonly notifications: NotificationSettings;
  /**
   * `strict` refuses the password grant, GET revoke, codes without PKCE and new passwords of fewer than 15 characters. With it,
   * third parties and operators need a second factor.
   * Default `"documented"`.
   */
  readonly profile: "documented" | "strict";
  /** Health and metrics of the bundled server and the worker. */
  readonly metrics?: MetricsSettings;
  /** Where the log goes. Default: pino to the standard output. */
  readonly logger?: Logger;
  /** Sends e-mail instead of `mail`. Default: made from `mail`. */
  readonly mailer?: Mailer;
  /**
   * Makes all HTTP requests except notifications, such as those of back-channel logout. Default: the service's own, to
   * public addresses and those that `notifications.allowedReceivers` names; for `passwords.breachCheck`, Node's.
   */
  readonly fetch?: typeof globalThis.fetch;
}

/** The configuration after reading. */
export interface Configuration extends Settings {
  readonly deployments: { readonly oauth2?: Deployment; readonly openid?: Deployment };
  /** An address, or {@link OWN_STORAGE}. */
  readonly storage: string;
  /** The store that the host passed in place of an address. */
  readonly store?: OwnStore;
  /** Equal to `storage` unless configured. */
  readonly artifacts: string;
  readonly mail?: SmtpSettings | Mailer;
  /** Starts with a slash and ends without one. Empty if no proxy strips a path. */
  readonly stripPrefix: string;
  readonly proxy: ProxyTrust;
  readonly clock: Clock;
  /** True when any deployment is not on loopback. */
  readonly production: boolean;
}
