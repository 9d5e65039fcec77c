/**
 * The one schema of the configuration: what each key accepts on its own, and what applies without it. What the keys mean is in
 * `configuration.ts`, and the rules between them are in `rules.ts`.
 */
import type { JWK } from "oidc-provider";
import type { Logger } from "pino";
import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import {
  type BreachCheckSettings,
  type Configuration,
  type ConfiguredKeys,
  type Lifetimes,
  type Mailer,
  type MailMessage,
  type MetricsSettings,
  type NotificationSettings,
  type OwnershipLimits,
  type OwnStore,
  type PasswordRules,
  type RateLimit,
  type RateLimits,
  type RefreshTokenRules,
  type Settings,
  type SmtpSettings,
  STORE_METHODS,
} from "./configuration.ts";
import { defaults } from "./defaults.ts";
import {
  callable,
  described,
  flag,
  fractionalSeconds,
  list,
  MAX_SECONDS,
  REQUIRED,
  seconds,
  section,
  text,
  whole,
  withMethods,
} from "./documented-schema.ts";
import { interactions } from "./pages/schema.ts";
import type { MailInput, SignInServiceConfig } from "./input.ts";
import { isSecret, isSigningKey } from "./keys.ts";
import { backendOf, keepsRecords, REDIS_FORM, STORAGE_FORM } from "./storage-address.ts";
import {
  isBearerToken,
  isCookiePrefix,
  isHostName,
  isListenAddress,
  isNetwork,
  isPathPrefix,
  isSender,
  isServiceAddress,
  isSmtpAddress,
  isTrustworthyNetwork,
  isUuid,
  LISTEN_FORM,
  PATH_FORM,
  WEB_ADDRESS_FORM,
} from "./value-forms.ts";

/** The output of the schema: each key is valid on its own, and fixed defaults are filled in. */
export interface CheckedConfig
  extends Settings, Pick<SignInServiceConfig, "artifacts" | "mail" | "stripPrefix" | "proxy" | "clock"> {
  readonly storage: string | OwnStore;
  readonly deployments: {
    readonly oauth2?: { readonly url: string };
    readonly openid?: { readonly url: string; readonly post: boolean };
  };
}

/** The defaults inside objects without a default are used by the sections of these objects. */
const { deployments: ofDeployments, metrics: ofMetrics, ...fixed } = defaults;

const MIN_COOKIE_KEY_LENGTH = 32;
const cookieKey = text(
  1024,
  (value) => value.length >= MIN_COOKIE_KEY_LENGTH,
  `a string of at least ${MIN_COOKIE_KEY_LENGTH} characters`,
);
const SIGNING_KEY_FORM = "a private JWK: RSA of at least 2048 bits, P-256, P-384, P-521 or Ed25519";
const signingKey = z.custom<JWK>(isSigningKey).meta({ form: SIGNING_KEY_FORM });
/** A day. A new key signs after an hour, and every key stays published for months. */
const MIN_ROTATION_SECONDS = 24 * 60 * 60;
const atFirstStart = { otherwise: "created at the first start and stored", holds: "secret" } as const;

const keys = section<ConfiguredKeys>(
  {
    cookies: described(list(cookieKey, 1), atFirstStart),
    signing: described(list(signingKey, 1), {
      form: `a list of entries, each ${SIGNING_KEY_FORM}`,
      ...atFirstStart,
    }),
    secrets: described(list(text(44, isSecret, "32 bytes in Base64"), 1), {
      otherwise: "SQLite: created at the first start in `PATH.keys`; other storages: required",
      holds: "secret",
    }),
    rotation: section<NonNullable<ConfiguredKeys["rotation"]>>(
      { signing: described(whole(MIN_ROTATION_SECONDS, MAX_SECONDS), { otherwise: "never" }) },
      {},
    ),
  },
  {},
);

