/** The sections of the configuration: the keys that are objects with keys of their own. `schema.ts` lists them all. */
import type { JWK } from "oidc-provider";
import { z } from "zod";
import type {
  Configuration,
  InteractionSettings,
  Lifetimes,
  Mailer,
  MailMessage,
  MetricsSettings,
  NotificationSettings,
  RefreshTokenRules,
} from "./configuration.ts";
import { defaults } from "./defaults.ts";
import {
  described,
  duration,
  flag,
  list,
  MAX_SECONDS,
  optional,
  section,
  text,
  whole,
  withMethods,
  writtenAs,
  type Written,
} from "./documented-schema.ts";
import type {
  AuditInput,
  CookiesInput,
  InteractionsInput,
  KeysInput,
  LifetimesInput,
  MailInput,
  MetricsInput,
  NotificationsInput,
  RefreshTokensInput,
} from "./input.ts";
import { isSecret, isSigningKey } from "./keys.ts";
import { registrationSchema } from "./registration.ts";
import {
  isBearerToken,
  isColour,
  isCookiePrefix,
  isFontList,
  isHelpLink,
  isHostName,
  isLanguageTag,
  isListenAddress,
  isNetwork,
  isPageLink,
  isPathPrefix,
  isPrintable,
  isSender,
  isSmtpAddress,
  LISTEN_FORM,
} from "./value-forms.ts";

const MIN_COOKIE_KEY = 32;
const cookieKeyForm = `a string of at least ${MIN_COOKIE_KEY} characters`;
const signingKeyForm = "a private JWK: RSA of at least 2048 bits, P-256, P-384, P-521 or Ed25519";

/** A day. A new key signs after an hour, and every key stays published for months. */
const LEAST_ROTATION = 24 * 60 * 60;

/** `keys`. */
export const keysSchema: z.ZodType<Configuration["keys"], Written<KeysInput>> = writtenAs<KeysInput>()(
  z.strictObject({
    cookies: optional(
      list(
        text(1024, (value) => value.length >= MIN_COOKIE_KEY, cookieKeyForm),
        1,
      ),
      {
        form: `a list of different entries, each ${cookieKeyForm}`,
        description: "Keys that sign cookies: the first signs, all verify",
        otherwise: "created at the first start and stored",
        holds: "secret",
      },
    ),
    signing: optional(list(z.custom<JWK>(isSigningKey).meta({ form: signingKeyForm }), 1), {
      form: `a list of entries, each ${signingKeyForm}`,
      description: "The first signs ID tokens, all are published",
      otherwise: "created at the first start and stored",
      holds: "secret",
    }),
    secrets: optional(list(text(44, isSecret, "32 bytes in Base64"), 1), {
      form: "a list of different entries, each 32 bytes in Base64",
      description: "Keys that encrypt stored secrets: the first encrypts, all decrypt",
      otherwise: "SQLite: created at the first start in `PATH.keys`; other storages: required",
      holds: "secret",
    }),
    rotation: optional(
      z.strictObject({
        signing: optional(z.int().min(LEAST_ROTATION).max(MAX_SECONDS), {
          form: `a whole number from ${LEAST_ROTATION} to ${MAX_SECONDS}`,
          description: "Seconds after which the service creates a new signing key for ID tokens",
          otherwise: "never",
        }),
      }),
      {
        form: "an object",
        description: "Rotates keys that the service created, never those of the configuration",
      },
    ),
  }),
);

const { lifetimes, refreshTokens } = defaults;

