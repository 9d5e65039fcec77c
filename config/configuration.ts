/** The configuration after reading: checked, complete with defaults, and frozen. */
import type { JWK } from "oidc-provider";
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";

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

/** At most `points` events in each window of `seconds`. */
export interface RateLimit {
  readonly points: number;
  readonly seconds: number;
}

/** Rules for refresh tokens. A client can override them. */
export interface RefreshTokenRules {
  readonly rotate: boolean;
  /** Seconds for which a rotated token still gets the response that rotated it. */
  readonly reuseWindow: number;
  readonly sliding: boolean;
  /** Seconds after which a sliding token expires for good. */
  readonly maxAge: number;
}

export interface Lifetimes {
  readonly authorizationCode: number;
  readonly accessToken: number;
  readonly refreshToken: number;
  readonly idToken: number;
  readonly session: number;
  readonly sessionMax: number;
  readonly interaction: number;
}

export interface PasswordRules {
  /** Argon2id memory in KiB. */
  readonly memory: number;
  readonly passes: number;
  readonly lanes: number;
  readonly minLength: number;
  readonly maxLength: number;
  /** How many hashes are computed at the same time. The others wait. */
  readonly parallel: number;
  /** Set: new passwords are checked against known data breaches. */
  readonly breachCheck?: BreachCheckSettings;
}

/** Who is asked whether a password is known from a data breach. */
export interface BreachCheckSettings {
  /** Base URL of the interface of Pwned Passwords, without the prefix of the hash. */
  readonly url: string;
  /** Seconds until the password is accepted without an answer. */
  readonly timeout: number;
}

export interface RateLimits {
  readonly signIn: {
    readonly accountAndAddress: RateLimit;
    readonly account: RateLimit;
    readonly address: RateLimit;
  };
  readonly passwordGrant: {
    readonly accountAndClient: RateLimit;
    readonly account: RateLimit;
    readonly client: RateLimit;
  };
  /** Mail that a stranger can cause. */
  readonly mail: {
    readonly recipientAndCaller: RateLimit;
    readonly recipientAndCallerDaily: RateLimit;
    readonly recipient: RateLimit;
    readonly recipientDaily: RateLimit;
    readonly caller: RateLimit;
    readonly device: RateLimit;
  };
  /** Changes that a signed-in person makes. */
  readonly changes: RateLimit;
  readonly registrations: RateLimit;
  readonly clientSecret: RateLimit;
  readonly interactions: RateLimit;
}

/** The look of the pages. Missing keys keep the built-in values. */
export interface Theme {
  /** The name of the service. Plain text: escape it when printing. */
  readonly name?: string;
  /** Colour of buttons and links. */
  readonly accent?: string;
  readonly background?: string;
  readonly text?: string;
  /** Radius of corners, in pixels: 0 to 24. */
  readonly radius?: number;
  /** Names of fonts, separated by commas. None is loaded: they are fonts of the person's device. */
  readonly fonts?: string;
  /** Path of an image of at most 12,000 bytes, shown instead of the name. */
  readonly logo?: string;
  /** Path of an image of at most 4,000 bytes. */
  readonly favicon?: string;
}

/** Addresses in the footer of each page. `{locale}` in one stands for the language of the page. */
export interface PageLinks {
  /** May also be a `mailto:` address. */
  readonly help?: string;
  readonly privacy?: string;
  readonly terms?: string;
}

/** What somebody entered who wants an account. */
export interface RegistrationRequest {
  readonly email: string;
  readonly username?: string;
  readonly name?: string;
  readonly surname?: string;
  /** `YYYY-MM-DD`. */
  readonly date_of_birth?: string;
  readonly gender?: string;
  /** The language of the page. */
  readonly locale?: string;
  /** The client that the person is signing in to. */
  readonly client_id?: string;
  /** The IP address, as far as proxies are trusted. */
  readonly address: string;
}

/** Registration by people themselves. */
export interface RegistrationSettings {
  /** What the form asks for besides e-mail address and password. Default: nothing. */
  readonly fields?: {
    readonly username?: "required" | "optional";
    readonly name?: "required" | "optional";
    readonly surname?: "required" | "optional";
    readonly date_of_birth?: "required" | "optional";
    readonly gender?: "required" | "optional";
  };
  /** Terms of use that people have to accept. People who accepted another version are asked at their next sign-in. */
  readonly terms?: { readonly url: string; readonly version: string };
  /** The only domains of e-mail addresses that can register. Default: all. */
  readonly domains?: readonly string[];
  /**
   * `false` refuses the registration. It runs before anything is stored, for known addresses too. If it rejects, or does
   * not answer within 3 seconds, the person is asked to try again.
   */
  readonly check?: (request: RegistrationRequest) => boolean | Promise<boolean>;
}