const lifetimes = section<Lifetimes>(
  {
    authorizationCode: whole(1, 600),
    accessToken: seconds(),
    refreshToken: seconds(),
    idToken: seconds(),
    session: seconds(),
    sessionMax: seconds(),
    interaction: seconds(),
  },
  defaults.lifetimes,
);

const refreshTokens = section<RefreshTokenRules>(
  { rotate: flag(), reuseWindow: whole(0, 600), sliding: flag(), maxAge: seconds() },
  defaults.refreshTokens,
);

const breachCheck = section<BreachCheckSettings>(
  {
    url: text(2048, isServiceAddress, `${WEB_ADDRESS_FORM}, without a query`),
    timeout: fractionalSeconds(0.1, 4),
  },
  { url: "https://api.pwnedpasswords.com/range", timeout: 2 },
);

const passwords = section<PasswordRules>(
  {
    memory: whole(7168, 4_194_304),
    passes: whole(1, 100),
    lanes: whole(1, 64),
    minLength: whole(8, 64),
    maxLength: whole(64, 1024),
    parallel: whole(1, 64),
    breachCheck: described(breachCheck, {
      form: "an object with `url` and `timeout`; `{}` asks Pwned Passwords",
      otherwise: "none: that is not checked",
    }),
  },
  defaults.passwords,
);

function limit(byDefault: RateLimit): z.ZodType<RateLimit> {
  return section<RateLimit>({ points: whole(1, 1_000_000_000), seconds: seconds() }, byDefault);
}

const NETWORK_FORM = "an IP address or a network such as `10.0.0.0/8`, but not all addresses";
const limits = defaults.rateLimits;
const rateLimits = section<RateLimits>(
  {
    signIn: section<RateLimits["signIn"]>(
      {
        accountAndAddress: limit(limits.signIn.accountAndAddress),
        account: limit(limits.signIn.account),
        address: limit(limits.signIn.address),
      },
      limits.signIn,
    ),
    passwordGrant: section<RateLimits["passwordGrant"]>(
      {
        accountAndClient: limit(limits.passwordGrant.accountAndClient),
        account: limit(limits.passwordGrant.account),
        client: limit(limits.passwordGrant.client),
      },
      limits.passwordGrant,
    ),
    mail: section<RateLimits["mail"]>(
      {
        recipientAndCaller: limit(limits.mail.recipientAndCaller),
        recipientAndCallerDaily: limit(limits.mail.recipientAndCallerDaily),
        recipient: limit(limits.mail.recipient),
        recipientDaily: limit(limits.mail.recipientDaily),
        caller: limit(limits.mail.caller),
        device: limit(limits.mail.device),
      },
      limits.mail,
    ),
    changes: limit(limits.changes),
    registrations: limit(limits.registrations),
    deviceRequests: limit(limits.deviceRequests),
    deviceCodes: section<RateLimits["deviceCodes"]>(
      { account: limit(limits.deviceCodes.account), address: limit(limits.deviceCodes.address) },
      limits.deviceCodes,
    ),
    clientSecret: limit(limits.clientSecret),
    dpopProof: limit(limits.dpopProof),
    interactions: limit(limits.interactions),
    authorizations: limit(limits.authorizations),
    networks: described(z.record(text(50, isTrustworthyNetwork, NETWORK_FORM), whole(1, 1_000)), {
      form: `an object: each key ${NETWORK_FORM}, each value a whole number from 1 to 1000`,
    }),
  },
  limits,
);

const MAX_OWNED = 1_000_000;
const owned = described(z.union([z.literal(false), z.int().min(1).max(MAX_OWNED)]), {
  form: `\`false\`, or a whole number from 1 to ${MAX_OWNED}`,
});

/** Browsers delete cookies that live much longer. */
const MAX_DAYS = 90;

const secondFactor = section<Configuration["secondFactor"]>(
  { offer: flag(), remember: described(whole(1, MAX_DAYS), { otherwise: "not offered" }) },
  defaults.secondFactor,
);

