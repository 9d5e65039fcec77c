/** The configuration as a caller writes it. `schema.ts` checks the same shape, and the compiler that they agree. */
import type { JWK } from "oidc-provider";
import type { Logger } from "pino";
import type { RecordStore } from "../adapters/record-store.ts";
import type { Clock } from "../lib/clock.ts";
import type { Mailer, MailMessage, SmtpSettings, Theme } from "./configuration.ts";

/** A window of points; a key left out keeps its default. */
export interface RateLimitInput {
  /** How many failures are let through in a window. */
  readonly points?: number;
  /** Length of the window in seconds. */
  readonly seconds?: number;
}

/** The two base URLs; at least one is needed. */
export interface DeploymentsInput {
  /** The OAuth 2.0 deployment, `{base_url}` of the interface. */
  readonly oauth2?: {
    /** Base URL without a trailing slash; https, or http on loopback. */
    readonly url: string;
  };
  /** The OpenID Connect deployment, `{openid_url}` of the interface. */
  readonly openid?: {
    /** Base URL without a trailing slash; it is the issuer. */
    readonly url: string;
    /** The authorization endpoint takes POST too; https only. Default `false`. */
    readonly post?: boolean;
  };
}

/** Keys; each is made at the first start when it is left out and the storage is SQLite. */
export interface KeysInput {
  /** Sign cookies, at least 32 characters each: the first signs, all verify. Default: made and kept in the storage. */
  readonly cookies?: readonly string[];
  /** Private JWKs: the first signs ID tokens, all are published. Default: made and kept in the storage. */
  readonly signing?: readonly JWK[];
  /** 32 bytes in Base64 each: the first encrypts, all decrypt. Default with SQLite: made in `PATH.keys`; else required. */
  readonly secrets?: readonly string[];
  /** Replaces signing keys that the service made. Default: only `service.keys.rotate()` does. */
  readonly rotation?: KeyRotationInput;
}

/** How often the service replaces keys that it made, in seconds. */
export interface KeyRotationInput {
  /** The key that signs ID tokens, at least 86400. Default: never. */
  readonly signing?: number;
}

/** How long things live, in seconds. */
export interface LifetimesInput {
  /** Authorization codes. Default 60, at most 600. */
  readonly authorizationCode?: number;
  /** Access tokens, the `expires_in` of the token response. Default 36000. */
  readonly accessToken?: number;
  /** Refresh tokens. Default 2592000. */
  readonly refreshToken?: number;
  /** ID tokens. Default 3600. */
  readonly idToken?: number;
  /** Sign-in sessions that are not used. Default 1209600. */
  readonly session?: number;
  /** Sign-in sessions from the last time the person signed in, however much they are used. Default 7776000. */
  readonly sessionMax?: number;
  /** How long a begun sign-in may take. Default 3600. */
  readonly interaction?: number;
}

/** Rules for refresh tokens of clients that don't say. */
export interface RefreshTokensInput {
  /** Each use gives a new refresh token. Default `false`. */
  readonly rotate?: boolean;
  /** Seconds in which a rotated token still gets the answer that rotated it. Default 10. */
  readonly reuseWindow?: number;
  /** Each use prolongs the token. Default `false`. */
  readonly sliding?: boolean;
  /** Seconds after which a sliding token ends for good. Default 7776000. */
  readonly maxAge?: number;
}

/** Hashing cost (Argon2id, at least OWASP's minimum) and rules for passwords. */
export interface PasswordsInput {
  /** Memory in KiB. Default 19456. */
  readonly memory?: number;
  /** Passes over the memory. Default 2. */
  readonly passes?: number;
  /** Lanes. Default 1. */
  readonly lanes?: number;
  /** Characters at least. Default 8, which is the lowest. */
  readonly minLength?: number;
  /** Characters at most. Default 128. */
  readonly maxLength?: number;
  /** How many hashes are computed at once in a process. Default 2. */
  readonly parallel?: number;
}

/** How many failures are let through. */
export interface RateLimitsInput {
  /** The sign-in form. */
  readonly signIn?: {
    /** One name from one address. Default 10 in 15 minutes. */
    readonly accountAndAddress?: RateLimitInput;
    /** One name from anywhere. Default 100 in an hour. */
    readonly account?: RateLimitInput;
    /** One address (IPv6: /64). Default 300 in 15 minutes. */
    readonly address?: RateLimitInput;
  };
  /** The password grant. */
  readonly passwordGrant?: {
    /** One name at one client. Default 10 in 15 minutes. */
    readonly accountAndClient?: RateLimitInput;
    /** One name at all clients. Default 100 in an hour. */
    readonly account?: RateLimitInput;
    /** One client. Default 1000 in 15 minutes. */
    readonly client?: RateLimitInput;
  };
  /** Wrong client secrets for one client from one address. Default 20 in 15 minutes. */
  readonly clientSecret?: RateLimitInput;
  /** New sign-ins begun from one address. Default 600 in 15 minutes. */
  readonly interactions?: RateLimitInput;
}

/** The record of who did what. */
export interface AuditInput {
  /** Seconds for which audit records are kept. Default 34560000 (400 days). */
  readonly retention?: number;
}

/** The pages. */
export interface InteractionsInput {
  /** Registration by the user is not in this version: `true` is refused. Default `false`. */
  readonly registration?: boolean;
  /** Languages of the pages, the first is the default. Default `["en", "pl"]`. */
  readonly locales?: readonly string[];
  /** Folders of EJS views that win over the built-in ones, the first match first. Default none. */
  readonly views?: readonly string[];
  /** Locale → key → text that replaces the built-in one. Default none. */
  readonly copy?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Name and colours. Default: the built-in ones. */
  readonly theme?: Theme;
}

