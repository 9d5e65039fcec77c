/**
 * The metrics, as data: `metrics.ts` creates them, and `docs/reference/metrics.md` and the tests of the dashboard and the alerts
 * read this table. Labels have few values: those listed here, or names that an operator configured. Text of a request
 * never becomes one.
 */
import { BACKCHANNEL_FAILURES, CLIENT_KINDS, PROVIDER_FAULTS } from "./events.ts";

/** The grant types of the token endpoint. */
export const GRANT_TYPES = [
  "authorization_code",
  "refresh_token",
  "password",
  "client_credentials",
  "urn:ietf:params:oauth:grant-type:device_code",
] as const;

/** The value of a label for everything that has no value of its own. */
export const OTHER = "other";

/** The error codes of the token endpoint (RFC 6749 section 5.2, RFC 8628 section 3.5, RFC 8707 section 2), and that of a fault. */
export const TOKEN_ERRORS: readonly string[] = [
  "invalid_request",
  "invalid_client",
  "invalid_grant",
  "unauthorized_client",
  "unsupported_grant_type",
  "invalid_scope",
  "invalid_target",
  "authorization_pending",
  "slow_down",
  "access_denied",
  "expired_token",
  OTHER,
];

/** The results of a submitted sign-in form. */
export const SIGN_IN_RESULTS = ["success", "credentials", "disabled", "limited"] as const;

/** The statuses of the administration listener: those that refuse somebody have values of their own. */
export const ADMINISTRATION_STATUSES = ["2xx", "3xx", "401", "403", "429", "4xx", "5xx"] as const;

/** The surfaces of the administration listener. */
export const ADMINISTRATION_SURFACES = ["rest", "console"] as const;

/** What fetching a document of a client came to: `refused` is one that makes no client, `unavailable` none at all. */
export const DOCUMENT_RESULTS = ["success", "refused", "unavailable"] as const;

/** The calls to a store; see `adapters/record-store.ts`. */
export const STORE_OPERATIONS = ["get", "list", "scan", "count", "commit", "next", "sweep"] as const;

/** Label → its values, or a description of them if an operator or the code decides. */
type Labels = Readonly<Record<string, readonly string[] | string>>;

export interface MetricDeclaration {
  /** What follows `sign_in_`. */
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: Labels;
  /** Histograms only: the upper bounds, in seconds. */
  readonly buckets?: readonly number[];
  /**
   * `process`: each process counts its own work, so add them up. `service`: read from the storage, so every process
   * reports the same.
   */
  readonly of: "process" | "service";
}

const PROVIDER = "a key of `providers`";
const RECEIVER = "`service:KEY`, `group:KEY`, `portal:KEY` or `events:KEY`";

export type CounterName =
  | "signIns"
  | "codes"
  | "tokens"
  | "refused"
  | "revoked"
  | "changes"
  | "logouts"
  | "attempts"
  | "parked"
  | "dropped"
  | "mails"
  | "faults"
  | "hashingRefused"
  | "limited"
  | "administration"
  | "providersStarted"
  | "providersFinished"
  | "providersFailed"
  | "documents";