const cookies = section<Configuration["cookies"]>(
  {
    domain: described(
      text(
        253,
        (name) => isHostName(name) && name.includes("."),
        "a domain of at least two labels, lower case, without a leading dot",
      ),
      { otherwise: "none: the host alone" },
    ),
    prefix: described(z.string().max(32, { abort: true }).refine(isCookiePrefix), {
      form: "0 to 32 letters, digits, `_` and `-`, not starting with `__Host-` or `__Secure-`",
    }),
  },
  defaults.cookies,
);

const receiver = text(
  253,
  (value) => isNetwork(value) || isHostName(value),
  "an IP address, a network such as `10.0.0.0/8`, or a host name in lower case",
);
const timeout = fractionalSeconds(0.001, 300);
const MAX_DELAY_SECONDS = 30 * 24 * 60 * 60;

const notifications = section<NotificationSettings>(
  {
    retryDelays: described(z.array(fractionalSeconds(0, MAX_DELAY_SECONDS)).max(100).readonly(), {
      form: "a list of at most 100 numbers of seconds",
    }),
    timeouts: section<NotificationSettings["timeouts"]>(
      { connect: timeout, total: timeout },
      defaults.notifications.timeouts,
    ),
    concurrency: section<NotificationSettings["concurrency"]>(
      { total: whole(1, 10_000), perReceiver: whole(1, 10_000) },
      defaults.notifications.concurrency,
    ),
    allowedReceivers: list(receiver, 0),
    breaker: section<NotificationSettings["breaker"]>(
      { failures: whole(1, 1000), probe: timeout, longestProbe: timeout },
      defaults.notifications.breaker,
    ),
    retention: section<NotificationSettings["retention"]>(
      { payloads: seconds(), records: seconds() },
      defaults.notifications.retention,
    ),
    poll: timeout,
    worker: flag(),
  },
  defaults.notifications,
);

const smtpUrl = text(2048, isSmtpAddress, "an `smtp://` or `smtps://` URL");

const mail = z.union([
  smtpUrl,
  section<SmtpSettings>(
    {
      url: described(smtpUrl, { otherwise: "required", holds: "address" }),
      from: described(text(320, isSender, "an e-mail address or `Name <address>`"), {
        otherwise: "`no-reply@` and the host of the deployment",
      }),
      allowClearText: described(flag(), { otherwise: "`false`" }),
    },
    { url: REQUIRED },
  ),
  withMethods<Mailer>("send"),
  z.custom<(message: MailMessage) => Promise<void>>((value) => typeof value === "function"),
]);

/** Shorter tokens can be guessed, because failed attempts are not limited. */
const MIN_TOKEN_LENGTH = 16;

const metrics = section<MetricsSettings>(
  {
    port: whole(0, 65_535),
    host: text(253, isListenAddress, LISTEN_FORM),
    token: described(
      text(
        512,
        (token) => token.length >= MIN_TOKEN_LENGTH && isBearerToken(token),
        `a text of ${MIN_TOKEN_LENGTH} to 512 letters, digits and \`-._~+/\`, with \`=\` only at its end`,
      ),
      { otherwise: "none: no `/metrics` on the public port", holds: "secret" },
    ),
  },
  ofMetrics,
);

const baseUrl = described(z.string(), {
  form: "a base URL: https, or http on loopback, without a trailing slash",
  otherwise: "required",
});
const deployment = { form: "an object with the key `url`" };
const deployments = section<CheckedConfig["deployments"]>(
  {
    oauth2: described(section<{ readonly url: string }>({ url: baseUrl }, { url: REQUIRED }), deployment),
    openid: described(
      section<{ readonly url: string; readonly post: boolean }>(
        { url: baseUrl, post: flag() },
        { url: REQUIRED, post: ofDeployments.openid.post },
      ),
      deployment,
    ),
  },
  {},
);

