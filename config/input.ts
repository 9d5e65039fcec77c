/** The configuration as a caller writes it. `schema.ts` checks the same shape, and the compiler checks that the two agree. */
import type { JWK } from "oidc-provider";
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import type {
  Mailer,
  MailMessage,
  PageLinks,
  RegistrationSettings,
  SmtpSettings,
  Theme,
  OwnStore,
} from "./configuration.ts";

/** A rate limit. Missing keys keep their defaults. */
export interface RateLimitInput {
  /** Events allowed in each window. */
  readonly points?: number;
  /** Length of the window in seconds. */
  readonly seconds?: number;
}

/** The two base URLs. At least one is required. */
export interface DeploymentsInput {
  /** The OAuth 2.0 deployment, `{base_url}` of the interface. */
  readonly oauth2?: {
    /** Base URL without a trailing slash; https, or http on loopback. */
    readonly url: string;
  };
  /** The OpenID Connect deployment, `{openid_url}` of the interface. */
  readonly openid?: {
    /** Base URL without a trailing slash. It is also the issuer. */
    readonly url: string;
    /** The authorization endpoint also accepts POST. Requires https. Default `false`. */
    readonly post?: boolean;
  };
}

/** Keys. With SQLite, the service creates missing keys at the first start. */
export interface KeysInput {
  /** Keys that sign cookies, at least 32 characters each. The first signs, all verify. Default: created and kept in the storage. */
  readonly cookies?: readonly string[];
  /** Private JWKs. The first signs ID tokens, all are published. Default: created and kept in the storage. */
  readonly signing?: readonly JWK[];
  /** 32 bytes in Base64 each. The first encrypts, all decrypt. With SQLite, created in `PATH.keys` by default; otherwise required. */
  readonly secrets?: readonly string[];
  /** Rotates signing keys that the service created. Default: only `service.keys.rotate()` rotates them. */
  readonly rotation?: KeyRotationInput;
}

/** How often the service rotates the keys that it created, in seconds. */
export interface KeyRotationInput {
  /** The key that signs ID tokens, at least 86400. Default: never. */
  readonly signing?: number;
}

/** Lifetimes in seconds. */
export interface LifetimesInput {
  /** Authorization codes. Default 60, at most 600. */
  readonly authorizationCode?: number;
  /** Access tokens, the `expires_in` of the token response. Default 36000. */
  readonly accessToken?: number;
  /** Refresh tokens. Default 2592000. */
  readonly refreshToken?: number;
  /** ID tokens. Default 3600. */
  readonly idToken?: number;
  /** Sign-in sessions, since their last use. Default 1209600. */
  readonly session?: number;
  /** Sign-in sessions, since the person last signed in. Use does not extend this. Default 7776000. */
  readonly sessionMax?: number;
  /** A sign-in in progress. Default 3600. */
  readonly interaction?: number;
}

/** Refresh token rules for clients without their own. */
export interface RefreshTokensInput {
  /** Each use returns a new refresh token. Default `false`. */
  readonly rotate?: boolean;
  /** Seconds for which a rotated token still gets the response that rotated it. Default 10. */
  readonly reuseWindow?: number;
  /** Each use extends the lifetime of the token. Default `false`. */
  readonly sliding?: boolean;
  /** Seconds after which a sliding token expires for good. Default 7776000. */
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
  /** Minimum number of characters. Default 8, which is also the smallest allowed value. */
  readonly minLength?: number;
  /** Maximum number of characters. Default 128. */
  readonly maxLength?: number;
  /** How many hashes a process computes at the same time. Default 2. */
  readonly parallel?: number;
  /** Checks new passwords against known data breaches, without sending them. `{}` uses Pwned Passwords. Default: no check. */
  readonly breachCheck?: BreachCheckInput;
}

/** Who is asked whether a password is known from a data breach. */
export interface BreachCheckInput {
  /** Base URL of the range interface of Pwned Passwords or of a mirror. Default `https://api.pwnedpasswords.com/range`. */
  readonly url?: string;
  /** Seconds until the password is accepted without an answer. Default 2. */
  readonly timeout?: number;
}

