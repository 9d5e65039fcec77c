/**
 * One HTTP attempt of a delivery. Specification: "Notification receiver" of the interface document, "Identity of
 * a delivery", "Success", "Time-outs" and "Where a receiver may live" of the decisions.
 *
 * - The status decides the result, even if the body after it is cut off.
 * - A receiver may close a kept-alive connection just as the next request goes out on it. That is no failure of the
 *   receiver: the request is repeated once on a new connection, as part of the same attempt and within its time-out.
 *   It may therefore arrive twice; the `webhook-id` shows that.
 */
import type { KeyObject } from "node:crypto";
import { urlToHttpOptions } from "node:url";
import type { NotificationSettings } from "../../config/configuration.ts";
import type { Clock } from "../../core/clock.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import { receiverAddressProblem } from "../../accounts/text-rules.ts";
import { createGuardedAgents, type Resolve } from "../../core/outbound-agents.ts";
import { createAddressRules } from "../../core/outbound-addresses.ts";
import { post, type PostAddress, type PostOutcome } from "./post.ts";
import { signatureHeader, signingKey } from "../../receiver/signature.ts";

/** How to reach a receiver, read at the moment of the attempt. */
export interface AttemptTarget {
  readonly url: string;
  /** The Basic credentials that the receiver expects. Missing: none. */
  readonly client_id?: string;
  readonly client_secret?: string;
  /** `whsec_` and Base64 each; during a rotation the new one and the old one. Empty: no signature header. */
  readonly signing_secrets: readonly string[];
}

export interface AttemptOptions {
  /** The `webhook-id`: the same on every attempt of a delivery. */
  readonly id: string;
  /** Aborts the attempt: it resolves with `failed` and the code `aborted`. */
  readonly signal: AbortSignal;
}

export interface AttemptTiming {
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** Milliseconds. */
  readonly duration: number;
}

/** The receiver answered, with any status. */
export interface Answered extends AttemptTiming {
  readonly kind: "answered";
  /** 100 to 599. 200 to 299 is a success; everything else, redirects included, is a failure. */
  readonly status: number;
  /** Seconds that `Retry-After` asks for, counted from the response; missing without a valid header. */
  readonly retryAfter?: number;
  /** The first 4 KiB of the response body as UTF-8. It may contain anything: never log it. */
  readonly answer: string;
}

/** The request was attempted, and no response came: a failed attempt. */
export interface Failed extends AttemptTiming {
  readonly kind: "failed";
  /**
   * A short, stable code, never a message: for example `ECONNREFUSED`, `ENOTFOUND`, `CERT_HAS_EXPIRED`,
   * `timeout_connect`, `timeout_total`, `invalid_signing_secret`, `aborted`.
   */
  readonly code: string;
}

/** Nothing was sent because the address is not allowed. This pauses the receiver and uses up no attempt. */
export interface Refused extends AttemptTiming {
  readonly kind: "refused";
  /** For operators, without secrets and user data; at most 200 characters. */
  readonly reason: string;
}

export type AttemptResult = Answered | Failed | Refused;

/**
 * Makes one attempt. It never rejects.
 * @param body the documented JSON, sent byte for byte.
 */
export type Attempt = (
  target: AttemptTarget,
  body: string,
  options: AttemptOptions,
) => Promise<AttemptResult>;

/** Sends notifications over HTTP. */
export interface Deliverer {
  readonly attempt: Attempt;
  /** Closes all connections: running attempts fail. */
  close(): void;
}

export interface DelivererOptions {
  readonly settings: Pick<NotificationSettings, "timeouts" | "concurrency" | "allowedReceivers">;
  readonly clock: Clock;
  /** Default: the system's resolver. */
  readonly resolve?: Resolve;
  /** Certificates (PEM) to trust instead of the system's. */
  readonly ca?: string;
  /** Gets a span of each attempt. Default: none. */
  readonly telemetry?: Pick<Telemetry, "delivery"> | undefined;
}

const USER_AGENT = "sign-in-service";
const MAX_REASON = 200;

/**
 * Checks the text of a URL before anything is looked up: http or https; the host written plainly (no decimal, octal or
 * hexadecimal address, no escapes, no zone, no trailing dot); no user name, password or fragment. The agents of
 * `core/outbound-agents.ts` check the resolved addresses when they connect.
 * @returns the address, or why it is refused.
 */
function inspectUrl(text: string): PostAddress | string {
  const problem = receiverAddressProblem(text);
  if (problem !== undefined) return `the URL ${problem}`;
  const url = new URL(text);
  // Certificates and `allowedReceivers` name hosts without it.
  if (url.hostname.endsWith(".")) return "the URL must not have a dot at the end of its host";
  const { hostname, port, path } = urlToHttpOptions(url);
  return {
    protocol: url.protocol === "https:" ? "https:" : "http:",
    hostname: hostname ?? "",
    port: port ?? "",
    path: path ?? "/",
    host: url.host,
  };
}

