/** Metrics for Prometheus: counted from the events, measured by the parts that take time, and read from the storage. */
import type { Counter, Gauge, Registry } from "prom-client";
import type { Clock } from "./clock.ts";
import { monotonic } from "./clock.ts";
import {
  BACKCHANNEL_FAILURES,
  PROVIDER_FAULTS,
  type ServiceEmitter,
  type ServiceEvent,
  type ServiceEvents,
} from "./events.ts";
import {
  ADMINISTRATION_STATUSES,
  ADMINISTRATION_SURFACES,
  type CounterName,
  COUNTERS,
  DOCUMENT_RESULTS,
  type GaugeName,
  GAUGES,
  GRANT_TYPES,
  type HistogramName,
  HISTOGRAMS,
  type MetricDeclaration,
  OTHER,
  RELOADS,
  SIGN_IN_RESULTS,
  STORE_OPERATIONS,
  TOKEN_ERRORS,
} from "./metric-catalog.ts";
import type { Counted, Telemetry, Timed } from "./telemetry.ts";
import { within } from "./with-timeout.ts";

/** A request that was answered. */
export interface RequestTiming {
  /** A name of the table of endpoints. */
  readonly endpoint: string;
  readonly status: number;
  /** Since its last byte arrived. */
  readonly seconds: number;
}

/** A finished call to a store. */
export interface StoreCall {
  readonly store: "storage" | "artifacts";
  readonly operation: (typeof STORE_OPERATIONS)[number];
  /** `conflict`: the condition of a commit did not hold, which is normal. */
  readonly result: "success" | "conflict" | "failure";
  readonly seconds: number;
}

/** A password that was hashed or compared, or refused because too much was waiting. */
export interface HashTiming {
  readonly priority: "interactive" | "background";
  /** Seconds that it waited, until it was started or refused. */
  readonly waited: number;
  /** `undefined`: refused. */
  readonly seconds: number | undefined;
}

export interface Metrics {
  /** The text exposition format. */
  text(): Promise<string>;
  request(timing: RequestTiming): void;
  hashing(timing: HashTiming): void;
  /** Ends the readings for OpenTelemetry. */
  close(): void;
}

/** The waiting and parked deliveries of one receiver. */
export interface Backlog {
  readonly receiver: string;
  readonly waiting: number;
  readonly parked: number;
  /** When the oldest waiting one was stored, in milliseconds since the epoch. */
  readonly oldest: number | null;
}

/** The mail that waits to be sent. */
interface MailBacklog {
  readonly count: number;
  /** When the oldest was stored, in milliseconds since the epoch; `undefined` if none waits. */
  readonly oldest: number | undefined;
}

/** The part of the storage that is measured, and that the gauges read. */
export interface MeasuredStorage {
  readonly deliveries: {
    counts(): Promise<readonly Backlog[]>;
    receivers(): Promise<
      ReadonlyMap<string, { readonly paused: boolean; readonly circuitOpenUntil: number | null }>
    >;
    oldestDeletions(): Promise<Readonly<Record<"waiting" | "parked", number | undefined>>>;
  };
  readonly outbox: { waiting(): Promise<MailBacklog> };
  /** By store: how many milliseconds its clock is ahead of that of this process. */
  readonly clocks: { readonly differences: ReadonlyMap<string, number> };
  /** When the store of artifacts has lost everything, in seconds since the epoch; `undefined`: never. */
  readonly watch: { readonly artifactsLostAt: number | undefined };
  /** The connections of each store that has a pool. */
  readonly pools: () => readonly {
    readonly store: string;
    readonly used: number;
    readonly waiting: number;
  }[];
  /** Registers the one listener, which is called after each call to a store. */
  measure(listener: (call: StoreCall) => void): void;
}