/** The service's cookies. */
export interface CookiesInput {
  /** Domain of the session cookie; every host under it is trusted with it then. Default: the host alone. */
  readonly domain?: string;
  /** Put in front of the names of all cookies. Default empty. */
  readonly prefix?: string;
}

/** An SMTP URL, the same with a sender, or what sends. */
export type MailInput = string | SmtpSettings | Mailer | ((message: MailMessage) => Promise<void>);

/** How notifications are delivered. */
export interface NotificationsInput {
  /** Seconds before each further attempt; N delays are N + 1 attempts. Default: ten attempts over 75.6 hours. */
  readonly retryDelays?: readonly number[];
  readonly timeouts?: {
    /** Seconds to connect. Default 5. */
    readonly connect?: number;
    /** Seconds for the whole attempt. Default 15. */
    readonly total?: number;
  };
  readonly concurrency?: {
    /** Attempts at once in a process. Default 50. */
    readonly total?: number;
    /** Attempts at once to one receiver, in a process; over Redis at most twice as many in all of them. Default 10. */
    readonly perReceiver?: number;
  };
  /**
   * Receivers of notifications and of logout tokens outside the public Internet: addresses, networks (CIDR) or host
   * names. Default none.
   */
  readonly allowedReceivers?: readonly string[];
  /** When a receiver that fails is held back, and how often one delivery is tried there then. */
  readonly breaker?: {
    /** Failed attempts in a row. Default 5. */
    readonly failures?: number;
    /** Seconds to the first probe; doubled after each that fails. Default 30. */
    readonly probe?: number;
    /** Seconds between two probes at most. Default 300. */
    readonly longestProbe?: number;
  };
  /** How long deliveries are kept that are not waiting any more. */
  readonly retention?: {
    /** Seconds after success for the payload. Default seven days. */
    readonly payloads?: number;
    /** Seconds for the record, and for parked deliveries with their payloads. Default 90 days. */
    readonly records?: number;
  };
  /** Seconds between two looks at the storage for what other processes stored; SQLite and PostgreSQL tell of it sooner. Default 1. */
  readonly poll?: number;
  /** Deliver in this process. Default `true`. */
  readonly worker?: boolean;
}

/** Health and metrics of the bundled server and the worker. Your own server has `service.health()` and `service.metrics()`. */
export interface MetricsInput {
  /** `/metrics` and the detailed `/health` are served on this port as well; 0 is any free port. Default: on none. */
  readonly port?: number;
  /** The address to listen on. Default `127.0.0.1`. */
  readonly host?: string;
  /** Sent as a Bearer token it opens `/metrics` on the public port too; the port above then asks for it. Default none. */
  readonly token?: string;
}

/** What `createSignInService` takes. Unknown keys and wrong values are errors, reported all at once. */
export interface SignInServiceConfig {
  /** The base URLs; at least one. */
  readonly deployments: DeploymentsInput;
  /**
   * `sqlite:PATH`, `sqlite::memory:`, `postgresql://…`, `mongodb://…` or `mongodb+srv://…`; or a store of your own, which
   * is closed with the service. Default `sqlite:./sign-in.db`.
   */
  readonly storage?: string | RecordStore;
  /**
   * `redis://…` or `rediss://…`, with `?prefix=` for what its keys begin with (default `sign-in:`): where codes, tokens,
   * sessions, interactions and rate limits are kept. Default: `storage`.
   */
  readonly artifacts?: string;
  /** `embedded`, `redis://…` or `rediss://…`: what wakes the delivery of notifications. Default `embedded`. */
  readonly queue?: string;
  /** Keys of cookies, ID tokens and encryption. */
  readonly keys?: KeysInput;
  /** Lifetimes in seconds. */
  readonly lifetimes?: LifetimesInput;
  /** Refresh tokens of clients that don't say. */
  readonly refreshTokens?: RefreshTokensInput;
  /** Password hashing and rules. */
  readonly passwords?: PasswordsInput;
  /** Limits on failures. */
  readonly rateLimits?: RateLimitsInput;
  /** The record of who did what. */
  readonly audit?: AuditInput;
  /** The pages. */
  readonly interactions?: InteractionsInput;
  /** An SMTP URL, the same with a sender, or what sends. Default none. */
  readonly mail?: MailInput;
  /** The service's cookies. */
  readonly cookies?: CookiesInput;
  /** The `sub` of each account that may use the delivery console. Default none. */
  readonly operators?: readonly string[];
  /** What is not offered unless it is switched on. */
  readonly features?: {
    /** DPoP (RFC 9449). Default `false`. */
    readonly dpop?: boolean;
  };
  /** The path that a proxy in front has taken off, such as `/login`. Default none. */
  readonly stripPrefix?: string;
  /** Delivery of notifications. */
  readonly notifications?: NotificationsInput;
  /** `strict` refuses the password grant, GET revoke and codes without PKCE. Default `documented`. */
  readonly profile?: "documented" | "strict";
  /**
   * Whose `X-Forwarded-For` and `X-Forwarded-Host` count: nobody's, one hop's (`true`), those of so many hops, or of
   * these networks. Default `false`; required when a deployment is https.
   */
  readonly proxy?: boolean | number | readonly string[];
  /** Health and metrics of the bundled server and the worker. Default: `/health` alone, on the public port. */
  readonly metrics?: MetricsInput;
  /** A pino logger. Default: pino to the standard output. */
  readonly logger?: Logger;
  /** Where time comes from. Default: the system's clock. */
  readonly clock?: Clock;
  /** What sends messages, in place of `mail`. */
  readonly mailer?: Mailer;
  /** Used for back-channel logout and the like. Default: the service's own, under the rules of `allowedReceivers`. */
  readonly fetch?: typeof globalThis.fetch;
}