/** The counters, by their source. */
export const COUNTERS: Readonly<Record<CounterName, MetricDeclaration>> = {
  signIns: {
    name: "sign_ins_total",
    type: "counter",
    help: "Submitted sign-in forms by result",
    labels: { result: SIGN_IN_RESULTS },
    of: "process",
  },
  codes: {
    name: "codes_total",
    type: "counter",
    help: "Authorization codes issued",
    labels: {},
    of: "process",
  },
  tokens: {
    name: "token_responses_total",
    type: "counter",
    help: "Token responses by grant type and kind of client",
    labels: { grant_type: GRANT_TYPES, kind: CLIENT_KINDS },
    of: "process",
  },
  refused: {
    name: "token_errors_total",
    type: "counter",
    help: "Refused token requests by error and grant type",
    labels: { error: TOKEN_ERRORS, grant_type: [...GRANT_TYPES, OTHER] },
    of: "process",
  },
  revoked: {
    name: "revoked_tokens_total",
    type: "counter",
    help: "Access tokens ended by their client",
    labels: {},
    of: "process",
  },
  changes: {
    name: "account_changes_total",
    type: "counter",
    help: "Account changes by action",
    labels: { action: "an action of `account.changed`" },
    of: "process",
  },
  logouts: {
    name: "backchannel_logouts_total",
    type: "counter",
    help: "Logout tokens for clients of an ended session, by result; failures by reason",
    labels: { result: ["delivered", "failed"], reason: BACKCHANNEL_FAILURES },
    of: "process",
  },
  attempts: {
    name: "delivery_attempts_total",
    type: "counter",
    help: "Attempts to deliver a notification by receiver and result",
    labels: { receiver: RECEIVER, result: ["success", "failure"] },
    of: "process",
  },
  parked: {
    name: "deliveries_parked_total",
    type: "counter",
    help: "Notifications that were parked by receiver and reason",
    labels: { receiver: RECEIVER, reason: ["attempts_used_up", "receiver_removed", "payload_unreadable"] },
    of: "process",
  },
  dropped: {
    name: "deliveries_dropped_total",
    type: "counter",
    help: "Events such as sign-ins that were not stored, because too many wait, or given up unsent, by receiver and reason",
    labels: {
      receiver: "`events:KEY`",
      reason: ["too_many_waiting", "too_late", "attempts_used_up", "receiver_removed", "payload_unreadable"],
    },
    of: "process",
  },
  mails: {
    name: "mails_total",
    type: "counter",
    help: "Attempts to send mail, by kind and result",
    labels: {
      kind: "what the mail is about, such as `password-changed`",
      result: ["sent", "retried", "failed"],
    },
    of: "process",
  },
  faults: {
    name: "faults_total",
    type: "counter",
    help: "Requests answered with 503, by endpoint",
    labels: { where: "an endpoint, or the work that failed" },
    of: "process",
  },
  hashingRefused: {
    name: "hashing_refused_total",
    type: "counter",
    help: "Sign-ins answered with 503 because too many passwords were being compared",
    labels: {},
    of: "process",
  },
  limited: {
    name: "limit_refusals_total",
    type: "counter",
    help: "Requests refused by a rate limit, by limit",
    labels: { limit: "a limit of docs/reference/limits.md, such as `interactions`" },
    of: "process",
  },
  administration: {
    name: "administration_responses_total",
    type: "counter",
    help: "Answers of the administration listener by surface (`rest` is `/v1`) and status; `4xx` is without 401, 403 and 429",
    labels: { surface: ADMINISTRATION_SURFACES, status: ADMINISTRATION_STATUSES },
    of: "process",
  },
  providersStarted: {
    name: "provider_sign_ins_started_total",
    type: "counter",
    help: "People who were sent to another provider to sign in, by provider",
    labels: { provider: PROVIDER },
    of: "process",
  },
  providersFinished: {
    name: "provider_sign_ins_finished_total",
    type: "counter",
    help: "People whom another provider has signed in, by provider",
    labels: { provider: PROVIDER },
    of: "process",
  },
  providersFailed: {
    name: "provider_sign_ins_failed_total",
    type: "counter",
    help: "Sign-ins with another provider that failed, by provider and reason",
    labels: { provider: PROVIDER, reason: PROVIDER_FAULTS },
    of: "process",
  },
  documents: {
    name: "document_fetches_total",
    type: "counter",
    help: "Fetched documents of clients that nobody has registered, by host and result",
    labels: {
      host: "a host of `clients.metadataDocuments.allow`, or `other`",
      result: DOCUMENT_RESULTS,
    },
    of: "process",
  },
};

export type HistogramName = "requests" | "storage" | "hashing" | "hashingWait" | "providers";

