/** The configuration after reading: every default filled in, checked and frozen. */
import type { JWK } from "oidc-provider";
import type { Logger } from "pino";
import type { RecordStore } from "../adapters/record-store.ts";
import type { Clock } from "../lib/clock.ts";

/** What `storage` says when the host gave a store of its own. No address reads so. */
export const OWN_STORAGE = "own";

export type DeploymentKind = "oauth2" | "openid";

/** One base URL and what is spoken there. */
export interface Deployment {
  readonly kind: DeploymentKind;
  /** The base URL, without a trailing slash. */
  readonly url: string;
  /** The path part of `url`, without a trailing slash; empty at the root. */
  readonly path: string;
  /** Host and port as a browser sends them in `Host`. */
  readonly host: string;
  readonly secure: boolean;
  /** `openid` only: the authorization endpoint takes POST as well. */
  readonly post: boolean;
}

/** How many points there are in a window of how many seconds. */
export interface RateLimit {
  readonly points: number;
  readonly seconds: number;
}

/** How refresh tokens live; a client may differ from the service's rules. */
export interface RefreshTokenRules {
  readonly rotate: boolean;
  /** Seconds in which a rotated token still gets the answer that rotated it. */
  readonly reuseWindow: number;
  readonly sliding: boolean;
  /** Seconds after which a sliding token ends for good. */
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
  /** How many hashes are computed at once; the others wait. */
  readonly parallel: number;
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
  readonly clientSecret: RateLimit;
  readonly interactions: RateLimit;
}

/** What a team changes of the look without views of its own; what is missing stays as built in. */
export interface Theme {
  /** Shown as the name of the service; plain text, to be escaped where it is printed. */
  readonly name?: string;
  /** Colour of buttons and links. */
  readonly accent?: string;
  readonly background?: string;
  readonly text?: string;
}

export interface InteractionSettings {
  readonly registration: boolean;
  /** The first is the default. */
  readonly locales: readonly string[];
  /** Folders of EJS views that win over the built-in ones, first match first. */
  readonly views: readonly string[];
  /** Locale → key → text that replaces the built-in one. */
  readonly copy: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The look: `name` is text, all others are CSS colours that are safe to print into a style sheet. */
  readonly theme: Theme;
}

export interface NotificationSettings {
  readonly retryDelays: readonly number[];
  readonly timeouts: { readonly connect: number; readonly total: number };
  readonly concurrency: { readonly total: number; readonly perReceiver: number };
  readonly allowedReceivers: readonly string[];
  readonly breaker: {
    /** Failed attempts in a row after which a receiver is held back and probed. */
    readonly failures: number;
    /** Seconds from there to the first probe; doubled after each that fails. */
    readonly probe: number;
    /** Seconds between two probes at most. */
    readonly longestProbe: number;
  };
  readonly retention: {
    /** Seconds after success for which payloads are kept. */
    readonly payloads: number;
    /** Seconds after the end for which records are kept, and parked deliveries with their payloads. */
    readonly records: number;
  };
  /** Seconds between two looks at the storage. */
  readonly poll: number;
  readonly worker: boolean;
}

/** One message to one person. */
export interface MailMessage {
  /** The e-mail address of the person. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html?: string;
}

/** What sends messages in place of SMTP. A rejected promise means that the message was not taken over. */
export interface Mailer {
  send(message: MailMessage): Promise<void>;
}

/** The mail server that takes over the messages. */
export interface SmtpSettings {
  /** `smtp://` or `smtps://`, with user and password when the server wants them: a secret. */
  readonly url: string;
  /** The sender, as an address or `Name <address>`. */
  readonly from?: string;
}

/** Whose `X-Forwarded-For` and `X-Forwarded-Host` count: nobody's, those of so many hops, or of these networks (CIDR). */
export type ProxyTrust = false | number | readonly string[];

/** Where health and metrics are told beside the public port. */
export interface MetricsSettings {
  /** Of the bundled server and the worker: a port of its own for `/metrics` and the detailed `/health`. */
  readonly port?: number;
  readonly host: string;
  /** A secret, sent as a Bearer token. */
  readonly token?: string;
}

export interface Configuration {
  readonly deployments: { readonly oauth2?: Deployment; readonly openid?: Deployment };
  /** An address, or {@link OWN_STORAGE}. */
  readonly storage: string;
  /** The store that the host gave in place of an address. */
  readonly store?: RecordStore;
  /** Equal to `storage` unless moved. */
  readonly artifacts: string;
  readonly queue: string;
  readonly keys: {
    readonly cookies?: readonly string[];
    readonly signing?: readonly JWK[];
    readonly secrets?: readonly string[];
    readonly rotation?: {
      /** Seconds after which the service makes another signing key. */
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
    /** Put in front of the names of all cookies; may be empty. */
    readonly prefix: string;
  };
  readonly operators: readonly string[];
  readonly features: { readonly dpop: boolean };
  /** Starts with a slash and ends without one; empty when nothing is taken off. */
  readonly stripPrefix: string;
  readonly notifications: NotificationSettings;
  readonly profile: "documented" | "strict";
  readonly proxy: ProxyTrust;
  readonly metrics?: MetricsSettings;
  readonly logger?: Logger;
  readonly clock: Clock;
  /** Wins over `mail`. */
  readonly mailer?: Mailer;
  readonly fetch?: typeof globalThis.fetch;
  /** True when any deployment is not on loopback. */
  readonly production: boolean;
}