/** Limits on failures. */
export interface RateLimitsInput {
  /** The sign-in form. */
  readonly signIn?: {
    /** One name from one address. Default 10 in 15 minutes. */
    readonly accountAndAddress?: RateLimitInput;
    /** One name from all addresses. Default 100 in an hour. */
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
  /** Mail that a stranger can cause: confirmations and password resets. */
  readonly mail?: {
    /** To one address, asked for from one address (IPv6: /64). Default 5 in an hour. */
    readonly recipientAndCaller?: RateLimitInput;
    /** The same in a day. Default 10. */
    readonly recipientAndCallerDaily?: RateLimitInput;
    /** To one address, whoever asks. Default 20 in an hour. */
    readonly recipient?: RateLimitInput;
    /** The same in a day. Default 40. */
    readonly recipientDaily?: RateLimitInput;
    /** Asked for from one address (IPv6: /64). Default 20 in an hour. */
    readonly caller?: RateLimitInput;
    /** Asked for in one browser that has signed in to the account before; no other of these limits stops it. Default 5 in an hour. */
    readonly device?: RateLimitInput;
  };
  /** Changes that a signed-in person makes to one account. Default 30 in an hour. */
  readonly changes?: RateLimitInput;
  /** Registrations from one address (IPv6: /64). Default 20 in an hour. */
  readonly registrations?: RateLimitInput;
  /** Wrong client secrets for one client from one address. Default 20 in 15 minutes. */
  readonly clientSecret?: RateLimitInput;
  /** New sign-ins from one address. Default 600 in 15 minutes. */
  readonly interactions?: RateLimitInput;
}

/** The audit log. */
export interface AuditInput {
  /** Seconds for which audit records are kept. Default 34560000 (400 days). */
  readonly retention?: number;
}

/** The pages. */
export interface InteractionsInput {
  /** Whether people can make accounts of their own, and what they are asked for. Default `false`. */
  readonly registration?: boolean | RegistrationSettings;
  /**
   * Usernames that people can't choose at registration or in their profile, whatever the case. Replaces the default:
   * `admin`, `root`, `support` and others.
   */
  readonly reservedUsernames?: readonly string[];
  /** Languages of the pages. The first is the default language. Default `["en", "pl"]`. */
  readonly locales?: readonly string[];
  /** Folders of EJS views that override the built-in ones. The first match wins. Default none. */
  readonly views?: readonly string[];
  /** Locale → key → text that replaces the built-in text. Default none. */
  readonly copy?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Name, colours, fonts, corners, logo and favicon. Default: the built-in ones. */
  readonly theme?: Theme;
  /** Links in the footer of each page: help, privacy and terms. Default none. */
  readonly links?: PageLinks;
  /** Path of a UI of your own on the hosts of the deployments, such as `/login`. Default: the built-in pages. */
  readonly ui?: string;
}

/** The service's cookies. */
export interface CookiesInput {
  /** Domain of the session cookie. Every host below it receives the cookie. Default: only the host itself. */
  readonly domain?: string;
  /** Prefix of all cookie names. Default empty. */
  readonly prefix?: string;
}

/** An SMTP URL, an SMTP URL with a sender, or an object or function that sends. */
export type MailInput = string | SmtpSettings | Mailer | ((message: MailMessage) => Promise<void>);

/** How notifications are delivered. */
export interface NotificationsInput {
  /** Seconds before each retry. N delays make N + 1 attempts. Default: ten attempts over 75.6 hours. */
  readonly retryDelays?: readonly number[];
  readonly timeouts?: {
    /** Seconds to connect. Default 5. */
    readonly connect?: number;
    /** Seconds for the whole attempt. Default 15. */
    readonly total?: number;
  };
  readonly concurrency?: {
    /** Concurrent attempts of a process. Default 50. */
    readonly total?: number;
    /** Concurrent attempts of a process to one receiver. With a Redis queue, all processes together make at most twice as many. Default 10. */
    readonly perReceiver?: number;
  };
  /**
   * Receivers of notifications and logout tokens that may be outside the public Internet: addresses, networks (CIDR) or
   * host names. Default none.
   */
  readonly allowedReceivers?: readonly string[];
  /** When a failing receiver is paused, and how often it is probed. */
  readonly breaker?: {
    /** Consecutive failures. Default 5. */
    readonly failures?: number;
    /** Seconds until the first probe. Doubles after each failed probe. Default 30. */
    readonly probe?: number;
    /** Maximum seconds between two probes. Default 300. */
    readonly longestProbe?: number;
  };
  /** How long finished deliveries are kept. */
  readonly retention?: {
    /** Seconds to keep the payload after success. Default seven days. */
    readonly payloads?: number;
    /** Seconds to keep the record, and parked deliveries with their payloads. Default 90 days. */
    readonly records?: number;
  };
  /** Seconds between two polls of the storage for deliveries of other processes. SQLite and PostgreSQL announce them sooner. Default 1. */
  readonly poll?: number;
  /** Deliver in this process. Default `true`. */
  readonly worker?: boolean;
}

/** Health and metrics of the bundled server and the worker. In your own server, call `service.health()` and `service.metrics()`. */
export interface MetricsInput {
  /** Serves `/metrics` and the detailed `/health` on this port. 0 picks a free port. Default: no such port. */
  readonly port?: number;
  /** The address to listen on. Default `127.0.0.1`. */
  readonly host?: string;
  /** The Bearer token for `/metrics`. With it, `/metrics` is also on the public port, and the port above requires it. Default none. */
  readonly token?: string;
}

/** The argument of `createSignInService`. Unknown keys and wrong values are errors, all reported together. */
export interface SignInServiceConfig {
  /** The base URLs. At least one is required. */
  readonly deployments: DeploymentsInput;
  /**
   * `sqlite:PATH`, `sqlite::memory:`, `postgresql://…`, `mongodb://…` or `mongodb+srv://…`, or your own store, which the
   * service closes. Default `sqlite:./sign-in.db`.
   */
  readonly storage?: string | OwnStore;
  /**
   * Where to keep codes, tokens, sessions, interactions and rate limits: `redis://…` or `rediss://…`. `?prefix=` sets the
   * prefix of the keys (default `sign-in:`). Default: `storage`.
   */
  readonly artifacts?: string;
  /** What schedules notifications: `embedded` (polls the storage), `redis://…` or `rediss://…` (BullMQ). Default `embedded`. */
  readonly queue?: string;
  /** Keys for cookies, ID tokens and encryption. */
  readonly keys?: KeysInput;
  /** Lifetimes in seconds. */
  readonly lifetimes?: LifetimesInput;
  /** Refresh token rules for clients without their own. */
  readonly refreshTokens?: RefreshTokensInput;
  /** Password hashing and rules. */
  readonly passwords?: PasswordsInput;
  /** Limits on failures. */
  readonly rateLimits?: RateLimitsInput;
  /** The audit log. */
  readonly audit?: AuditInput;
  /** The pages. */
  readonly interactions?: InteractionsInput;
  /** How to send e-mail. Default none. */
  readonly mail?: MailInput;
  /** The service's cookies. */
  readonly cookies?: CookiesInput;
  /** The `sub` of each operator, who may use the delivery console. Default none. */
  readonly operators?: readonly string[];
  /** Optional features. */
  readonly features?: {
    /** DPoP (RFC 9449). Default `false`. */
    readonly dpop?: boolean;
  };
  /** The path that a proxy strips, such as `/login`. Default none. */
  readonly stripPrefix?: string;
  /** Delivery of notifications. */
  readonly notifications?: NotificationsInput;
  /** `strict` refuses the password grant, GET revoke, codes without PKCE and new passwords of fewer than 15 characters. Default `documented`. */
  readonly profile?: "documented" | "strict";
  /**
   * Which `X-Forwarded-For` and `X-Forwarded-Host` to trust: none (`false`), one hop (`true`), this many hops, or these
   * networks. Default `false`. Required if a deployment uses https.
   */
  readonly proxy?: boolean | number | readonly string[];
  /** Health and metrics of the bundled server and the worker. Default: only `/health`, on the public port. */
  readonly metrics?: MetricsInput;
  /** A pino logger. Default: pino to the standard output. */
  readonly logger?: Logger;
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock;
  /** Sends e-mail. Overrides `mail`. */
  readonly mailer?: Mailer;
  /** Sends back-channel logout and other requests. Default: the service's own `fetch`, limited by `allowedReceivers`. */
  readonly fetch?: typeof globalThis.fetch;
}
