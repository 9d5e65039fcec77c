/** Counters for Prometheus, fed by the events. */
import { collectDefaultMetrics, Counter, Registry } from "prom-client";
import type { ServiceEmitter } from "./events.ts";

export interface Metrics {
  /** The text exposition format. */
  text(): Promise<string>;
}

/** Each service has a registry of its own: two in one process don't meet. */
export function createMetrics(events: ServiceEmitter): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const counter = (name: string, help: string, labelNames: string[]): Counter =>
    new Counter({ name: `sign_in_${name}`, help, labelNames, registers: [registry] });
  const signIns = counter("sign_ins_total", "Submitted sign-in forms by result", ["result"]);
  const tokens = counter("token_responses_total", "Token responses by grant type", ["grant_type"]);
  const refused = counter("token_errors_total", "Refused token requests by error", ["error"]);
  const codes = counter("codes_total", "Authorization codes issued", []);
  const revoked = counter("revoked_tokens_total", "Access tokens ended by their client", []);
  const changes = counter("account_changes_total", "Account changes by action", ["action"]);
  const faults = counter("faults_total", "Requests answered with 503, by endpoint", ["where"]);
  events.on("sign_in.success", () => signIns.inc({ result: "success" }));
  events.on("sign_in.failure", ({ reason }) => signIns.inc({ result: reason }));
  events.on("tokens.issued", ({ grant_type }) => tokens.inc({ grant_type }));
  events.on("tokens.refused", ({ error }) => refused.inc({ error }));
  events.on("code.issued", () => codes.inc());
  events.on("token.revoked", () => revoked.inc());
  events.on("account.changed", ({ action }) => changes.inc({ action }));
  events.on("fault", ({ where }) => faults.inc({ where }));
  return { text: () => registry.metrics() };
}