export interface InteractionSettings {
  readonly registration: boolean | RegistrationSettings;
  /** Usernames that nobody can choose, in any case. */
  readonly reservedUsernames: readonly string[];
  /** The first is the default. */
  readonly locales: readonly string[];
  /** Folders of EJS views that override the built-in ones. The first match wins. */
  readonly views: readonly string[];
  /** Locale → key → text that replaces the built-in text. */
  readonly copy: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly theme: Theme;
  /** The links in the footer. */
  readonly links: PageLinks;
  /** Path of a UI of a team's own, which shows the steps of a sign-in instead of the built-in pages. */
  readonly ui?: string;
}

export interface NotificationSettings {
  readonly retryDelays: readonly number[];
  readonly timeouts: { readonly connect: number; readonly total: number };
  readonly concurrency: { readonly total: number; readonly perReceiver: number };
  readonly allowedReceivers: readonly string[];
  readonly breaker: {
    /** Consecutive failures after which a receiver is paused and probed. */
    readonly failures: number;
    /** Seconds until the first probe. Doubles after each failed probe. */
    readonly probe: number;
    /** Maximum seconds between two probes. */
    readonly longestProbe: number;
  };
  readonly retention: {
    /** Seconds for which payloads are kept after success. */
    readonly payloads: number;
    /** Seconds for which finished records are kept, and parked deliveries with their payloads. */
    readonly records: number;
  };
  /** Seconds between two polls of the storage. */
  readonly poll: number;
  readonly worker: boolean;
}

/** An e-mail to one person. */
export interface MailMessage {
  /** `<ID@HOST>`, the same on every attempt: a message that was accepted already can be recognised by it. */
  readonly messageId: string;
  /** The sender, as an address or `Name <address>`. */
  readonly from: string;
  /** The recipient's e-mail address. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

/** Sends messages in place of SMTP. A rejected promise means that the message was not accepted. */
export interface Mailer {
  send(message: MailMessage): Promise<void>;
}

/** The mail server. */
export interface SmtpSettings {
  /** `smtp://` or `smtps://`, with user and password if the server requires them. A secret. */
  readonly url: string;
  /** The sender, as an address or `Name <address>`. */
  readonly from?: string;
  /** Whether mail may go unencrypted to an `smtp://` server elsewhere that offers no STARTTLS. Default `false`. */
  readonly allowClearText?: boolean;
}

/** Which `X-Forwarded-For` and `X-Forwarded-Host` to trust: none, those of this many hops, or those from these networks (CIDR). */
export type ProxyTrust = false | number | readonly string[];

/** Health and metrics outside the public port. */
export interface MetricsSettings {
  /** The bundled server and the worker serve `/metrics` and the detailed `/health` on this port. */
  readonly port?: number;
  readonly host: string;
  /** The expected Bearer token. A secret. */
  readonly token?: string;
}

/**
 * A store that the host brings: a `RecordStore` of `sign-in-service/adapters`. Only `adapters/` knows what its methods
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

export interface Configuration {
  readonly deployments: { readonly oauth2?: Deployment; readonly openid?: Deployment };
  /** An address, or {@link OWN_STORAGE}. */
  readonly storage: string;
  /** The store that the host passed in place of an address. */
  readonly store?: OwnStore;
  /** Equal to `storage` unless configured. */
  readonly artifacts: string;
  readonly queue: string;
  readonly keys: {
    readonly cookies?: readonly string[];
    readonly signing?: readonly JWK[];
    readonly secrets?: readonly string[];
    readonly rotation?: {
      /** Seconds after which the service creates a new signing key. */
      readonly signing?: number;
    };
  };
  readonly lifetimes: Lifetimes;
  readonly refreshTokens: RefreshTokenRules;
  readonly passwords: PasswordRules;
  readonly rateLimits: RateLimits;
  readonly audit: {
    /** Seconds for which audit records are kept. */
    readonly retention: number;
  };
  readonly interactions: InteractionSettings;
  readonly mail?: SmtpSettings | Mailer;
  readonly cookies: {
    readonly domain?: string;
    /** Prefix of all cookie names. May be empty. */
    readonly prefix: string;
  };
  readonly operators: readonly string[];
  readonly features: { readonly dpop: boolean };
  /** Starts with a slash and ends without one. Empty if no proxy strips a path. */
  readonly stripPrefix: string;
  readonly notifications: NotificationSettings;
  readonly profile: "documented" | "strict";
  readonly proxy: ProxyTrust;
  readonly metrics?: MetricsSettings;
  readonly logger?: Logger;
  readonly clock: Clock;
  /** Overrides `mail`. */
  readonly mailer?: Mailer;
  readonly fetch?: typeof globalThis.fetch;
  /** True when any deployment is not on loopback. */
  readonly production: boolean;
}