/** The rules say what is wrong with an address of a known backend. */
const storageAddress = text(4096, (value) => keepsRecords(backendOf(value)), "");
const LISTED_METHODS = "`get`, `list`, `scan`, `count`, `commit`, `next`, `sweep`, `ping` and `close`";
const ownStore = withMethods<OwnStore>(...STORE_METHODS);
/** One check for both, because a union would report that a wrong address is a string. */
const isStorage = (value: unknown): boolean =>
  (typeof value === "string" ? storageAddress : ownStore).safeParse(value).success;

const networks = list(text(50, isTrustworthyNetwork, NETWORK_FORM), 1);

/** Checks each key on its own. @see readConfiguration for the rules between keys and for readable problems. */
export const configurationSchema: z.ZodType<CheckedConfig> = section<CheckedConfig>(
  {
    deployments: described(deployments, { form: "an object with `oauth2`, `openid` or both" }),
    storage: described(z.custom<string | OwnStore>(isStorage), {
      form: `${STORAGE_FORM}, or a store of your own (an object with ${LISTED_METHODS})`,
      writtenForm: STORAGE_FORM,
      holds: "address",
    }),
    artifacts: described(
      text(4096, (value) => backendOf(value) !== undefined, `${REDIS_FORM}, or the same as \`storage\``),
      { otherwise: "same as `storage`", holds: "address" },
    ),
    queue: described(
      text(
        4096,
        (value) => value === "embedded" || backendOf(value) === "redis",
        `\`embedded\`, or ${REDIS_FORM}`,
      ),
      { holds: "address" },
    ),
    keys,
    lifetimes,
    refreshTokens,
    passwords,
    rateLimits,
    limits: section<OwnershipLimits>({ sessions: owned, grants: owned }, defaults.limits),
    audit: section<Configuration["audit"]>({ retention: seconds(), signIns: seconds() }, defaults.audit),
    interactions,
    mail: described<z.ZodType<MailInput>>(mail, {
      form: "an `smtp://` or `smtps://` URL, an object `{ url, from }` with one, an object with `send(message)`, or such a function",
      writtenForm: "an `smtp://` or `smtps://` URL, or an object `{ url, from }` with one",
      holds: "address",
    }),
    secondFactor,
    cookies,
    operators: list(text(36, isUuid, "the `sub` of an account (a UUID)"), 0),
    features: section<Configuration["features"]>({ dpop: flag() }, defaults.features),
    stripPrefix: text(256, isPathPrefix, PATH_FORM),
    notifications,
    profile: described(z.enum(["documented", "strict"]), { form: "`documented` or `strict`" }),
    proxy: described(z.union([z.boolean(), z.int().min(1).max(100), networks]), {
      form: `\`true\`, \`false\`, a number of hops from 1 to 100, or a list of different entries, each ${NETWORK_FORM}`,
      otherwise: "`false`; required with an https deployment",
    }),
    metrics: described(metrics, { form: "an object with `port`, `host` and `token`" }),
    logger: described(withMethods<Logger>("debug", "info", "warn", "error", "fatal", "child"), {
      form: "a pino logger",
      otherwise: "pino to the standard output",
      holds: "code",
    }),
    clock: described(withMethods<Clock>("now"), {
      form: "an object with `now()`, which returns milliseconds since the epoch",
      otherwise: "the system's clock",
      holds: "code",
    }),
    mailer: described(withMethods<Mailer>("send"), {
      form: "an object with `send(message)`",
      otherwise: "made from `mail`",
      holds: "code",
    }),
    fetch: described(callable<typeof globalThis.fetch>("a function like the global `fetch`"), {
      otherwise:
        "the service's own, to public addresses and those that `notifications.allowedReceivers` names; for `passwords.breachCheck`, Node's",
    }),
  },
  { ...fixed, keys: {}, deployments: REQUIRED },
);
