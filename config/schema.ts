/**
 * Every key of the configuration, declared once: what it means (its comment, also in editors and in `docs/reference/configuration`), what
 * it accepts, and its default. `npm run docs` compares the default that a comment names with the one that is declared. Larger groups
 * of keys have files of their own: pages, mail, providers, notifications, events, rate limits. The rules between keys are in `rules.ts`.
 */
import type { JWK } from "oidc-provider";
import type { Logger } from "pino";
import { z } from "zod";
import { STORE_OPERATIONS } from "../core/metric-catalog.ts";
import type { Clock } from "../core/clock.ts";
import {
  callable,
  described,
  flag,
  fractionalSeconds,
  list,
  MAX_SECONDS,
  seconds,
  section,
  text,
  whole,
  withMethods,
} from "./documented-schema.ts";
import { isSecret, isSigningKey } from "./keys.ts";
import { admin } from "./admin.ts";
import { clients } from "./clients.ts";
import { accountSettings } from "./attributes.ts";
import { mail, type Mailer } from "./mail.ts";
import { events } from "./events.ts";
import { notifications } from "./notifications.ts";
import { interactions } from "./pages.ts";
import { deepFreeze } from "./plain-data.ts";
import { operators } from "./operators.ts";
import { providers } from "./providers.ts";
import { rateLimits } from "./rate-limits.ts";
import { addressForm, backendOf, DEFAULT_STORAGE, suits } from "./storage-address.ts";
import {
  isBearerToken,
  isCookiePrefix,
  isHostName,
  isListenAddress,
  isPathPrefix,
  isServiceAddress,
  isTrustworthyNetwork,
  LISTEN_FORM,
  NETWORK_FORM,
  PATH_FORM,
  WEB_ADDRESS_FORM,
} from "./value-forms.ts";

const HOUR = 60 * 60;
const DAY = 24 * HOUR;

const baseUrl = described(z.string(), {
  form: "a base URL: https, or http on loopback, without a trailing slash",
});
const deploymentForm = { form: "an object with the key `url`" };

/** The two base URLs. At least one is required. */
const deployments = section({
  /** The OAuth 2.0 deployment, `{base_url}`. */
  oauth2: described(
    section({
      /** Base URL of the deployment. */
      url: baseUrl,
    }).exactOptional(),
    deploymentForm,
  ),
  /** The OpenID Connect deployment, `{openid_url}`. */
  openid: described(
    section({
      /** Base URL of the deployment. It is also the issuer. */
      url: baseUrl,
      /** The authorization endpoint also accepts POST; https only. Default `false`. */
      post: flag().default(false),
    }).exactOptional(),
    deploymentForm,
  ),
});

const STORE_METHODS = [...STORE_OPERATIONS, "ping", "close"] as const;
const LISTED_METHODS = STORE_METHODS.map((name) => `\`${name}\``)
  .join(", ")
  .replace(/,(?=[^,]*$)/u, " and");

/**
 * A store that the host provides: a `RecordStore` of `sign-in-service/adapters`. Only `adapters/` knows what its methods
 * take; the configuration checks that they are there.
 */
export interface OwnStore extends Readonly<
  Record<(typeof STORE_METHODS)[number], (...values: never[]) => unknown>
> {}

/** The rules say what is wrong with an address of a known backend. */
const storageAddress = text(4096, (value) => suits("storage", value), "");
const ownStore = withMethods<OwnStore>(...STORE_METHODS);
/** One check for both, because a union would report that a wrong address is a string. */
const isStorage = (value: unknown): boolean =>
  (typeof value === "string" ? storageAddress : ownStore).safeParse(value).success;

const MIN_COOKIE_KEY_LENGTH = 32;
const cookieKey = text(
  1024,
  (value) => value.length >= MIN_COOKIE_KEY_LENGTH,
  `a string of at least ${MIN_COOKIE_KEY_LENGTH} characters`,
);
const SIGNING_KEY_FORM = "a private JWK: RSA of at least 2048 bits, P-256, P-384, P-521 or Ed25519";
const signingKey = z.custom<JWK>(isSigningKey).meta({ form: SIGNING_KEY_FORM });
/** A day. A new key signs after an hour, and every key stays published for months. */
const MIN_ROTATION_SECONDS = DAY;
const atFirstStart = { otherwise: "created at the first start and stored", holds: "secret" } as const;

