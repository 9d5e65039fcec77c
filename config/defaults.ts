/** Every default, in the shape of the configuration. To change a default, change it here. */
import type { Configuration } from "./configuration.ts";
import { deepFreeze } from "./plain-data.ts";

type Defaulted =
  | "storage"
  | "queue"
  | "lifetimes"
  | "refreshTokens"
  | "passwords"
  | "rateLimits"
  | "limits"
  | "audit"
  | "operators"
  | "features"
  | "notifications"
  | "profile"
  | "interactions"
  | "secondFactor";

/** The keys that have a fixed default. Other defaults derive from other keys. */
export interface Defaults extends Pick<Configuration, Defaulted> {
  readonly cookies: { readonly prefix: string };
  readonly deployments: { readonly openid: { readonly post: boolean } };
  readonly metrics: { readonly host: string };
}

const QUARTER_HOUR = 15 * 60;
const HOUR = 60 * 60;
const DAY = 24 * HOUR;

/** The table of defaults, frozen. Times are in seconds, memory in KiB. */
export const defaults: Defaults = deepFreeze({
  deployments: { openid: { post: false } },
  storage: "sqlite:./sign-in.db",
  queue: "embedded",
  lifetimes: {
    authorizationCode: 60,
    accessToken: 10 * HOUR,
    refreshToken: 30 * DAY,
    idToken: HOUR,
    session: 14 * DAY,
    sessionMax: 90 * DAY,
    interaction: HOUR,
  },
  refreshTokens: { rotate: false, reuseWindow: 10, sliding: false, maxAge: 90 * DAY },
  passwords: { memory: 19_456, passes: 2, lanes: 1, minLength: 8, maxLength: 128, parallel: 2 },
  rateLimits: {
    signIn: {
      accountAndAddress: { points: 10, seconds: QUARTER_HOUR },
      account: { points: 100, seconds: HOUR },
      address: { points: 300, seconds: QUARTER_HOUR },
    },
    passwordGrant: {
      accountAndClient: { points: 10, seconds: QUARTER_HOUR },
      account: { points: 100, seconds: HOUR },
      client: { points: 1000, seconds: QUARTER_HOUR },
    },
    mail: {
      recipientAndCaller: { points: 5, seconds: HOUR },
      recipientAndCallerDaily: { points: 10, seconds: DAY },
      recipient: { points: 20, seconds: HOUR },
      recipientDaily: { points: 40, seconds: DAY },
      caller: { points: 100, seconds: HOUR },
      device: { points: 5, seconds: HOUR },
    },
    changes: { points: 30, seconds: HOUR },
    registrations: { points: 100, seconds: HOUR },
    deviceRequests: { points: 100, seconds: QUARTER_HOUR },
    deviceCodes: {
      account: { points: 10, seconds: QUARTER_HOUR },
      address: { points: 100, seconds: QUARTER_HOUR },
    },
    clientSecret: { points: 20, seconds: QUARTER_HOUR },
    dpopProof: { points: 20, seconds: QUARTER_HOUR },
    interactions: { points: 600, seconds: QUARTER_HOUR },
    authorizations: { points: 600, seconds: QUARTER_HOUR },
    networks: {},
  },
  limits: { sessions: 100, grants: 100 },
  audit: { retention: 400 * DAY, signIns: 90 * DAY },
  interactions: {
    registration: false,
    reservedUsernames: [
      "abuse",
      "admin",
      "administrator",
      "help",
      "helpdesk",
      "hostmaster",
      "info",
      "moderator",
      "no-reply",
      "noreply",
      "operator",
      "postmaster",
      "root",
      "security",
      "service",
      "staff",
      "support",
      "sysadmin",
      "system",
      "webmaster",
    ],
    locales: ["en", "pl"],
    views: [],
    copy: {},
    theme: {},
    passkeys: { enabled: true, previousRpIds: [] },
    links: {},
  },
  secondFactor: { offer: true },
  cookies: { prefix: "" },
  operators: [],
  features: { dpop: false },
  notifications: {
    // Ten attempts over 75.6 hours, so a receiver can be down for a weekend.
    retryDelays: [5, 300, 1800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR],
    timeouts: { connect: 5, total: 15 },
    concurrency: { total: 50, perReceiver: 10 },
    allowedReceivers: [],
    breaker: { failures: 5, probe: 30, longestProbe: 300 },
    retention: { payloads: 7 * DAY, records: 90 * DAY },
    poll: 1,
    worker: true,
  },
  profile: "documented",
  metrics: { host: "127.0.0.1" },
});
