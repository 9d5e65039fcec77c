/** An OpenTelemetry SDK that keeps what it gets: in a test, the global one of its file. */
import { context, metrics, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  type MetricData,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace";

export interface RecordedTelemetry {
  /** The spans that have ended. */
  spans(): readonly ReadableSpan[];
  /** All metrics as they are now. */
  metrics(): Promise<readonly MetricData[]>;
  close(): Promise<void>;
}

export function recordTelemetry(): RecordedTelemetry {
  const spans = new InMemorySpanExporter();
  const tracers = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: spans })] });
  const values = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const meters = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter: values })] });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(tracers);
  metrics.setGlobalMeterProvider(meters);
  return {
    spans: () => spans.getFinishedSpans(),
    async metrics() {
      values.reset();
      await meters.forceFlush();
      return values
        .getMetrics()
        .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
    },
    async close() {
      for (const api of [context, trace, metrics]) api.disable();
      await Promise.all([tracers.shutdown(), meters.shutdown()]);
    },
  };
}

/** Everything that leaves the process with a span, as text. */
export function textOf({
  name,
  attributes,
  links,
  events,
  status,
  resource,
  instrumentationScope,
}: ReadableSpan): string {
  return JSON.stringify([name, attributes, links, events, status, resource.attributes, instrumentationScope]);
}