/** `lifetimes`. */
export const lifetimesSchema: z.ZodType<Lifetimes, Written<LifetimesInput>> = writtenAs<LifetimesInput>()(
  z.strictObject({
    authorizationCode: whole([1, 600], lifetimes.authorizationCode, "Seconds of an authorization code"),
    accessToken: duration(lifetimes.accessToken, "Seconds of an access token: `expires_in` of the response"),
    refreshToken: duration(lifetimes.refreshToken, "Seconds of a refresh token"),
    idToken: duration(lifetimes.idToken, "Seconds of an ID token"),
    session: duration(lifetimes.session, "Seconds since its last use after which a sign-in session ends"),
    sessionMax: duration(
      lifetimes.sessionMax,
      "Seconds after the sign-in when a session ends, even if it is in use",
    ),
    interaction: duration(lifetimes.interaction, "Seconds that a begun sign-in may take"),
  }),
);

/** `refreshTokens`. */
export const refreshTokensSchema: z.ZodType<
  RefreshTokenRules,
  Written<RefreshTokensInput>
> = writtenAs<RefreshTokensInput>()(
  z.strictObject({
    rotate: flag(refreshTokens.rotate, "Each use returns a new refresh token"),
    reuseWindow: whole(
      [0, 600],
      refreshTokens.reuseWindow,
      "Seconds in which a rotated token still gets the response that rotated it",
    ),
    sliding: flag(refreshTokens.sliding, "Each use extends the lifetime of the token"),
    maxAge: duration(refreshTokens.maxAge, "Seconds after which a sliding token expires for good"),
  }),
);

const { audit } = defaults;

/** `audit`. */
export const auditSchema: z.ZodType<Configuration["audit"], Written<AuditInput>> = writtenAs<AuditInput>()(
  z.strictObject({
    retention: duration(audit.retention, "Seconds for which audit records are stored"),
  }),
);

const { interactions } = defaults;

const tagForm = "a language tag such as `en`";
const tag = text(35, isLanguageTag, tagForm);
const copyKey = z.string().regex(/^[A-Za-z0-9_.-]{1,100}$/u);

const colour = (description: string) =>
  optional(text(64, isColour, "a colour"), {
    form: "a color such as `#1d4ed8`: `#` and 3 or 6 hexadecimal digits",
    description,
    otherwise: "built in",
  });

const pageLink = (description: string, check: (address: string) => boolean) =>
  optional(text(2048, check, "an address"), {
    form: "an https address, or http on loopback",
    description,
    otherwise: "none",
  });

/** `interactions`. */
export const interactionsSchema: z.ZodType<
  InteractionSettings,
  Written<InteractionsInput>
> = writtenAs<InteractionsInput>()(
  z.strictObject({
    registration: registrationSchema,
    reservedUsernames: described(
      list(text(64, isPrintable, "a username"), 0).default(interactions.reservedUsernames),
      {
        form: "a list of different usernames",
        description:
          "Usernames that people can't choose at registration or in their profile, whatever the case; your list replaces the default",
      },
    ),
    locales: described(list(tag, 1).default(interactions.locales), {
      form: `a list of different entries, each ${tagForm}`,
      description: "Languages of the pages; the first is the default",
    }),
    views: described(list(text(4096, isPrintable, "the path of a folder"), 0).default(interactions.views), {
      form: "a list of different folders",
      description: "Folders of EJS views that replace built-in ones; the first match wins",
    }),
    copy: described(
      z
        .record(tag, z.record(copyKey, z.string().max(10_000).meta({ form: "a text" })))
        .default(interactions.copy),
      {
        form: "an object of language tags, each with an object of texts by their keys",
        description: "Texts that replace the built-in ones",
      },
    ),
    theme: section(
      z
        .strictObject({
          name: optional(
            text(80, (name) => name.trim() !== "" && isPrintable(name), "a name"),
            {
              form: "a text of 1 to 80 characters",
              description: "Name of the service on its pages",
              otherwise: "built in",
            },
          ),
          accent: colour("Colour of buttons and links"),
          background: colour("Colour of the page"),
          text: colour("Colour of the text"),
          radius: optional(z.int().min(0).max(24), {
            form: "a whole number from 0 to 24",
            description: "Radius of corners, in pixels",
            otherwise: "10",
          }),
          fonts: optional(text(200, isFontList, "names of fonts"), {
            form: "names of fonts, such as `Inter, system-ui, sans-serif`",
            description: "Fonts of the person's device to use; none is loaded",
            otherwise: "`system-ui, sans-serif`",
          }),
          logo: optional(text(4096, isPrintable, "a path"), {
            form: "the path of a PNG, JPEG, WebP or SVG file of at most 12,000 bytes",
            description: "Logo, shown instead of the name",
            otherwise: "the first letter of the name, and the name",
          }),
          favicon: optional(text(4096, isPrintable, "a path"), {
            form: "the path of a PNG, ICO, WebP or SVG file of at most 4,000 bytes",
            description: "Icon of the browser's tab",
            otherwise: "the first letter of the name",
          }),
        })
        .prefault({}),
      "The look",
    ),
    links: section(
      z
        .strictObject({
          help: pageLink("Help page, or `mailto:` and an address", isHelpLink),
          privacy: pageLink("Privacy policy", isPageLink),
          terms: pageLink("Terms of use", isPageLink),
        })
        .prefault({}),
      "Links in the footer of each page; `{locale}` stands for the page's language",
    ),
    ui: optional(text(256, isPathPrefix, "a path"), {
      form: "a path such as `/login`, with a leading and without a trailing slash",
      description:
        "Path of a UI of your own on the hosts of the deployments: browsers that come to sign in are sent there, with the address of the JSON interface as `interaction`",
      otherwise: "the built-in pages",
    }),
  }),
);

