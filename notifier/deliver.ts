/**
 * One HTTP attempt of a delivery. Specification: "Notification receiver" of the interface document, "Identity of
 * a delivery", "Success", "Time-outs" and "Where a receiver may live" of the decisions.
 *
 * - The status that a receiver gives is its answer, whatever becomes of the body after it.
 * - A receiver may close a connection that was kept open in the moment in which it is used again. That says nothing
 *   of the receiver: the request goes once more on a connection of its own, as part of the same attempt and within
 *   its time. It may so arrive twice, which the `webhook-id` shows.
 */
import type { NotificationSettings } from "../config/configuration.ts";
import type { Clock } from "../lib/clock.ts";
import { createGuardedAgents, type GuardedAgents } from "../lib/guarded-agents.ts";
import { createAddressRules } from "../lib/receiver-addresses.ts";
import type { Resolve } from "../lib/system-resolve.ts";
import type { Attempt, AttemptResult, AttemptTarget, AttemptTiming } from "./attempt.ts";
import { post, type PostOutcome } from "./post.ts";
import { readRetryAfter } from "./retry-after.ts";
import { remembered } from "./remembered.ts";
import { createRunningAttempts } from "./running-attempts.ts";
import { signatureHeader, signingKey } from "./signature.ts";
import { inspectUrl } from "./url-guard.ts";

/** What sends. */
export interface Deliverer {
  readonly attempt: Attempt;
  /** Closes all connections: attempts that are running fail. */
  close(): void;
}

export interface DelivererOptions {
  readonly settings: Pick<NotificationSettings, "timeouts" | "concurrency" | "allowedReceivers">;
  readonly clock: Clock;
  /** Default: the system's resolver. */
  readonly resolve?: Resolve;
  /** Certificates (PEM) that are trusted in place of the system's; default: the system's. */
  readonly ca?: string;
}

const USER_AGENT = "sign-in-service";
const MAX_REASON = 200;

/** The connections of one deliverer: kept ones, and those of one request each. */
interface Connections {
  readonly kept: GuardedAgents;
  readonly single: GuardedAgents;
}

/** Everything but the transport's own headers: names and values in turns. */
function headersOf(
  { client_id, client_secret }: AttemptTarget,
  body: string,
  {
    id,
    timestamp,
    signature,
  }: { readonly id: string; readonly timestamp: number; readonly signature: string },
): string[] {
  const headers = [
    "authorization",
    `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}`,
    "content-type",
    "application/json",
    "content-length",
    String(Buffer.byteLength(body)),
    "user-agent",
    USER_AGENT,
    "webhook-id",
    id,
    "webhook-timestamp",
    String(timestamp),
  ];
  if (signature !== "") headers.push("webhook-signature", signature);
  return headers;
}

function toResult(outcome: PostOutcome, timing: AttemptTiming): AttemptResult {
  const { startedAt, duration } = timing;
  if (outcome.kind === "failed") return { kind: "failed", code: outcome.code, startedAt, duration };
  if (outcome.kind === "refused") {
    return { kind: "refused", reason: outcome.reason.slice(0, MAX_REASON), startedAt, duration };
  }
  const { status, answer, retryAfter: header } = outcome;
  const retryAfter = header === undefined ? undefined : readRetryAfter(header, startedAt + duration);
  return {
    kind: "answered",
    status,
    answer,
    startedAt,
    duration,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
}

/** @throws nothing; the deliverer opens no connection before its first attempt. */
export function createDeliverer({ settings, clock, resolve, ca }: DelivererOptions): Deliverer {
  const { timeouts, concurrency, allowedReceivers } = settings;
  const rules = createAddressRules(allowedReceivers);
  const common = { rules, resolve, ca, most: concurrency.total };
  const connections: Connections = {
    kept: createGuardedAgents({ ...common, keep: concurrency.perReceiver }),
    single: createGuardedAgents({ ...common, keep: 0 }),
  };

  const running = createRunningAttempts();
  const inspect = remembered(inspectUrl);
  const keyOf = remembered(signingKey);

  async function send(
    target: AttemptTarget,
    body: string,
    { id, signal, startedAt }: { id: string; signal: AbortSignal; startedAt: number },
  ): Promise<PostOutcome> {
    const { place, reason } = inspect(target.url);
    if (place === undefined) return { kind: "refused", reason };
    const timestamp = Math.floor(startedAt / 1000);
    let signature: string;
    try {
      signature = signatureHeader(target.signing_secrets.map(keyOf), { id, timestamp, body });
    } catch {
      return { kind: "failed", code: "invalid_signing_secret", stale: false };
    }
    const headers = headersOf(target, body, { id, timestamp, signature });
    const began = performance.now();
    const [connect, total] = [timeouts.connect * 1000, timeouts.total * 1000];
    const details = { place, headers, body, connect, signal, running };
    const outcome = await post({ ...details, agents: connections.kept, total });
    const left = total - (performance.now() - began);
    if (outcome.kind !== "failed" || !outcome.stale || left <= 0) return outcome;
    return post({ ...details, agents: connections.single, total: left });
  }

  return {
    async attempt(target, body, { id, signal }) {
      const startedAt = clock.now();
      const began = performance.now();
      const outcome = await send(target, body, { id, signal, startedAt });
      return toResult(outcome, { startedAt, duration: performance.now() - began });
    },
    close() {
      connections.kept.close();
      connections.single.close();
    },
  };
}