/** The histograms. */
export const HISTOGRAMS: Readonly<Record<HistogramName, MetricDeclaration>> = {
  requests: {
    name: "request_duration_seconds",
    type: "histogram",
    help: "Time from the last byte of a request to its response, by endpoint and status",
    labels: { endpoint: "an endpoint, such as `token`", status: ["2xx", "3xx", "4xx", "5xx"] },
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    of: "process",
  },
  storage: {
    name: "storage_duration_seconds",
    type: "histogram",
    help: "Time of a call to a store, by store, operation and result",
    labels: {
      store: ["storage", "artifacts"],
      operation: STORE_OPERATIONS,
      result: ["success", "conflict", "failure"],
    },
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    of: "process",
  },
  hashing: {
    name: "hashing_duration_seconds",
    type: "histogram",
    help: "Time of hashing or comparing a password, without waiting",
    labels: { priority: ["interactive", "background"] },
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    of: "process",
  },
  hashingWait: {
    name: "hashing_wait_seconds",
    type: "histogram",
    help: "Time that a password waited to be hashed or compared",
    labels: { priority: ["interactive", "background"] },
    buckets: [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    of: "process",
  },
  providers: {
    name: "provider_duration_seconds",
    type: "histogram",
    help: "Time of asking another provider who has signed in, by provider and result",
    labels: { provider: PROVIDER, result: ["success", "failure"] },
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    of: "process",
  },
};

export type GaugeName =
  | "deliveries"
  | "oldestDelivery"
  | "oldestDeletion"
  | "stopped"
  | "outbox"
  | "oldestMail"
  | "clocks"
  | "artifactsLost"
  | "droppedLines"
  | "lostAudit"
  | "info"
  | "pool"
  | "queue"
  | "signingKeys"
  | "tokensEnding";

/** What is read at each scrape. */
export const GAUGES: Readonly<Record<GaugeName, MetricDeclaration>> = {
  deliveries: {
    name: "deliveries",
    type: "gauge",
    help: "Notifications that are waiting or parked now, by receiver; 10,000 if there are more",
    labels: { receiver: RECEIVER, state: ["waiting", "parked"] },
    of: "service",
  },
  oldestDelivery: {
    name: "delivery_oldest_timestamp_seconds",
    type: "gauge",
    help: "When the oldest waiting notification for a receiver was stored, in seconds since the epoch",
    labels: { receiver: RECEIVER },
    of: "service",
  },
  oldestDeletion: {
    name: "deletion_oldest_timestamp_seconds",
    type: "gauge",
    help: "When the oldest undelivered notification of a deleted account was stored, in seconds since the epoch",
    labels: { state: ["waiting", "parked"] },
    of: "service",
  },
  stopped: {
    name: "receivers_stopped",
    type: "gauge",
    help: "1 for each receiver that is paused, or whose circuit is open because it fails",
    labels: { receiver: RECEIVER, state: ["paused", "circuit_open"] },
    of: "service",
  },
  outbox: {
    name: "mail_outbox",
    type: "gauge",
    help: "Mails waiting to be sent; 10,000 if there are more",
    labels: {},
    of: "service",
  },
  oldestMail: {
    name: "mail_oldest_timestamp_seconds",
    type: "gauge",
    help: "When the oldest waiting mail was stored, in seconds since the epoch",
    labels: {},
    of: "service",
  },
  clocks: {
    name: "clock_difference_seconds",
    type: "gauge",
    help: "How far the clock of a store is ahead of that of the process; beyond 60 seconds in either direction it serves no requests",
    labels: { store: ["storage", "artifacts"] },
    of: "process",
  },
  artifactsLost: {
    name: "artifacts_lost_timestamp_seconds",
    type: "gauge",
    help: "When the Redis with codes, tokens and sessions was found to have lost everything, in seconds since the epoch; 0 if it never was",
    labels: {},
    of: "service",
  },
  droppedLines: {
    name: "log_lines_dropped_total",
    type: "counter",
    help: "Lines of the log that were lost, because its disk is full or its reader has stopped",
    labels: {},
    of: "process",
  },
  lostAudit: {
    name: "audit_records_lost_total",
    type: "counter",
    help: "Audit records that could not be stored, because the storage was away for too long",
    labels: {},
    of: "process",
  },
  info: {
    name: "process_info",
    type: "gauge",
    help: "1, with what runs here: all processes of one role should have the same version and configuration",
    labels: {
      version: "of the package",
      role: ["server", "worker"],
      storage: "the kind, such as `postgresql`",
      artifacts: "the kind, or that of the storage",
      queue: ["embedded", "redis"],
      configuration: "a keyed hash: it differs if any key does, except the port and host of metrics",
    },
    of: "process",
  },
  pool: {
    name: "pool_connections",
    type: "gauge",
    help: "Connections to PostgreSQL that are used now, and requests that wait for one",
    labels: { store: ["storage"], state: ["used", "waiting"] },
    of: "process",
  },
  queue: {
    name: "queue_up",
    type: "gauge",
    help: "1 while the Redis of `queue` can be used, 0 while it can't; always 1 with the embedded queue",
    labels: {},
    of: "process",
  },
  signingKeys: {
    name: "signing_key_created_timestamp_seconds",
    type: "gauge",
    help: "When the key that signs now was made, by algorithm, in seconds since the epoch",
    labels: { alg: "such as `RS256`" },
    of: "service",
  },
  tokensEnding: {
    name: "administration_tokens_ending",
    type: "gauge",
    help: "Administration tokens that are valid now and run out within 7 days; workers do not report it",
    labels: {},
    of: "service",
  },
};

/** Counted for the process, because it outlives the service that a reload replaces. */
export const RELOADS: MetricDeclaration = {
  name: "reloads_total",
  type: "counter",
  help: "Reloads of the configuration by result",
  labels: { result: ["reloaded", "refused"] },
  of: "process",
};

/** All metrics of the service, in the order of the documentation. */
export const METRICS: readonly MetricDeclaration[] = [
  ...[COUNTERS, HISTOGRAMS, GAUGES].flatMap((each) => Object.values<MetricDeclaration>(each)),
  RELOADS,
];
