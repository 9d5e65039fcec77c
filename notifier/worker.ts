/** The worker as a process of its own: it delivers what app processes on the same storage stored. */
import { announceProcess } from "../records/formats/processes.ts";
import { watchHistory } from "../records/storage-identity.ts";
import { createStorageServices } from "../records/services.ts";
import { openStorage } from "../records/storage.ts";
import { MAIL_KINDS } from "../records/people/mail-kinds.ts";
import { documentHosts } from "../config/clients.ts";
import { processInfo } from "../config/process-info.ts";
import type { SignInServiceConfig } from "../config/input.ts";
import type { Configuration } from "../config/configuration.ts";
import { readConfiguration } from "../config/read.ts";
import { isInMemory } from "../config/storage-address.ts";
import { ConfigurationError } from "../core/errors.ts";
import type { ServiceEmitter } from "../core/events.ts";
import { type Health, storageHealth } from "../records/health.ts";
import { createLogger, droppedLines } from "../core/logger.ts";
import { createMetrics, type MeasuredProcess } from "../core/metrics.ts";
import { startHashWrapping } from "../accounts/passwords/hash-wrapping.ts";
import { openSealer } from "../accounts/keys/service-keys.ts";
import type { Notifications } from "./operations.ts";
import { createNotifier } from "./notifier.ts";

/** A running worker; see `createNotificationWorker`. */
export interface NotificationWorker {
  readonly notifications: Notifications;
  /** Events of deliveries and receivers: for logs and metrics. */
  readonly events: ServiceEmitter;
  /** Each part with `ok`, latency in milliseconds and detail. */
  health(): Promise<Health>;
  /** Prometheus text. */
  metrics(): Promise<string>;
  /** Finishes running deliveries (30 s at most) or hands them back, and closes the storage. Safe to call twice. */
  close(): Promise<void>;
}

/** How long running deliveries may take when the worker closes. */
const DELIVERIES_DRAIN_MS = 30_000;

/** Documented in `start-worker.ts`, which loads this module. */
export async function createNotificationWorker(config: SignInServiceConfig): Promise<NotificationWorker> {
  return startWorker(readConfiguration(config));
}

/**
 * {@link createNotificationWorker} for a configuration that has been read.
 * @param through as for `openStorage`.
 */
export async function startWorker(
  configuration: Configuration,
  through?: Parameters<typeof openStorage>[2],
): Promise<NotificationWorker> {
  if (isInMemory(configuration.storage)) {
    throw new ConfigurationError([
      "config.storage: a separate worker needs a storage that other processes can open, not one in memory",
    ]);
  }
  const logger = configuration.logger ?? createLogger();
  // The worker needs no codes, tokens or sessions, so it opens no second store for them.
  const storage = await openStorage(
    { ...configuration, artifacts: configuration.storage },
    (text, warning) => logger.warn({ warning }, text),
    through,
  );
  const open = new AsyncDisposableStack();
  open.defer(() => storage.close());
  try {
    const sealer = await openSealer(configuration, storage);
    const delivering = { ...configuration, notifications: { ...configuration.notifications, worker: true } };
    const telemetry = configuration.telemetry
      ? await (await import("../core/telemetry.ts")).openTelemetry((text) => logger.warn(text))
      : undefined;
    const services = createStorageServices({
      configuration: delivering,
      storage,
      sealer,
      logger,
      telemetry,
    });
    const { events, audit, outages } = services;
    const notifier = await createNotifier(services, { keepAlive: true });
    // If the start fails, it may have opened a connection to the queue.
    open.defer(() => notifier.stop(0));
    const history = await watchHistory(
      storage.watch,
      outages("looking whether the storage has gone back"),
      ({ what, fix }) => logger.error(`${what}: ${fix}`),
    );
    const announced = await announceProcess(storage.records, "worker", outages("announcing this process"));
    const wrapping = startHashWrapping(services);
    // At once: nothing more is claimed.
    open.defer(
      async () =>
        void (await Promise.all([
          notifier.stop(DELIVERIES_DRAIN_MS),
          history.stop(),
          announced.stop(),
          wrapping.stop(),
        ])),
    );
    const measured: MeasuredProcess = {
      info: processInfo(configuration, "worker", sealer),
      droppedLines: () => droppedLines(logger),
      lostAudit: () => audit.lost(),
      isQueueUp: () => notifier.isUp(),
      signingKeys: async () => [],
      tokensEnding: async () => undefined,
      known: {
        endpoints: [],
        limits: [],
        mails: MAIL_KINDS,
        providers: [],
        documentHosts: documentHosts(configuration.clients.metadataDocuments),
      },
    };
    const metrics = createMetrics(events, storage, measured, undefined, telemetry);
    open.defer(() => metrics.close());
    notifier.start();
    let closing: Promise<void> | undefined;
    return {
      notifications: notifier.notifications,
      events,
      health: () => storageHealth(storage, notifier.health("worker")),
      metrics: () => metrics.text(),
      close: () => (closing ??= open.disposeAsync()),
    };
  } catch (error) {
    await open.disposeAsync();
    throw error;
  }
}
