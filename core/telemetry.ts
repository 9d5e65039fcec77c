/**
 * OpenTelemetry: spans and metrics for the SDK of the process. Loaded only with `telemetry: true`, and without an SDK its
 * calls do nothing. Spans have the route, never the path, the query, headers or anything about a person.
 */
import type * as Api from "@opentelemetry/api";
import type { Attributes, Context, Span, SpanContext, SpanKind } from "@opentelemetry/api";
import { ConfigurationError } from "./errors.ts";
import type { MetricDeclaration } from "./metric-catalog.ts";
import { packageVersion } from "./package-version.ts";

type Labels = Readonly<Record<string, string>>;

/** A request that was answered, or given up by its caller. */
interface EndedRequest {
  readonly method: string;
  /** The path with names in place of identifiers, such as `/interaction/:uid`. */
  readonly template: string;
  readonly status: number;
  readonly isAborted: boolean;
}

/** The span of a request. */
export interface RequestSpan {
  /** `undefined` without an SDK. */
  readonly traceId: string | undefined;
  /** Runs the work inside: the spans of its calls are children. */
  run<T>(work: () => T): T;
  end(request: EndedRequest): void;
}

/** The span of a POST to a receiver. */
export interface DeliverySpan {
  /** For the receiver; `undefined` without an SDK. */
  readonly traceparent: string | undefined;
  /** @param outcome a status, or the code of a fault. */
  end(outcome: { readonly status?: number; readonly code?: string }): void;
}

/** A finished call to a store. `system` is the kind of the store. */
interface StoreCall {
  readonly system: string;
  readonly store: string;
  readonly operation: string;
  readonly result: "success" | "conflict" | "failure";
  readonly seconds: number;
}

/** A password that was hashed or compared, or refused because too much was waiting. */
interface Hashing {
  readonly priority: string;
  readonly waited: number;
  readonly seconds: number | undefined;
}

/** A request that the service sends to somebody else while it answers one. */
interface SentRequest {
  /** Whom it asks. */
  readonly whom: "provider" | "client" | "document" | "breach list";
  readonly method: string;
  /** Only its host and port are used. Missing if strangers choose it: a host may be the name of a person. */
  readonly url?: string | URL;
}

/** What counts events. */
export interface Counted {
  inc(labels: Labels, value?: number): void;
}

/** What measures times. */
export interface Timed {
  observe(labels: Labels, value: number): void;
  /** Makes a series without values. */
  zero(labels: Labels): void;
}

export interface Telemetry {
  /**
   * @param traceparent from outside: the parent of the span if its sender is trusted, a link otherwise.
   */
  request(method: string, traceparent: unknown, isTrusted: boolean): RequestSpan;
  /** Adds a span to the running request. Outside a request there is none. */
  storeCall(call: StoreCall): void;
  /** As `storeCall`. */
  hashed(timing: Hashing): void;
  /** Sends a request inside a span of the running request. Outside a request there is none. */
  sent(request: SentRequest, send: () => Promise<Response>): Promise<Response>;
  /** Starts a trace of its own, whatever caused the delivery. */
  delivery(host: string, port: string | number): DeliverySpan;
  /** Counts for both. */
  counted(metric: MetricDeclaration, own: Counted): Counted;
  /** Measures for both. */
  timed(metric: MetricDeclaration, own: Timed): Timed;
  /** @returns a function that ends the reading. */
  read(
    metric: MetricDeclaration,
    read: () => Promise<readonly (readonly [number, (Labels | undefined)?])[]>,
  ): () => void;
}

const NAME = "sign-in-service";
/** The methods of RFC 9110 and RFC 5789. A client may send any other word. */
const METHODS: ReadonlySet<string> = new Set(
  "GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH".split(" "),
);
/** W3C Trace Context, version 00 only: later versions may have another form. */
const TRACEPARENT = /^00-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})$/;