/** What the process knows besides its storage. */
export interface MeasuredProcess {
  /** How many lines of the log were lost. */
  readonly droppedLines: () => number;
  /** How many audit records were lost. */
  readonly lostAudit: () => number;
  /** Labels of `sign_in_process_info`. */
  readonly info: Readonly<Record<string, string>>;
  /** Whether the queue of deliveries can be used. */
  readonly isQueueUp: () => boolean;
  /** The keys that sign now: their algorithms, and when they were made, in seconds since the epoch. */
  readonly signingKeys: () => Promise<readonly { readonly alg: string; readonly created_at: number }[]>;
  /** How many administration tokens run out within 7 days; `undefined`: this process does not read them. */
  readonly tokensEnding: () => Promise<number | undefined>;
  /** The values of labels whose series exist from the start. */
  readonly known: {
    readonly endpoints: readonly string[];
    readonly limits: readonly string[];
    readonly mails: readonly string[];
    readonly providers: readonly string[];
    readonly documentHosts: readonly string[];
  };
}

type Measured = Readonly<Record<CounterName, Counted> & Record<HistogramName, Timed>>;

interface Loaded {
  readonly registry: Registry;
  readonly measured: Measured;
  /** Ends the readings for OpenTelemetry. */
  readonly endReadings: () => void;
}

/** One value of a gauge, with its labels. */
type Reading = readonly [value: number, labels?: Readonly<Record<string, string>> | undefined];

/** How long a value from the storage is reused, and how long to wait for a new one. */
const CACHE_MS = 1_000;
const READ_TIMEOUT_MS = 2_000;

/** Reads at most once a second, however many gauges and scrapes ask. `undefined` if the storage does not answer. */
function recently<T>(read: () => Promise<T>, clock: Clock): () => Promise<T | undefined> {
  let readAt = -Infinity;
  let latest: Promise<T | undefined> = Promise.resolve(undefined);
  return () => {
    const now = clock.now();
    if (now - readAt < CACHE_MS) return latest;
    readAt = now;
    latest = within(READ_TIMEOUT_MS, read(), () => undefined).catch(() => undefined);
    return latest;
  };
}

/** A time as Prometheus expects it. */
function time(
  timeMs: number | null | undefined,
  labels?: Readonly<Record<string, string>>,
): readonly Reading[] {
  return typeof timeMs === "number" ? [[timeMs / 1000, labels]] : [];
}

/** What each gauge shows. Without a value it shows nothing: an old value would look current. */
function readings(
  { deliveries, outbox, clocks, watch, pools }: MeasuredStorage,
  { droppedLines, lostAudit, info, isQueueUp, signingKeys, tokensEnding }: MeasuredProcess,
  clock: Clock,
): Readonly<Record<GaugeName, () => Promise<readonly Reading[]>>> {
  const backlog = recently(() => deliveries.counts(), clock);
  const receivers = recently(() => deliveries.receivers(), clock);
  const deletions = recently(() => deliveries.oldestDeletions(), clock);
  const mail = recently(() => outbox.waiting(), clock);
  const keys = recently(signingKeys, clock);
  const ending = recently(tokensEnding, clock);
  return {
    deliveries: async () =>
      ((await backlog()) ?? []).flatMap(({ receiver, waiting, parked }): Reading[] => [
        [waiting, { receiver, state: "waiting" }],
        [parked, { receiver, state: "parked" }],
      ]),
    oldestDelivery: async () =>
      ((await backlog()) ?? []).flatMap(({ receiver, oldest }) => time(oldest, { receiver })),
    oldestDeletion: async () =>
      Object.entries((await deletions()) ?? {}).flatMap(([state, oldest]) => time(oldest, { state })),
    async stopped() {
      const known = [...((await receivers()) ?? [])];
      const inState = (state: string, names: typeof known): Reading[] =>
        names.map(([receiver]) => [1, { receiver, state }]);
      return [
        ...inState(
          "paused",
          known.filter(([, { paused }]) => paused),
        ),
        ...inState(
          "circuit_open",
          known.filter(([, { circuitOpenUntil }]) => circuitOpenUntil !== null),
        ),
      ];
    },
    async outbox() {
      const waiting = await mail();
      return waiting === undefined ? [] : [[waiting.count]];
    },
    oldestMail: async () => time((await mail())?.oldest),
    clocks: async () =>
      [...clocks.differences].map(([store, differenceMs]): Reading => [differenceMs / 1000, { store }]),
    artifactsLost: async () => [[watch.artifactsLostAt ?? 0]],
    droppedLines: async () => [[droppedLines()]],
    lostAudit: async () => [[lostAudit()]],
    info: async () => [[1, info]],
    pool: async () =>
      pools().flatMap(({ store, used, waiting }): Reading[] => [
        [used, { store, state: "used" }],
        [waiting, { store, state: "waiting" }],
      ]),
    queue: async () => [[isQueueUp() ? 1 : 0]],
    signingKeys: async () =>
      ((await keys()) ?? []).map(({ alg, created_at }): Reading => [created_at, { alg }]),
    async tokensEnding() {
      const number = await ending();
      return number === undefined ? [] : [[number]];
    },
  };
}