/** What all requests to a target have in common. */
interface Prepared {
  readonly address: PostAddress;
  /** `undefined`: none. */
  readonly authorization: string | undefined;
  readonly signingKeys: readonly KeyObject[];
}

/** @returns why nothing can be sent, if the URL or a secret is not usable. */
function prepare({ url, client_id, client_secret, signing_secrets }: AttemptTarget): Prepared | PostOutcome {
  const address = inspectUrl(url);
  if (typeof address === "string") return { kind: "refused", reason: address };
  try {
    const authorization =
      client_id === undefined
        ? undefined
        : `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}`;
    return { address, authorization, signingKeys: signing_secrets.map(signingKey) };
  } catch {
    return { kind: "failed", code: "invalid_signing_secret", stale: false };
  }
}

/** All headers except those of the transport, as alternating names and values. */
function headersOf(
  authorization: string | undefined,
  body: string,
  {
    id,
    timestamp,
    signature,
    traceparent,
  }: {
    readonly id: string;
    readonly timestamp: number;
    readonly signature: string;
    readonly traceparent: string | undefined;
  },
): string[] {
  const headers = [
    ...(authorization === undefined ? [] : ["authorization", authorization]),
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
  if (traceparent !== undefined) headers.push("traceparent", traceparent);
  if (signature !== "") headers.push("webhook-signature", signature);
  return headers;
}

/** The date format of RFC 9110 section 5.6.7, and the two obsolete ones. */
const DATES: readonly RegExp[] = [
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];
/** Longer values are cut to a year, so that arithmetic with them stays exact. */
const YEAR_SECONDS = 365 * 24 * 60 * 60;

/**
 * Parses `Retry-After` (RFC 9110 section 10.2.3).
 * @param now milliseconds since the epoch, when the response arrived.
 * @returns seconds to wait: 0 for a date in the past, at most a year; `undefined` when the value is neither a whole
 * number of seconds nor a date.
 */
export function readRetryAfter(header: string, now: number): number | undefined {
  const text = header.trim();
  if (/^\d+$/.test(text)) return Math.min(Number(text), YEAR_SECONDS);
  if (!DATES.some((form) => form.test(text))) return undefined;
  const date = Date.parse(text.endsWith(" GMT") ? text : `${text} GMT`);
  if (Number.isNaN(date)) return undefined;
  return Math.min(Math.max(Math.ceil((date - now) / 1000), 0), YEAR_SECONDS);
}

function toResult(outcome: PostOutcome, timing: AttemptTiming): AttemptResult {
  if (outcome.kind === "failed") return { kind: "failed", code: outcome.code, ...timing };
  if (outcome.kind === "refused") {
    return { kind: "refused", reason: outcome.reason.slice(0, MAX_REASON), ...timing };
  }
  const { status, answer, retryAfter: header } = outcome;
  const retryAfter =
    header === undefined ? undefined : readRetryAfter(header, timing.startedAt + timing.duration);
  return { kind: "answered", status, answer, ...timing, ...(retryAfter !== undefined && { retryAfter }) };
}

/** @throws nothing; the deliverer opens no connection before its first attempt. */
export function createDeliverer({ settings, clock, resolve, ca, telemetry }: DelivererOptions): Deliverer {
  const { timeouts, concurrency, allowedReceivers } = settings;
  const common = { rules: createAddressRules(allowedReceivers), resolve, ca, most: concurrency.total };
  const keptAlive = createGuardedAgents({ ...common, keep: concurrency.perReceiver });
  const single = createGuardedAgents({ ...common, keep: 0 });
  const prepared = new WeakMap<AttemptTarget, Prepared | PostOutcome>();

  async function send(
    target: AttemptTarget,
    body: string,
    { id, signal, startedAt }: { id: string; signal: AbortSignal; startedAt: number },
  ): Promise<PostOutcome> {
    const ready = prepared.get(target) ?? prepare(target);
    prepared.set(target, ready);
    if ("kind" in ready) return ready;
    const { address, authorization, signingKeys } = ready;
    const timestamp = Math.floor(startedAt / 1000);
    const signature = signatureHeader(signingKeys, { id, timestamp, body });
    const span = telemetry?.delivery(address.hostname, address.port);
    const traceparent = span?.traceparent;
    const headers = headersOf(authorization, body, { id, timestamp, signature, traceparent });
    const began = performance.now();
    const [connect, total] = [timeouts.connect * 1000, timeouts.total * 1000];
    const details = { address, headers, body, connect, signal };
    let outcome = await post({ ...details, agents: keptAlive, total });
    const left = total - (performance.now() - began);
    if (outcome.kind === "failed" && outcome.stale && left > 0)
      outcome = await post({ ...details, agents: single, total: left });
    span?.end(outcome.kind === "refused" ? { code: "address_refused" } : outcome);
    return outcome;
  }

  return {
    async attempt(target, body, { id, signal }) {
      const startedAt = clock.now();
      const began = performance.now();
      const outcome = await send(target, body, { id, signal, startedAt });
      return toResult(outcome, { startedAt, duration: performance.now() - began });
    },
    close() {
      keptAlive.close();
      single.close();
    },
  };
}