/** @returns `undefined` for a malformed one, and for several, which Node joins. No `tracestate` is taken. */
export function readTraceparent(header: unknown): SpanContext | undefined {
  const [, traceId, spanId, flags] = (typeof header === "string" && TRACEPARENT.exec(header)) || [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  // The other flags say nothing yet.
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}

function fullName({ name }: MetricDeclaration): string {
  return `sign_in_${name}`;
}

function settings({ name, help }: MetricDeclaration): { readonly description: string; unit?: string } {
  return { description: help, ...(name.endsWith("_seconds") && { unit: "s" }) };
}

/** The code of an error. `fetch` wraps the error of its connection as `cause`. */
function codeOf(error: unknown): string {
  const code: unknown = Reflect.get(Object(error), "code");
  if (typeof code === "string" && /^[A-Z][A-Z\d_]{1,60}$/.test(code)) return code;
  const { name, cause } = Object(error) as { readonly name?: unknown; readonly cause?: unknown };
  if (name === "TimeoutError" || name === "AbortError") return "timeout";
  return cause === undefined ? "failed" : codeOf(cause);
}

/** Milliseconds since the epoch, with fractions, as spans need them. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

async function loadApi(): Promise<typeof Api> {
  try {
    return await import("@opentelemetry/api");
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new ConfigurationError([
      "config.telemetry: needs an OpenTelemetry SDK and the package @opentelemetry/api beside this one; see docs/operate/day-to-day/tracing.md",
    ]);
  }
}

/**
 * @param onWarning is told if no SDK takes spans yet.
 * @throws ConfigurationError without the package.
 */
export async function openTelemetry(onWarning: (text: string) => void): Promise<Telemetry> {
  const { context, isSpanContextValid, metrics, ROOT_CONTEXT, SpanStatusCode, trace, TraceFlags, ...api } =
    await loadApi();
  const { INTERNAL, SERVER, CLIENT } = api.SpanKind;
  const version = packageVersion();
  const tracer = trace.getTracer(NAME, version);
  const meter = metrics.getMeter(NAME, version);
  // Never ended, so it is never exported.
  if (!isSpanContextValid(tracer.startSpan("probe").spanContext()))
    onWarning(
      "telemetry is on, but this process has no OpenTelemetry SDK that takes spans; see docs/operate/day-to-day/tracing.md",
    );

  /** The running request; `undefined` when it has ended, though timers that it started go on in its context. */
  function running(): Context | undefined {
    const current = context.active();
    const span = trace.getSpan(current);
    const isEnded = span?.isRecording() === false && (span.spanContext().traceFlags & TraceFlags.SAMPLED) > 0;
    return span === undefined || isEnded ? undefined : current;
  }

  function fail(span: Span, type: string): void {
    span.setAttribute("error.type", type);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }

  /** Adds work that has just ended as a span of the running request. */
  function add(
    name: string,
    details: {
      readonly kind: SpanKind;
      readonly seconds: number;
      readonly attributes: Attributes;
      readonly failure?: string | undefined;
    },
  ): void {
    const parent = running();
    if (parent === undefined) return;
    const { kind, seconds, attributes, failure } = details;
    const end = nowMs();
    const span = tracer.startSpan(name, { kind, attributes, startTime: end - seconds * 1000 }, parent);
    if (failure !== undefined) fail(span, failure);
    span.end(end);
  }

  return {
    request(method, traceparent, isTrusted) {
      const known = METHODS.has(method) ? method : "_OTHER";
      const sent = readTraceparent(traceparent);
      const ofHost = running();
      const parent =
        ofHost ?? (isTrusted && sent !== undefined ? trace.setSpanContext(ROOT_CONTEXT, sent) : ROOT_CONTEXT);
      const span = tracer.startSpan(
        known,
        {
          kind: SERVER,
          attributes: { "http.request.method": known },
          ...(sent !== undefined && !isTrusted && { links: [{ context: sent }] }),
        },
        parent,
      );
      const inside = trace.setSpan(parent, span);
      const own = span.spanContext();
      return {
        traceId: isSpanContextValid(own) ? own.traceId : undefined,
        run: (work) => context.with(inside, work),
        end({ template, status, isAborted }) {
          span.updateName(`${known === "_OTHER" ? "HTTP" : known} ${template}`);
          span.setAttributes({ "http.route": template, "http.response.status_code": status });
          if (status >= 500) fail(span, String(status));
          else if (isAborted) span.setAttribute("error.type", "aborted");
          span.end();
        },
      };
    },
    storeCall: ({ system, store, operation, result, seconds }) =>
      add(`${operation} ${store}`, {
        kind: CLIENT,
        seconds,
        attributes: {
          "db.system.name": system,
          "db.namespace": store,
          "db.operation.name": operation,
          // Normal: somebody else was first.
          ...(result === "conflict" && { "error.type": "condition_failed" }),
        },
        ...(result === "failure" && { failure: "storage_unavailable" }),
      }),
    hashed: ({ priority, waited, seconds }) =>
      add("hash password", {
        kind: INTERNAL,
        seconds: waited + (seconds ?? 0),
        attributes: { "sign_in.hashing.priority": priority, "sign_in.hashing.waited": waited },
        ...(seconds === undefined && { failure: "refused" }),
      }),
    async sent({ whom, method, url }, send) {
      const parent = running();
      if (parent === undefined) return send();
      const { hostname, port } = url === undefined ? { hostname: undefined, port: "" } : new URL(url);
      const attributes = {
        "http.request.method": method,
        "sign_in.whom": whom,
        ...(hostname !== undefined && { "server.address": hostname }),
        ...(port !== "" && { "server.port": Number(port) }),
      };
      const span = tracer.startSpan(`${method} ${whom}`, { kind: CLIENT, attributes }, parent);
      try {
        const response = await send();
        span.setAttribute("http.response.status_code", response.status);
        if (response.status >= 400) fail(span, String(response.status));
        return response;
      } catch (error) {
        fail(span, codeOf(error));
        throw error;
      } finally {
        span.end();
      }
    },
    delivery(host, port) {
      const attributes = {
        "http.request.method": "POST",
        "server.address": host,
        ...(port !== "" && { "server.port": Number(port) }),
      };
      const span = tracer.startSpan("POST", { kind: CLIENT, root: true, attributes });
      const own = span.spanContext();
      const flags = own.traceFlags.toString(16).padStart(2, "0");
      return {
        traceparent: isSpanContextValid(own) ? `00-${own.traceId}-${own.spanId}-${flags}` : undefined,
        end({ status, code }) {
          if (status !== undefined) span.setAttribute("http.response.status_code", status);
          const type = code ?? (status !== undefined && (status < 200 || status > 299) && String(status));
          if (type !== false) fail(span, type);
          span.end();
        },
      };
    },
    counted(metric, own) {
      const counter = meter.createCounter(fullName(metric), settings(metric));
      return {
        inc(labels, value = 1) {
          own.inc(labels, value);
          counter.add(value, labels);
        },
      };
    },
    timed(metric, own) {
      const advice = { explicitBucketBoundaries: [...(metric.buckets ?? [])] };
      const histogram = meter.createHistogram(fullName(metric), { ...settings(metric), advice });
      return {
        observe(labels, value) {
          own.observe(labels, value);
          histogram.record(value, labels);
        },
        zero: (labels) => own.zero(labels),
      };
    },
    read(metric, read) {
      const gauge =
        metric.type === "counter"
          ? meter.createObservableCounter(fullName(metric), settings(metric))
          : meter.createObservableGauge(fullName(metric), settings(metric));
      const observe: Parameters<typeof gauge.addCallback>[0] = async (result) => {
        for (const [value, labels = {}] of await read()) result.observe(value, labels);
      };
      gauge.addCallback(observe);
      return () => gauge.removeCallback(observe);
    },
  };
}