/** `cookies`. */
export const cookiesSchema: z.ZodType<
  Configuration["cookies"],
  Written<CookiesInput>
> = writtenAs<CookiesInput>()(
  z.strictObject({
    domain: optional(
      text(253, (name) => isHostName(name) && name.includes("."), "a domain"),
      {
        form: "a domain of at least two labels, lower case, without a leading dot",
        description:
          "Domain of the session cookie: two deployments on hosts under it share their sign-in, and every subdomain is trusted",
        otherwise: "none: the host alone",
      },
    ),
    prefix: described(
      z.string().max(32, { abort: true }).refine(isCookiePrefix).default(defaults.cookies.prefix),
      {
        form: "0 to 32 letters, digits, `_` and `-`, not starting with `__Host-` or `__Secure-`",
        description: "Prefix of the names of all cookies",
      },
    ),
  }),
);

const { notifications } = defaults;

const MAX_DELAY = 30 * 24 * 60 * 60;
const delayForm = `a number of seconds from 0 to ${MAX_DELAY}`;
const receiverForm = "an IP address, a network such as `10.0.0.0/8`, or a host name in lower case";

const seconds = (byDefault: number, description: string) =>
  described(z.number().min(0.001).max(300).default(byDefault), {
    form: "a number of seconds from 0.001 to 300",
    description,
  });

/** `notifications`. */
export const notificationsSchema: z.ZodType<
  NotificationSettings,
  Written<NotificationsInput>
