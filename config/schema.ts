/**
 * The one schema of the configuration: each key alone, with its form and its meaning. Problems and the
 * documentation are made from it. Rules between keys are in `rules.ts`.
 */
import type { Logger } from "pino";
import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { type Configuration, type Mailer, type OwnStore, STORE_METHODS } from "./configuration.ts";
import { defaults } from "./defaults.ts";
import type { SignInServiceConfig } from "./input.ts";
import {
  described,
  flag,
  list,
  optional,
  section,
  text,
  withMethods,
  writtenAs,
} from "./documented-schema.ts";
import { passwordsSchema, rateLimitsSchema } from "./guessing-schema.ts";
import {
  auditSchema,
  cookiesSchema,
  interactionsSchema,
  keysSchema,
  lifetimesSchema,
  mailSchema,
  metricsSchema,
  notificationsSchema,
  refreshTokensSchema,
} from "./sections.ts";
import { isPathPrefix, isTrustworthyNetwork, isUuid } from "./value-forms.ts";
import { backendOf, REDIS_FORM, STORAGE_FORM } from "./storage-address.ts";

/** The keys that have their final shape when they are checked. */
type Final =
  | "queue"
  | "keys"
  | "lifetimes"
  | "refreshTokens"
  | "passwords"
  | "rateLimits"
  | "audit"
  | "interactions"
  | "cookies"
  | "operators"
  | "features"
  | "notifications"
  | "profile"
  | "metrics";

/** What the schema gives: each key valid on its own, fixed defaults filled in. */
export interface CheckedConfig
  extends
    Pick<Configuration, Final>,
    Pick<
      SignInServiceConfig,
      "artifacts" | "mail" | "stripPrefix" | "proxy" | "logger" | "clock" | "mailer" | "fetch"
    > {
  readonly storage: string | OwnStore;
  readonly deployments: {
    readonly oauth2?: { readonly url: string };
    readonly openid?: { readonly url: string; readonly post: boolean };
  };
}

const baseUrl = described(z.string(), {
  form: "a base URL: https, or http on loopback, without a trailing slash",
  description: "Base URL of the deployment",
  otherwise: "required",
});
/** The rules say what is wrong with an address of a known backend. */
const storageAddress = text(4096, (value) => !["redis", undefined].includes(backendOf(value)), "");
const LISTED_METHODS = "`get`, `list`, `scan`, `count`, `commit`, `next`, `sweep`, `ping` and `close`";
const ownStore = withMethods<OwnStore>(...STORE_METHODS);
/** One check for both: as a union it would say of a wrong address that it is a string. */
const isStorage = (value: unknown): boolean =>
  (typeof value === "string" ? storageAddress : ownStore).safeParse(value).success;
const networkForm = "an IP address or a network such as `10.0.0.0/8`, but not all addresses";

