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

/** Called for each reading, because the backlog is in the storage. If it fails, the backlog is left out. */
type BacklogSource = () => Promise<readonly Backlog[]>;

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
  changes: ["account_changes_total", "Account changes by action", "action"],
  faults: ["faults_total", "Requests answered with 503, by endpoint", "where"],
} as const;

type Counters = Readonly<Record<keyof typeof COUNTERS, Counter>>;

interface Loaded {
  readonly registry: Registry;
  readonly counters: Counters;
}

/** Each service has its own registry, so two services in one process do not mix their numbers. */
async function load(backlog: BacklogSource): Promise<Loaded> {
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
        const all = await backlog().catch(() => []);
        for (const { receiver, waiting, parked } of all) {
          this.set({ receiver, state: "waiting" }, waiting);
          this.set({ receiver, state: "parked" }, parked);
        }
      },
    }),
  );
  collectDefaultMetrics({ register: registry });
  return { registry, counters };
}

/**
 * Counts the events. prom-client is loaded with the first event or the first reading: an idle service does without it, and the
 * first response does not wait for it.
 */
export function createMetrics(events: ServiceEmitter, backlog: BacklogSource): Metrics {
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
  count("account.changed", ({ changes }, { action }) => changes.inc({ action }));
  count("fault", ({ faults }, { where }) => faults.inc({ where }));
  return { text: async () => (await loaded()).registry.metrics() };
}