> = writtenAs<NotificationsInput>()(
  z.strictObject({
    retryDelays: described(
      z
        .array(z.number().min(0).max(MAX_DELAY).meta({ form: delayForm }))
        .max(100)
        .readonly()
        .default(notifications.retryDelays),
      {
        form: "a list of at most 100 numbers of seconds",
        description: "Delay before each retry: N delays make N + 1 attempts",
      },
    ),
    timeouts: section(
      z
        .strictObject({
          connect: seconds(notifications.timeouts.connect, "Seconds to connect to a receiver"),
          total: seconds(notifications.timeouts.total, "Seconds for the whole attempt"),
        })
        .prefault({}),
      "Time-outs of an attempt",
    ),
    concurrency: section(
      z
        .strictObject({
          total: whole(
            [1, 10_000],
            notifications.concurrency.total,
            "Parallel attempts of a process; one in five is reserved for receivers without one",
          ),
          perReceiver: whole(
            [1, 10_000],
            notifications.concurrency.perReceiver,
            "Parallel attempts of a process to one receiver; with Redis, at most twice as many in all processes together",
          ),
        })
        .prefault({}),
      "Limits on parallel attempts",
    ),
    allowedReceivers: described(
      list(
        text(253, (value) => isNetwork(value) || isHostName(value), receiverForm),
        0,
      ).default(notifications.allowedReceivers),
      {
        form: `a list of different entries, each ${receiverForm}`,
        description:
          "Receivers of notifications and logout tokens that may have private addresses or use plain http",
      },
    ),
    breaker: section(
      z
        .strictObject({
          failures: whole(
            [1, 1000],
            notifications.breaker.failures,
            "Failed attempts in a row after which a receiver is held back and probed",
          ),
          probe: seconds(
            notifications.breaker.probe,
            "Seconds before the first probe; doubled after each failed one",
          ),
          longestProbe: seconds(notifications.breaker.longestProbe, "Seconds between two probes at most"),
        })
        .prefault({}),
      "When a failing receiver is held back",
    ),
    retention: section(
      z
        .strictObject({
          payloads: duration(
            notifications.retention.payloads,
            "Seconds for which the payload is stored after success",
          ),
          records: duration(
            notifications.retention.records,
            "Seconds for which finished records are stored, and parked deliveries with their payloads",
          ),
        })
        .prefault({}),
      "How long finished deliveries are stored",
    ),
    poll: seconds(
      notifications.poll,
      "Seconds between polls for deliveries that other processes stored; with SQLite and PostgreSQL they are noticed sooner",
    ),
    worker: flag(notifications.worker, "Deliver in this process"),
  }),
);

const smtpForm = "an `smtp://` or `smtps://` URL";
const smtpUrl = text(2048, isSmtpAddress, smtpForm);

/** `mail`. */
export const mailSchema: z.ZodType<MailInput, Written<MailInput>> = writtenAs<MailInput>()(
  z.union([
    smtpUrl,
    z.strictObject({
      url: described(smtpUrl, {
        form: smtpForm,
        description: "The mail server, with user and password if it requires them",
        otherwise: "required",
        holds: "address",
      }),
      from: optional(text(320, isSender, "a sender"), {
        form: "an e-mail address or `Name <address>`",
        description: "The sender",
        otherwise: "`no-reply@` and the host of the deployment",
      }),
      allowClearText: optional(z.boolean(), {
        form: "`true` or `false`",
        description:
          "Whether mail, and the password of the mail server, may go unencrypted to an `smtp://` server that is not on loopback and offers no STARTTLS",
        otherwise: "`false`",
      }),
    }),
    withMethods<Mailer>("send"),
    z.custom<(message: MailMessage) => Promise<void>>((value) => typeof value === "function"),
  ]),
);

/** Shorter ones can be guessed: nothing counts the tries. */
const LEAST_TOKEN = 16;
const tokenForm = `a text of ${LEAST_TOKEN} to 512 letters, digits and \`-._~+/\`, with \`=\` only at its end`;

/** `metrics`. */
export const metricsSchema: z.ZodType<MetricsSettings, Written<MetricsInput>> = writtenAs<MetricsInput>()(
  z.strictObject({
    port: optional(z.int().min(0).max(65_535), {
      form: "a whole number from 0 to 65535",
      description:
        "A port of its own for `/metrics` and the detailed `/health`; 0 is any free port, `--metrics-port` wins",
      otherwise: "none",
    }),
    host: described(text(253, isListenAddress, LISTEN_FORM).default(defaults.metrics.host), {
      form: LISTEN_FORM,
      description: "The address on which this port listens",
    }),
    token: optional(
      text(512, (token) => token.length >= LEAST_TOKEN && isBearerToken(token), tokenForm),
      {
        form: tokenForm,
        description:
          "A Bearer token for `/metrics`, which is then also available on the public port. The separate port requires it too",
        otherwise: "none: no `/metrics` on the public port",
        holds: "secret",
      },
    ),
  }),
);