/** Each service has its own registry, so two services in one process do not mix their numbers. */
async function load(
  storage: MeasuredStorage,
  process: MeasuredProcess,
  clock: Clock,
  telemetry: Telemetry | undefined,
): Promise<Loaded> {
  const client = await import("prom-client");
  const registry = new client.Registry();
  const settings = ({ name, help, labels }: MetricDeclaration) => ({
    name: `sign_in_${name}`,
    help,
    labelNames: Object.keys(labels),
    registers: [registry],
  });
  const measured = Object.fromEntries(
    Object.entries<MetricDeclaration>({ ...COUNTERS, ...HISTOGRAMS }).map(([key, metric]) => {
      if (metric.buckets === undefined) {
        const counter: Counted = new client.Counter(settings(metric));
        return [key, telemetry?.counted(metric, counter) ?? counter];
      }
      const timer: Timed = new client.Histogram({ ...settings(metric), buckets: [...metric.buckets] });
      return [key, telemetry?.timed(metric, timer) ?? timer];
    }),
  ) as Measured;
  const reading = readings(storage, process, clock);
  for (const [key, metric] of Object.entries(GAUGES)) {
    const kind = metric.type === "counter" ? client.Counter : client.Gauge;
    const read: Counter | Gauge = new kind({
      ...settings(metric),
      async collect() {
        const current = await reading[key as GaugeName]();
        read.reset();
        // `reset` leaves a zero in a metric without labels.
        if (Object.keys(metric.labels).length === 0) read.remove();
        for (const [value, labels = {}] of current) read.inc(labels, value);
      },
    });
  }
  startAtZero(measured, process.known);
  const ends =
    telemetry === undefined
      ? []
      : Object.entries(GAUGES).map(([key, metric]) => telemetry.read(metric, reading[key as GaugeName]));
  return { registry, measured, endReadings: () => ends.forEach((end) => end()) };
}

