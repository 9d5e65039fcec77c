/** The configuration after reading: checked, complete with defaults, and frozen. `schema.ts` declares its keys. */
import type { AdminEnvironment, AdminSettings } from "./admin.ts";
import type { Clock } from "../core/clock.ts";
import type { Mailer, SmtpSettings } from "./mail.ts";
import type { Operators } from "./operators.ts";
import type { IdentityProvider } from "./providers.ts";
import type { CheckedConfig, OwnStore } from "./schema.ts";

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

/** Which `X-Forwarded-For` and `X-Forwarded-Host` to trust: none, those of this many hops, or those from these networks (CIDR). */
export type ProxyTrust = false | number | readonly string[];

/** The keys that have another form after reading. */
type Converted =
  | "admin"
  | "deployments"
  | "storage"
  | "artifacts"
  | "mail"
  | "providers"
  | "operators"
  | "stripPrefix"
  | "proxy"
  | "clock";

/** The key `admin` after reading. */
export interface AdminConfiguration extends Omit<AdminSettings, "proxy" | "environment"> {
  readonly proxy: ProxyTrust;
  readonly environment: AdminEnvironment;
}

/** The configuration after reading. */
export interface Configuration extends Omit<CheckedConfig, Converted> {
  readonly deployments: { readonly oauth2?: Deployment; readonly openid?: Deployment };
  /** An address, or {@link OWN_STORAGE}. */
  readonly storage: string;
  /** The store that the host passed in place of an address. */
  readonly store?: OwnStore;
  /** Equal to `storage` unless configured. */
  readonly artifacts: string;
  readonly mail?: SmtpSettings | Mailer;
  /** In the order of the configuration. */
  readonly providers: readonly IdentityProvider[];
  /** Where the console and `/v1` are; missing without them. */
  readonly admin?: AdminConfiguration;
  /** The role of each operator, by `sub`; see `roleOf`. */
  readonly operators: Operators;
  /** Whether they are written as a list, which gives them the role `deliveries`. */
  readonly operatorsAreListed: boolean;
  /** Starts with a slash and ends without one. Empty if no proxy strips a path. */
  readonly stripPrefix: string;
  readonly proxy: ProxyTrust;
  readonly clock: Clock;
  /** True when any deployment is not on loopback. */
  readonly production: boolean;
}

export type RefreshTokenRules = Configuration["refreshTokens"];
export type PasswordRules = Configuration["passwords"];
/** How many in how many seconds. */
export type RateLimit = Configuration["rateLimits"]["changes"];
export type OwnershipLimits = Configuration["limits"];
export type { NotificationSettings } from "./notifications.ts";
