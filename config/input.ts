/** The configuration as a caller writes it. */
import type { Clock } from "../core/clock.ts";
import type {
  Mailer,
  MailMessage,
  NotificationSettings,
  OwnStore,
  Settings,
  SmtpSettings,
} from "./configuration.ts";
import type { InteractionSettings } from "./pages/settings.ts";

/** `T` as a caller may write it: keys with a default are optional at every level, and keep their documentation. */
export type Input<T> = T extends readonly unknown[] | ((...parameters: never[]) => unknown)
  ? T
  : T extends object
    ? string extends keyof T
      ? T
      : { readonly [K in keyof T]?: Input<T[K]> }
    : T;

/** The two base URLs. At least one is required. */
export interface DeploymentsInput {
  /** The OAuth 2.0 deployment, `{base_url}`. */
  readonly oauth2?: {
    /** Base URL of the deployment. */
    readonly url: string;
  };
  /** The OpenID Connect deployment, `{openid_url}`. */
  readonly openid?: {
    /** Base URL of the deployment. It is also the issuer. */
    readonly url: string;
    /** The authorization endpoint also accepts POST; https only. Default `false`. */
    readonly post?: boolean;
  };
}

export type NotificationsInput = Input<NotificationSettings>;

/** Objects of the host, and unions with keys that are required inside, stay as they are. */
type AsWritten = "interactions" | "logger" | "mailer" | "fetch";

/** The argument of `createSignInService`. Unknown keys and wrong values are errors, all reported together. */
export interface SignInServiceConfig
  extends Input<Omit<Settings, AsWritten>>, Pick<Settings, Exclude<AsWritten, "interactions">> {
  /** The base URLs; at least one is required. */
  readonly deployments: DeploymentsInput;
  /**
   * Where everything is stored. Data in memory ends with the process, so production refuses it. The service closes a store
   * of your own. Default `"sqlite:./sign-in.db"`.
   */
  readonly storage?: string | OwnStore;
  /**
   * Where codes, tokens, sessions, interactions and rate limits are stored; `?prefix=` sets the prefix of its keys.
   * Default: same as `storage`.
   */
  readonly artifacts?: string;
  /** The pages. */
  readonly interactions?: Input<Omit<InteractionSettings, "registration">> &
    Partial<Pick<InteractionSettings, "registration">>;
  /**
   * How e-mail is sent; without it, none is sent, and outside production the bundled server shows it at `/dev/mail`.
   */
  readonly mail?: string | SmtpSettings | Mailer | ((message: MailMessage) => Promise<void>);
  /** The path prefix that a proxy removes; part of the base URLs. */
  readonly stripPrefix?: string;
  /**
   * The trusted proxies, whose `X-Forwarded-For` and `X-Forwarded-Host` count: none (`false`), one hop (`true`), a number
   * of hops, or networks (CIDR). Default: `false`; required with an https deployment.
   */
  readonly proxy?: boolean | number | readonly string[];
  /** The source of time, except for oidc-provider: tests use `createTestSignIn`. Default: the system's clock. */
  readonly clock?: Clock;
}

export type MailInput = NonNullable<SignInServiceConfig["mail"]>;
