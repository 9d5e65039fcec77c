/** Counters for Prometheus, fed by the events. */
import { collectDefaultMetrics, Counter, Gauge, Registry } from "prom-client";
import type { ServiceEmitter } from "./events.ts";

export interface Metrics {
  /** The text exposition format. */
  text(): Promise<string>;
}

/** What one receiver has. */
export interface Backlog {
  readonly receiver: string;
  readonly waiting: number;
  readonly parked: number;
}

/** Asked for at each reading: it is in the storage, not in this process. Without an answer the backlog is left out. */
type BacklogSource = () => Promise<readonly Backlog[]>;

function countDeliveries(registry: Registry, events: ServiceEmitter, backlog: BacklogSource): void {
  const registers = [registry];
  const attempts = new Counter({
    name: "sign_in_delivery_attempts_total",
    help: "Attempts to deliver a notification by receiver and result",
    labelNames: ["receiver", "result"],
    registers,
  });
  const parked = new Counter({
    name: "sign_in_deliveries_parked_total",
    help: "Notifications that were parked by receiver and reason",
    labelNames: ["receiver", "reason"],
    registers,
  });
  events.on("delivery.succeeded", ({ receiver }) => attempts.inc({ receiver, result: "success" }));
  events.on("delivery.failed", ({ receiver }) => attempts.inc({ receiver, result: "failure" }));
  events.on("delivery.parked", ({ receiver, reason }) => parked.inc({ receiver, reason }));
  events.on("receiver.removed", ({ receiver, parked: count }) =>
    parked.inc({ receiver, reason: "receiver_removed" }, count),
  );
  registry.registerMetric(
    new Gauge({
      name: "sign_in_deliveries",
      help: "Notifications that wait or are parked now, by receiver",
      labelNames: ["receiver", "state"],
      registers: [],
      async collect() {
        this.reset();
        // What this process counts by itself is wanted most while the storage is away.
        const all = await backlog().catch(() => []);
        for (const { receiver, waiting, parked: given } of all) {
          this.set({ receiver, state: "waiting" }, waiting);
          this.set({ receiver, state: "parked" }, given);
        }
      },
    }),
  );
}

/**
 * Each service has a registry of its own: two in one process don't meet.
 * @param backlog what waits and is parked.
 */
export function createMetrics(events: ServiceEmitter, backlog: BacklogSource): Metrics {
  const registry = new Registry();
  countDeliveries(registry, events, backlog);
  collectDefaultMetrics({ register: registry });
  const counter = (name: string, help: string, labelNames: string[]): Counter =>
    new Counter({ name: `sign_in_${name}`, help, labelNames, registers: [registry] });
  const signIns = counter("sign_ins_total", "Submitted sign-in forms by result", ["result"]);
  const tokens = counter("token_responses_total", "Token responses by grant type", ["grant_type"]);
  const refused = counter("token_errors_total", "Refused token requests by error", ["error"]);
  const codes = counter("codes_total", "Authorization codes issued", []);
  const revoked = counter("revoked_tokens_total", "Access tokens ended by their client", []);
  const logouts = counter("backchannel_logouts_total", "Clients to tell of the end of a session, by result", [
    "result",
  ]);
  const changes = counter("account_changes_total", "Account changes by action", ["action"]);
  const faults = counter("faults_total", "Requests answered with 503, by endpoint", ["where"]);
  events.on("sign_in.success", () => signIns.inc({ result: "success" }));
  events.on("sign_in.failure", ({ reason }) => signIns.inc({ result: reason }));
  events.on("tokens.issued", ({ grant_type }) => tokens.inc({ grant_type }));
  events.on("tokens.refused", ({ error }) => refused.inc({ error }));
  events.on("code.issued", () => codes.inc());
  events.on("token.revoked", () => revoked.inc());
  events.on("backchannel.delivered", () => logouts.inc({ result: "delivered" }));
  events.on("backchannel.failed", () => logouts.inc({ result: "failed" }));
  events.on("account.changed", ({ action }) => changes.inc({ action }));
  events.on("fault", ({ where }) => faults.inc({ where }));
  return { text: () => registry.metrics() };
}
