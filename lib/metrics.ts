/** Counters for Prometheus, fed by the events. */
import type { Counter, Registry } from "prom-client";
import type { ServiceEmitter, ServiceEvent, ServiceEvents } from "./events.ts";

export interface Metrics {
  /** The text exposition format. */
  text(): Promise<string>;
}

/** The waiting and parked deliveries of one receiver. */
export interface Backlog {
  readonly receiver: string;
  readonly waiting: number;
  readonly parked: number;
}

/** The mail that waits to be sent. */
export interface MailBacklog {
  readonly count: number;
  /** When the oldest was stored, in milliseconds since the epoch; `undefined` if none waits. */
  readonly oldest: number | undefined;
}

/** What waits in the storage. Called for each reading; what can't be read is left out. */
export interface BacklogSources {
  deliveries(): Promise<readonly Backlog[]>;
  mail(): Promise<MailBacklog>;
}

/** Name after `sign_in_`, help text and labels of each counter. */
const COUNTERS = {
  attempts: [
    "delivery_attempts_total",
    "Attempts to deliver a notification by receiver and result",
    "receiver",
    "result",
  ],
  parked: [
    "deliveries_parked_total",
    "Notifications that were parked by receiver and reason",
    "receiver",
    "reason",
  ],
  signIns: ["sign_ins_total", "Submitted sign-in forms by result", "result"],
  tokens: ["token_responses_total", "Token responses by grant type", "grant_type"],
  refused: ["token_errors_total", "Refused token requests by error", "error"],
  codes: ["codes_total", "Authorization codes issued"],
  revoked: ["revoked_tokens_total", "Access tokens ended by their client"],
  logouts: ["backchannel_logouts_total", "Clients to tell of the end of a session, by result", "result"],
  mails: ["mails_total", "Attempts to send mail, by its kind and the result", "kind", "result"],
  changes: ["account_changes_total", "Account changes by action", "action"],
  faults: ["faults_total", "Requests answered with 503, by endpoint", "where"],
} as const;

type Counters = Readonly<Record<keyof typeof COUNTERS, Counter>>;

interface Loaded {
  readonly registry: Registry;
  readonly counters: Counters;
}

/** Each service has its own registry, so two services in one process do not mix their numbers. */
async function load(backlog: BacklogSources): Promise<Loaded> {
  const { collectDefaultMetrics, Counter, Gauge, Registry } = await import("prom-client");
  const registry = new Registry();
  const counters = Object.fromEntries(
    Object.entries(COUNTERS).map(([key, [name, help, ...labelNames]]) => [
      key,
      new Counter({ name: `sign_in_${name}`, help, labelNames, registers: [registry] }),
    ]),
  ) as Counters;
  registry.registerMetric(
    new Gauge({
      name: "sign_in_deliveries",
      help: "Notifications that wait or are parked now, by receiver",
      labelNames: ["receiver", "state"],
      registers: [],
      async collect() {
        this.reset();
        // The other numbers matter most while the storage does not answer.
        const all = await backlog.deliveries().catch(() => []);
        for (const { receiver, waiting, parked } of all) {
          this.set({ receiver, state: "waiting" }, waiting);
          this.set({ receiver, state: "parked" }, parked);
        }
      },
    }),
  );
  const mailGauge = (name: string, help: string, valueOf: (mail: MailBacklog) => number | undefined): void =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        registers: [],
        async collect() {
          const mail = await backlog.mail().catch(() => undefined);
          const value = mail && valueOf(mail);
          if (value === undefined) this.remove();
          else this.set(value);
        },
      }),
    );
  mailGauge("sign_in_mail_outbox", "Mails that wait to be sent", ({ count }) => count);
  mailGauge(
    "sign_in_mail_oldest_timestamp_seconds",
    "When the oldest mail that waits was stored, in seconds since the epoch",
    ({ oldest }) => oldest && oldest / 1000,
  );
  collectDefaultMetrics({ register: registry });
  return { registry, counters };
}

/**
 * Counts the events. prom-client is loaded with the first event or the first reading: an idle service does without it, and the
 * first response does not wait for it.
 */
export function createMetrics(events: ServiceEmitter, backlog: BacklogSources): Metrics {
  let loading: Promise<Loaded> | undefined;
  const loaded = (): Promise<Loaded> => (loading ??= load(backlog));
  function count<E extends ServiceEvent>(
    event: E,
    increment: (counters: Counters, argument: ServiceEvents[E]) => void,
  ): void {
    events.on(event, (argument) => void loaded().then(({ counters }) => increment(counters, argument)));
  }
  count("delivery.succeeded", ({ attempts }, { receiver }) => attempts.inc({ receiver, result: "success" }));
  count("delivery.failed", ({ attempts }, { receiver }) => attempts.inc({ receiver, result: "failure" }));
  count("delivery.parked", ({ parked }, { receiver, reason }) => parked.inc({ receiver, reason }));
  count("receiver.removed", ({ parked }, { receiver, parked: deliveries }) =>
    parked.inc({ receiver, reason: "receiver_removed" }, deliveries),
  );
  count("sign_in.success", ({ signIns }) => signIns.inc({ result: "success" }));
  count("sign_in.failure", ({ signIns }, { reason }) => signIns.inc({ result: reason }));
  count("tokens.issued", ({ tokens }, { grant_type }) => tokens.inc({ grant_type }));
  count("tokens.refused", ({ refused }, { error }) => refused.inc({ error }));
  count("code.issued", ({ codes }) => codes.inc());
  count("token.revoked", ({ revoked }) => revoked.inc());
  count("backchannel.delivered", ({ logouts }) => logouts.inc({ result: "delivered" }));
  count("backchannel.failed", ({ logouts }) => logouts.inc({ result: "failed" }));
  count("mail.sent", ({ mails }, { kind }) => mails.inc({ kind, result: "sent" }));
  count("mail.failed", ({ mails }, { kind, retryAt }) =>
    mails.inc({ kind, result: retryAt === null ? "failed" : "retried" }),
  );
  count("account.changed", ({ changes }, { action }) => changes.inc({ action }));
  count("fault", ({ faults }, { where }) => faults.inc({ where }));
  return { text: async () => (await loaded()).registry.metrics() };
}