const shape = {
  deployments: described(
    z.strictObject({
      oauth2: optional(z.strictObject({ url: baseUrl }), {
        form: "an object with the key `url`",
        description: "The OAuth 2.0 deployment, `{base_url}`",
      }),
      openid: optional(
        z.strictObject({
          url: baseUrl,
          post: flag(
            defaults.deployments.openid.post,
            "The authorization endpoint also accepts POST; https only",
          ),
        }),
        {
          form: "an object with the key `url`",
          description: "The OpenID Connect deployment, `{openid_url}`",
        },
      ),
    }),
    {
      form: "an object with `oauth2`, `openid` or both",
      description: "The base URLs; at least one is required",
    },
  ),
  storage: described(z.custom<string | OwnStore>(isStorage).default(defaults.storage), {
    form: `${STORAGE_FORM}, or a store of your own (an object with ${LISTED_METHODS})`,
    writtenForm: STORAGE_FORM,
    description: "Where everything is stored. Data in memory ends with the process, so production refuses it",
    holds: "address",
  }),
  artifacts: optional(
    text(4096, (value) => backendOf(value) !== undefined, ""),
    {
      form: `${REDIS_FORM}, or the same as \`storage\``,
      description:
        "Where codes, tokens, sessions, interactions and rate limits are stored; `?prefix=` sets the prefix of its keys",
      otherwise: "same as `storage`",
      holds: "address",
    },
  ),
  queue: described(
    text(4096, (value) => value === "embedded" || backendOf(value) === "redis", "").default(defaults.queue),
    {
      form: `\`embedded\`, or ${REDIS_FORM}`,
      description: "What triggers deliveries: polling of the storage, or BullMQ",
      holds: "address",
    },
  ),
  keys: section(keysSchema.prefault({}), "Keys of cookies, ID tokens and encryption"),
  lifetimes: section(lifetimesSchema.prefault({}), "How long things live"),
  refreshTokens: section(refreshTokensSchema.prefault({}), "Refresh tokens of clients that don't say"),
  passwords: section(passwordsSchema.prefault({}), "Password hashing and rules"),
  rateLimits: section(rateLimitsSchema.prefault({}), "How many failures are let through"),
  audit: section(auditSchema.prefault({}), "The record of who did what"),
  interactions: section(interactionsSchema.prefault({}), "The pages"),
  mail: optional(mailSchema, {
    form: "an `smtp://` or `smtps://` URL, an object `{ url, from }` with one, an object with `send(message)`, or such a function",
    writtenForm: "an `smtp://` or `smtps://` URL, or an object `{ url, from }` with one",
    description:
      "How e-mail is sent; without it, none is sent, and outside production the bundled server shows it at `/dev/mail`",
    otherwise: "none",
    holds: "address",
  }),
  cookies: section(cookiesSchema.prefault({}), "The service's cookies"),
  operators: described(
    list(text(36, isUuid, "the `sub` of an account (a UUID)"), 0).default(defaults.operators),
    {
      form: "a list of different entries, each the `sub` of an account (a UUID)",
      description: "Who may use the delivery console",
    },
  ),
  features: section(
    z.strictObject({ dpop: flag(defaults.features.dpop, "Offers DPoP (RFC 9449)") }).prefault({}),
    "Features that are off by default",
  ),
  stripPrefix: optional(text(256, isPathPrefix, ""), {
    form: "a path such as `/login`, with a leading and without a trailing slash",
    description: "The path prefix that a proxy removes; part of the base URLs",
    otherwise: "none",
  }),
  notifications: section(notificationsSchema.prefault({}), "How notifications are delivered"),
  profile: described(z.enum(["documented", "strict"]).default(defaults.profile), {
    form: "`documented` or `strict`",
    description:
      "`strict` refuses the password grant, GET revoke, codes without PKCE and new passwords of fewer than 15 characters",
  }),
  proxy: optional(
    z.union([z.boolean(), z.int().min(1).max(100), list(text(50, isTrustworthyNetwork, networkForm), 1)]),
    {
      form: `\`true\`, \`false\`, a number of hops from 1 to 100, or a list of different entries, each ${networkForm}`,
      description:
        "The trusted proxies, whose `X-Forwarded-For` and `X-Forwarded-Host` count: none (`false`), one hop (`true`), a number of hops, or networks",
      otherwise: "`false`; required with an https deployment",
    },
  ),
  metrics: optional(metricsSchema, {
    form: "an object with `port`, `host` and `token`",
    description: "Health and metrics of the bundled server and the worker",
    otherwise: "none",
  }),
  logger: optional(withMethods<Logger>("debug", "info", "warn", "error", "fatal", "child"), {
    form: "a pino logger",
    description: "Where the log goes",
    otherwise: "pino to the standard output",
    holds: "code",
  }),
  clock: optional(withMethods<Clock>("now"), {
    form: "an object with `now()`, which returns milliseconds since the epoch",
    description: "The source of time",
    otherwise: "the system's clock",
    holds: "code",
  }),
  mailer: optional(withMethods<Mailer>("send"), {
    form: "an object with `send(message)`",
    description: "Sends e-mail instead of `mail`",
    otherwise: "made from `mail`",
    holds: "code",
  }),
  fetch: optional(
    z.custom<typeof globalThis.fetch>((value) => typeof value === "function"),
    {
      form: "a function like the global `fetch`",
      description: "Makes all HTTP requests except notifications, such as those of back-channel logout",
      otherwise:
        "the service's own, to public addresses and those that `notifications.allowedReceivers` names; for `passwords.breachCheck`, Node's",
      holds: "code",
    },
  ),
};

/** Checks each key on its own. @see readConfiguration for the rules between keys and for readable problems. */
export const configurationSchema: z.ZodType<CheckedConfig> = writtenAs<SignInServiceConfig>()(
  described(z.strictObject(shape), { form: "an object", description: "The configuration" }),
);