/** `rate()` misses the first increment of a counter that was not there before: an outage would be invisible. */
function startAtZero(
  {
    signIns,
    tokens,
    refused,
    logouts,
    requests,
    storage,
    mails,
    faults,
    limited,
    administration,
    providersStarted,
    providersFinished,
    providersFailed,
    documents,
  }: Measured,
  { endpoints, limits, mails: kinds, providers, documentHosts }: MeasuredProcess["known"],
): void {
  for (const result of SIGN_IN_RESULTS) signIns.inc({ result }, 0);
  for (const grant_type of GRANT_TYPES) tokens.inc({ grant_type }, 0);
  for (const grant_type of [...GRANT_TYPES, OTHER])
    for (const error of TOKEN_ERRORS) refused.inc({ error, grant_type }, 0);
  logouts.inc({ result: "delivered" }, 0);
  for (const reason of BACKCHANNEL_FAILURES) logouts.inc({ result: "failed", reason }, 0);
  for (const endpoint of endpoints) {
    requests.zero({ endpoint, status: "5xx" });
    faults.inc({ where: endpoint }, 0);
  }
  for (const store of ["storage", "artifacts"])
    for (const operation of STORE_OPERATIONS) storage.zero({ store, operation, result: "failure" });
  for (const kind of kinds) mails.inc({ kind, result: "failed" }, 0);
  for (const limit of limits) limited.inc({ limit }, 0);
  for (const surface of ADMINISTRATION_SURFACES)
    for (const status of ADMINISTRATION_STATUSES) administration.inc({ surface, status }, 0);
  for (const provider of providers) {
    providersStarted.inc({ provider }, 0);
    providersFinished.inc({ provider }, 0);
    for (const reason of PROVIDER_FAULTS) providersFailed.inc({ provider, reason }, 0);
  }
  for (const host of documentHosts.length > 0 ? [...documentHosts, OTHER] : [])
    for (const result of DOCUMENT_RESULTS) documents.inc({ host, result }, 0);
}

/** The status if it has a value of its own, or else its class. */
function administrationStatus(status: number): string {
  const own = ADMINISTRATION_STATUSES.find((each) => each === String(status));
  return own ?? `${Math.floor(status / 100)}xx`;
}

/** The value if it is one of the list. A label never holds text from outside. */
function among(values: readonly string[], value: string | undefined): string {
  return value !== undefined && values.includes(value) ? value : OTHER;
}

/**
 * Counts the events, which are emitted after the commit. prom-client is loaded with the first event, request or reading:
 * an idle service does without it, and the first response does not wait for it. Calls to a store and to hashing are
 * measured from then on.
 * @param clock for the age of what was read; default: monotonic.
 * @param telemetry gets all of it as well, and spans of the calls. Default: nothing does.
 */