/** Keys for cookies, ID tokens and encryption. */
const keys = section({
  /** Keys that sign cookies: the first signs, all verify. Default: created at the first start and stored. */
  cookies: described(list(cookieKey, 1).exactOptional(), atFirstStart),
  /** The first signs ID tokens, all are published. Default: created at the first start and stored. */
  signing: described(list(signingKey, 1).exactOptional(), {
    form: `a list of entries, each ${SIGNING_KEY_FORM}`,
    ...atFirstStart,
  }),
  /**
   * Keys that encrypt stored secrets: the first encrypts, all decrypt. Default: SQLite: created at the first start in
   * `PATH.keys`; other storages: required.
   */
  secrets: described(list(text(44, isSecret, "32 bytes in Base64"), 1).exactOptional(), {
    otherwise: "SQLite: created at the first start in `PATH.keys`; other storages: required",
    holds: "secret",
  }),
  /** Rotates keys that the service created, never those of the configuration. */
  rotation: section({
    /** Seconds after which the service creates a new signing key for ID tokens. Default: never. */
    signing: described(whole(MIN_ROTATION_SECONDS, MAX_SECONDS).exactOptional(), { otherwise: "never" }),
  }).exactOptional(),
});

/** Lifetimes in seconds. */
const lifetimes = section({
  /** Lifetime of an authorization code, in seconds. Default 60. */
  authorizationCode: whole(1, 600).default(60),
  /** Lifetime of an access token, in seconds: `expires_in` of the response. Default 36000. */
  accessToken: seconds().default(10 * HOUR),
  /** Lifetime of a refresh token, in seconds. Default 2592000. */
  refreshToken: seconds().default(30 * DAY),
  /** Lifetime of an ID token, in seconds. Default 3600. */
  idToken: seconds().default(HOUR),
  /** Seconds without use after which a sign-in session ends. Default 1209600. */
  session: seconds().default(14 * DAY),
  /** Seconds after the sign-in when a session ends, even if it is in use. Default 7776000. */
  sessionMax: seconds().default(90 * DAY),
  /** Seconds that a person may take to sign in. Default 3600. */
  interaction: seconds().default(HOUR),
});

/** Rules for refresh tokens. A client can override them. */
const refreshTokens = section({
  /** Each use returns a new refresh token. Default `false`. */
  rotate: flag().default(false),
  /** Seconds for which a rotated token, used again, gets the same response. Default 10. */
  reuseWindow: whole(0, 600).default(10),
  /** Each use extends the lifetime of the token. Default `false`. */
  sliding: flag().default(false),
  /** Seconds after which a sliding token expires for good. Default 7776000. */
  maxAge: seconds().default(90 * DAY),
});

/** The service that knows passwords from data breaches. */
const breachCheck = section({
  /**
   * Base URL of Pwned Passwords or a mirror: the first 5 of the 40 digits of a SHA-1 are added as the last segment. Default
   * `"https://api.pwnedpasswords.com/range"`.
   */
  url: text(2048, isServiceAddress, `${WEB_ADDRESS_FORM}, without a query`).default(
    "https://api.pwnedpasswords.com/range",
  ),
  /** Seconds to wait for an answer; without one, the password is accepted. Default 2. */
  timeout: fractionalSeconds(0.1, 4).default(2),
});

/** Password hashing and rules. */
const passwords = section({
  /** Argon2id: memory in KiB. Default 19456. */
  memory: whole(7168, 4_194_304).default(19_456),
  /**
   * Argon2id: passes. Memory and passes must cost at least what OWASP recommends: 47104 KiB and 1 pass, 19456 and 2, 12288
   * and 3, 9216 and 4, or 7168 and 5. Default 2.
   */
  passes: whole(1, 100).default(2),
  /** Argon2id: lanes. Default 1. */
  lanes: whole(1, 64).default(1),
  /** Minimum number of characters of a new password; with `profile: strict` never fewer than 15. Default 8. */
  minLength: whole(8, 64).default(8),
  /** Maximum number of characters of a password. Default 128. */
  maxLength: whole(64, 1024).default(128),
  /** Hashes that a process computes in parallel, each in its own thread. Default 2. */
  parallel: whole(1, 64).default(2),
  /**
   * Refuses new passwords that are known from data breaches; neither they nor their hashes are sent. Default: none: that is
   * not checked.
   */
  breachCheck: described(breachCheck.exactOptional(), {
    form: "an object with `url` and `timeout`; `{}` asks Pwned Passwords",
    otherwise: "none: that is not checked",
  }),
});

const MAX_OWNED = 1_000_000;
const owned = described(z.union([z.literal(false), z.int().min(1).max(MAX_OWNED)]).default(100), {
  form: `\`false\`, or a whole number from 1 to ${MAX_OWNED}`,
});

/** Browsers delete cookies that live much longer. */
const MAX_DAYS = 90;

/** Shorter tokens can be guessed, because failed attempts are not limited. */
const MIN_TOKEN_LENGTH = 16;