export function createMetrics(
  events: ServiceEmitter,
  storage: MeasuredStorage,
  process: MeasuredProcess,
  clock: Clock = monotonic,
  telemetry?: Telemetry,
): Metrics {
  let loading: Promise<Loaded> | undefined;
  let measured: Measured | undefined;
  const loaded = (): Promise<Loaded> =>
    (loading ??= load(storage, process, clock, telemetry).then((all) => {
      ({ measured } = all);
      return all;
    }));
  const whenLoaded = (use: (metrics: Measured) => void): void => {
    if (measured !== undefined) use(measured);
    else void loaded().then((all) => use(all.measured));
  };
  function count<E extends ServiceEvent>(
    event: E,
    increment: (metrics: Measured, argument: ServiceEvents[E]) => void,
  ): void {
    events.on(event, (argument) => whenLoaded((metrics) => increment(metrics, argument)));
  }
  count("delivery.succeeded", ({ attempts }, { receiver }) => attempts.inc({ receiver, result: "success" }));
  count("delivery.failed", ({ attempts }, { receiver }) => attempts.inc({ receiver, result: "failure" }));
  count("delivery.dropped", ({ dropped }, { receiver, reason, number }) =>
    dropped.inc({ receiver, reason }, number),
  );
  count("delivery.parked", ({ parked }, { receiver, reason }) => parked.inc({ receiver, reason }));
  count("receiver.removed", ({ parked }, { receiver, parked: deliveries }) =>
    parked.inc({ receiver, reason: "receiver_removed" }, deliveries),
  );
  count("sign_in.success", ({ signIns }) => signIns.inc({ result: "success" }));
  count("sign_in.failure", ({ signIns }, { reason }) => signIns.inc({ result: reason }));
  count("tokens.issued", ({ tokens }, { grant_type, kind }) => tokens.inc({ grant_type, kind }));
  count("tokens.refused", ({ refused }, { error, grant_type }) =>
    refused.inc({ error: among(TOKEN_ERRORS, error), grant_type: among(GRANT_TYPES, grant_type) }),
  );
  count("code.issued", ({ codes }) => codes.inc({}));
  count("token.revoked", ({ revoked }) => revoked.inc({}));
  count("backchannel.delivered", ({ logouts }) => logouts.inc({ result: "delivered" }));
  count("backchannel.failed", ({ logouts }, { reason }) => logouts.inc({ result: "failed", reason }));
  count("mail.sent", ({ mails }, { kind }) => mails.inc({ kind, result: "sent" }));
  count("mail.failed", ({ mails }, { kind, retry_at }) =>
    mails.inc({ kind, result: retry_at === null ? "failed" : "retried" }),
  );
  count("account.changed", ({ changes }, { action }) => changes.inc({ action }));
  count("fault", ({ faults }, { where }) => faults.inc({ where }));
  count("limit.refused", ({ limited }, { limit }) => limited.inc({ limit }));
  count("administration.answered", ({ administration }, { surface, status }) =>
    administration.inc({ surface, status: administrationStatus(status) }),
  );
  count("provider.started", ({ providersStarted }, { provider }) => providersStarted.inc({ provider }));
  count("provider.finished", ({ providersFinished, providers }, { provider, seconds }) => {
    providersFinished.inc({ provider });
    providers.observe({ provider, result: "success" }, seconds);
  });
  count("provider.failed", ({ providersFailed, providers }, { provider, reason, seconds }) => {
    providersFailed.inc({ provider, reason });
    if (reason !== "cancelled") providers.observe({ provider, result: "failure" }, seconds);
  });
  count("document.fetched", ({ documents }, { host, result }) =>
    documents.inc({ host: among(process.known.documentHosts, host), result }),
  );
  storage.measure((call) => {
    const { store, operation, result, seconds } = call;
    measured?.storage.observe({ store, operation, result }, seconds);
    telemetry?.storeCall({ ...call, system: process.info[store] ?? "other" });
  });
  // Its readings begin with the service, not with the first event.
  if (telemetry !== undefined) void loaded();
  return {
    async text() {
      const registries = await Promise.all([loaded().then(({ registry }) => registry), processMetrics()]);
      const texts = await Promise.all(registries.map((registry) => registry.metrics()));
      return texts.join("\n");
    },
    request: ({ endpoint, status, seconds }) =>
      whenLoaded(({ requests }) =>
        requests.observe({ endpoint, status: `${Math.floor(status / 100)}xx` }, seconds),
      ),
    hashing({ priority, waited, seconds }) {
      measured?.hashingWait.observe({ priority }, waited);
      if (seconds === undefined) measured?.hashingRefused.inc({});
      else measured?.hashing.observe({ priority }, seconds);
      telemetry?.hashed({ priority, waited, seconds });
    },
    close: () => void loading?.then(({ endReadings }) => endReadings()),
  };
}

/** Created for the first caller and shared by all. */
function once<T extends object>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

const loadProcessMetrics = once(async () => {
  const { collectDefaultMetrics, Counter: ProcessCounter, Registry } = await import("prom-client");
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const { name, help, labels } = RELOADS;
  const reloads = new ProcessCounter({
    name: `sign_in_${name}`,
    help,
    labelNames: Object.keys(labels),
    registers: [registry],
  });
  for (const result of ["reloaded", "refused"]) reloads.inc({ result }, 0);
  return { registry, reloads };
});

/**
 * The metrics of the process: those of Node.js, `process_…` and `nodejs_…`, and reloads. All services in a process share
 * them, even those that replace each other when the configuration is reloaded: prom-client measures the event loop with a
 * timer that never ends.
 */
export const processMetrics: () => Promise<Registry> = once(
  async () => (await loadProcessMetrics()).registry,
);

/** Counts a reload of the configuration. */
export async function countReload(result: "reloaded" | "refused"): Promise<void> {
  (await loadProcessMetrics()).reloads.inc({ result });
}