/** Health and metrics of the bundled server and the worker. */
const metrics = section({
  /** A port of its own for `/metrics` and the detailed `/health`; 0 is any free port, `--metrics-port` wins. */
  port: described(whole(0, 65_535).exactOptional(), { restart: true }),
  /** The address on which this port listens. Default `"127.0.0.1"`. */
  host: described(text(253, isListenAddress, LISTEN_FORM).default("127.0.0.1"), { restart: true }),
  /**
   * A Bearer token for `/metrics`, which is then also available on the public port. The separate port requires it too.
   * Default: none: no `/metrics` on the public port.
   */
  token: described(
    text(
      512,
      (token) => token.length >= MIN_TOKEN_LENGTH && isBearerToken(token),
      `a text of ${MIN_TOKEN_LENGTH} to 512 letters, digits and \`-._~+/\`, with \`=\` only at its end`,
    ).exactOptional(),
    { otherwise: "none: no `/metrics` on the public port", holds: "secret" },
  ),
});

const networks = list(text(50, isTrustworthyNetwork, NETWORK_FORM), 1);

/** Checks each key on its own. @see readConfiguration for the rules between keys and for readable problems. */
export const configurationSchema = section({
  /** The base URLs; at least one is required. */
  deployments: described(deployments, { form: "an object with `oauth2`, `openid` or both" }),
  /**
   * Where everything is stored. Data in memory ends with the process, so production refuses it. The service closes a store
   * of your own. Default `"sqlite:./sign-in.db"`.
   */
  storage: described(z.custom<string | OwnStore>(isStorage).default(DEFAULT_STORAGE), {
    form: `${addressForm("storage")}, or a store of your own (an object with ${LISTED_METHODS})`,
    writtenForm: addressForm("storage"),
    holds: "address",
    restart: true,
  }),
  /**
   * Where codes, tokens, sessions, interactions and rate limits are stored; `?prefix=` sets the prefix of its keys.
   * Default: same as `storage`.
   */
  artifacts: described(
    text(
      4096,
      (value) => backendOf(value) !== undefined,
      `${addressForm("artifacts")}, or the same as \`storage\``,
    ).exactOptional(),
    { otherwise: "same as `storage`", holds: "address", restart: true },
  ),
  /** What triggers deliveries: polling of the storage, or BullMQ. Default `"embedded"`. */
  queue: described(
    text(
      4096,
      (value) => value === "embedded" || suits("queue", value),
      `\`embedded\`, or ${addressForm("queue")}`,
    ).default("embedded"),
    { holds: "address", restart: true },
  ),
  /** Keys of cookies, ID tokens and encryption. */
  keys: keys.prefault({}),
  /** Lifetimes of codes, tokens and sessions. */
  lifetimes: lifetimes.prefault({}),
  /** Refresh tokens of clients without rules of their own. */
  refreshTokens: refreshTokens.prefault({}),
  /** Password hashing and rules. */
  passwords: passwords.prefault({}),
  /** How many failures and requests are let through. */
  rateLimits: rateLimits.prefault({}),
  /** What one account may own. */
  limits: section({
    /**
     * Browsers in which an account is signed in. With one more, the least recently used session ends. `false`: no limit. Default
     * 100.
     */
    sessions: owned,
    /**
     * Authorizations of an account that one client holds tokens for. With one more, the least recently used one ends with its
     * tokens. `false`: no limit. Default 100.
     */
    grants: owned,
  }).prefault({}),
  /** The record of who did what. */
  audit: section({
    /** Seconds for which audit records are stored. Default 34560000. */
    retention: seconds().default(400 * DAY),
    /** The same for sign-ins, and for everything that failed. At most `retention`. Default 7776000. */
    signIns: seconds().default(90 * DAY),
  }).prefault({}),
  /** The accounts. */
  accounts: accountSettings.prefault({}),
  /** The pages. */
  interactions: interactions.prefault({}),
  /**
   * How e-mail is sent; without it, none is sent, and outside production the bundled server shows it at `/dev/mail`.
   */
  mail: described(mail.exactOptional(), {
    form: "an `smtp://` or `smtps://` URL, an object `{ url, from }` with one, an object with `send(message)`, or such a function",
    writtenForm: "an `smtp://` or `smtps://` URL, or an object `{ url, from }` with one",
    holds: "address",
  }),
  /** Second factors. */
  secondFactor: section({
    /**
     * Whether people who sign in with a password are asked now and then to add a passkey, on devices that can create one.
     * Default `true`.
     */
    offer: flag().default(true),
    /** Days for which people can choose not to be asked for a second factor again in a browser. Default: not offered. */
    remember: described(whole(1, MAX_DAYS).exactOptional(), { otherwise: "not offered" }),
  }).prefault({}),
  /** Ways to sign in besides a password and a passkey. */
  signIn: section({
    /**
     * Whether people can sign in with a code by mail; production needs `mail` for it. Refused with `profile: strict`. Default
     * `false`.
     */
    emailCode: flag().default(false),
  }).prefault({}),
  /**
   * Providers that people can sign in with, such as Google or the directory of their company, at most 30: key →
   * [description](#a-provider). Default `{}`.
   */
  providers: described(providers.default({}), {
    form: "an object: key → an object that describes a provider",
  }),
  /** Clients that nobody has registered. */
  clients: clients.prefault({}),
  /** The service's cookies. */
  cookies: section({
    /**
     * Domain of the session cookie: two deployments on hosts under it share their sign-in, and every subdomain is trusted.
     * Default: none: the host alone.
     */
    domain: described(
      text(
        253,
        (name) => isHostName(name) && name.includes("."),
        "a domain of at least two labels, lower case, without a leading dot",
      ).exactOptional(),
      { otherwise: "none: the host alone" },
    ),
    /** Prefix of the names of all cookies. Default `""`. */
    prefix: described(z.string().max(32, { abort: true }).refine(isCookiePrefix).default(""), {
      form: "0 to 32 letters, digits, `_` and `-`, not starting with `__Host-` or `__Secure-`",
    }),
  }).prefault({}),
  /**
   * Who may use the console, by the `sub` of the account, and what for: a `viewer` reads, `support` also helps people, an
   * `administrator` does everything, `deliveries` sees deliveries and receivers only. Default `{}`.
   */
  operators: operators.default({}),
  /**
   * Administration over HTTP: the console for operators, and `/v1` for programs, on a listener of their own. Default: none.
   */
  admin: described(admin.exactOptional(), {
    form: "an object with `url`, and `port` for the bundled server",
    otherwise: "none",
  }),
  /** Features that are off by default. */
  features: section({
    /** Lets every client bind its tokens to a key (DPoP, RFC 9449), not only those with `dpop: required`. Default `false`. */
    dpop: flag().default(false),
  }).prefault({}),
  /** The path prefix that a proxy removes; part of the base URLs. */
  stripPrefix: text(256, isPathPrefix, PATH_FORM).exactOptional(),
  /** How notifications are delivered. */
  notifications: notifications.prefault({}),
  /** Account events for systems of your own. */
  events: events.prefault({}),
  /**
   * `strict` refuses the password grant, GET revoke, codes without PKCE and new passwords of fewer than 15 characters. With it,
   * third parties and operators need a second factor.
   * Default `"documented"`.
   */
  profile: described(z.enum(["documented", "strict"]).default("documented"), {
    form: "`documented` or `strict`",
  }),
  /**
   * The trusted proxies, whose `X-Forwarded-For` and `X-Forwarded-Host` count: none (`false`), one hop (`true`), a number
   * of hops, or networks (CIDR). Default: `false`; required with an https deployment.
   */
  proxy: described(z.union([z.boolean(), z.int().min(1).max(100), networks]).exactOptional(), {
    form: `\`true\`, \`false\`, a number of hops from 1 to 100, or a list of different entries, each ${NETWORK_FORM}`,
    otherwise: "`false`; required with an https deployment",
  }),
  /** Health and metrics of the bundled server and the worker. */
  metrics: described(metrics.exactOptional(), { form: "an object with `port`, `host` and `token`" }),
  /**
   * Whether spans and metrics go to the OpenTelemetry SDK of the process, by the package `@opentelemetry/api`. Default: `false`.
   */
  telemetry: flag().default(false),
  /** Where the log goes. Default: pino to the standard output. */
  logger: described(withMethods<Logger>("debug", "info", "warn", "error", "fatal", "child").exactOptional(), {
    form: "a pino logger",
    otherwise: "pino to the standard output",
    holds: "code",
  }),
  /** The source of time, except for oidc-provider: tests use `createTestSignIn`. Default: the system's clock. */
  clock: described(withMethods<Clock>("now").exactOptional(), {
    form: "an object with `now()`, which returns milliseconds since the epoch",
    otherwise: "the system's clock",
    holds: "code",
  }),
  /** Sends e-mail instead of `mail`. Default: made from `mail`. */
  mailer: described(withMethods<Mailer>("send").exactOptional(), {
    form: "an object with `send(message)`",
    otherwise: "made from `mail`",
    holds: "code",
  }),
  /**
   * Makes all HTTP requests except notifications, such as those of back-channel logout. Default: the service's own, to
   * public addresses and those that `notifications.allowedReceivers` names; for `passwords.breachCheck`, Node's.
   */
  fetch: described(callable<typeof globalThis.fetch>("a function like the global `fetch`").exactOptional(), {
    otherwise:
      "the service's own, to public addresses and those that `notifications.allowedReceivers` names; for `passwords.breachCheck`, Node's",
  }),
});

/** The output of the schema: each key is valid on its own, and fixed defaults are filled in. */
export interface CheckedConfig extends z.output<typeof configurationSchema> {}

/** Every default: the configuration of a caller who names none of the keys that have one. */
export const defaults: CheckedConfig = deepFreeze(configurationSchema.parse({ deployments: {} }));
