/** Combines everything that is sent in the background: notifications, with their public calls, and mail. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { Logger } from "pino";
import type { AskedHealth, AskedPart } from "../records/health.ts";
import type { Storage } from "../records/storage.ts";
import type { Configuration } from "../config/configuration.ts";
import { countText, HELD_SINCE, RESTORED } from "../records/deliveries/delivery.ts";
import type { ServiceEmitter } from "../core/events.ts";
import type { Outage } from "../core/outages.ts";
import type { Sealer } from "../core/sealing.ts";
import { CircuitBreaker, logReceivers } from "./sending/breaker.ts";
import { createDeliverer } from "./sending/deliver.ts";
import { LaneWorker } from "./sending/lane-worker.ts";
import { createNotifications, type Notifications } from "./notifications.ts";
import { MailSender } from "./mail/sender.ts";
import { configuredMailer } from "./mail/transport.ts";
import { Poller } from "./poller.ts";
import { type ReceiverReport, Receivers } from "./receivers.ts";
import type { Scheduler } from "./poller.ts";
import { createUpkeep } from "./upkeep.ts";

export interface NotifierOptions {
  readonly configuration: Pick<
    Configuration,
    "notifications" | "clock" | "queue" | "deployments" | "interactions" | "mail" | "mailer"
  >;
  readonly storage: Pick<Storage, "directory" | "deliveries" | "outbox" | "audit" | "now">;
  readonly sealer: Sealer;
  readonly events: ServiceEmitter;
  /** Whether the worker keeps the process alive because the process does nothing else; default `false`. */
  readonly keepAlive?: boolean;
  /**
   * When a queue in Redis is opened, which writes to it: `when needed` is for a process that may have nothing to
   * deliver. Default `at once`, so that the start fails if it can't be used.
   */
  readonly opensQueue?: "at once" | "when needed";
  /** Opens the outage log of a background job, by its name. */
  readonly outages: (work: string) => Outage;
  /** Called with unexpected errors. */
  readonly onFault: (error: unknown) => void;
  /** For problems that an operator should fix, without secrets. */
  readonly logger: Pick<Logger, "warn">;
}

export interface Notifier {
  readonly notifications: Notifications;
  /** Delivers what was just stored without waiting for the next poll. */
  wake(): void;
  /** Sends mail that was just stored without waiting for the next poll. */
  wakeMail(): void;
  /** Starts the worker if `notifications.worker` says so. */
  start(): void;
  /**
   * The parts of the health. `notifications`: whether the last poll of the storage, and of Redis if it is the queue, succeeded; also known
   * without a worker in this process. Only in a process that sends: `receivers`, whether one of them works, and `mail`, whether the
   * mail server took the last mail.
   * @param role a worker can't do its role without them.
   */
  health(role: "server" | "worker"): Readonly<Record<string, AskedPart>>;
  /** Whether the queue can be used. */
  isUp(): boolean;
  /** Finishes running attempts, or hands them back after `grace` milliseconds; closes connections. Safe to call twice. */
  stop(grace: number): Promise<void>;
}

function detailOf(reports: readonly ReceiverReport[], heldMails: number): string {
  const sum = (key: "waiting" | "parked"): string => countText(reports.map((each) => each[key]));
  const paused = reports.filter((each) => each.paused);
  const held = paused.filter(({ reason }) => reason === RESTORED);
  const parts = [
    `${sum("waiting")} waiting, ${sum("parked")} parked`,
    ...named(
      "paused",
      paused.filter(({ reason }) => reason !== RESTORED),
    ),
    ...named(HELD_SINCE, held),
    ...(heldMails === 0 ? [] : [`mails ${HELD_SINCE}: ${heldMails}`]),
  ];
  return parts.join("; ");
}

/** One that an operator has paused does not count, and one of several that fails is its own fault. */
function receiversHealth(reports: readonly ReceiverReport[]): AskedHealth {
  const active = reports.filter(({ url, paused }) => url !== null && !paused);
  const failing = active.filter(({ heldUntil }) => heldUntil !== null);
  return {
    ok: active.length === 0 || failing.length < active.length,
    detail: named("held", failing).join(""),
  };
}

function named(what: string, reports: readonly ReceiverReport[]): string[] {
  return reports.length === 0 ? [] : [`${what}: ${reports.map(({ receiver }) => receiver).join(", ")}`];
}

/** Tells operators that a restored service does not yet send what waited. */
async function tellHeld(
  { deliveries, outbox }: Pick<Storage, "deliveries" | "outbox">,
  onWarning: (text: string) => void,
): Promise<void> {
  const [receivers, mails] = await Promise.all([deliveries.receivers(), outbox.held()]);
  if (mails === 0 && ![...receivers.values()].some(({ reason }) => reason === RESTORED)) return;
  onWarning(
    `notifications and mail are ${HELD_SINCE}: look at them, then run sign-in-service deliveries resume`,
  );
}

/** Opens a scheduler at the first call that needs one. */
class OpenedWhenNeeded implements Scheduler {
  readonly ok = true;
  readonly queueProblem: undefined;
  readonly #open: () => Promise<Scheduler>;
  readonly #onFault: (error: unknown) => void;
  #opening: Promise<Scheduler | undefined> | undefined;

  constructor(open: () => Promise<Scheduler>, onFault: (error: unknown) => void) {
    this.#open = open;
    this.#onFault = onFault;
  }

  wake(): void {
    void this.#opened().then((scheduler) => scheduler?.wake());
  }

  start(): void {
    void this.#opened().then((scheduler) => scheduler?.start());
  }

  async stop(): Promise<void> {
    await (await this.#opening)?.stop();
  }

  async close(): Promise<void> {
    await (await this.#opening)?.close();
  }

  /** A queue that can't be opened only delays deliveries: the servers poll by themselves. */
  #opened(): Promise<Scheduler | undefined> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#onFault(error);
      return undefined;
    });
    return this.#opening;
  }
}

/** @throws StorageUnavailable when the Redis of `config.queue` can't be used. */
export async function createNotifier({
  configuration,
  storage,
  sealer,
  events,
  keepAlive = false,
  opensQueue = "at once",
  outages,
  onFault,
  logger,
}: NotifierOptions): Promise<Notifier> {
  const { notifications: settings, clock, queue } = configuration;
  const onWarning = (text: string): void => logger.warn(text);
  const { deliveries } = storage;
  const deliverer = createDeliverer({ settings, clock });
  const { attempt } = deliverer;
  const receivers = new Receivers(storage.directory, sealer);
  const breaker = new CircuitBreaker(deliveries, settings.breaker, events, clock);
  logReceivers(events, logger, clock);
  const owner = `${hostname()} ${process.pid} ${randomBytes(4).toString("hex")}`;
  const delivering = { deliveries, receivers, breaker, events, clock };
  const worker = new LaneWorker({ ...delivering, sealer, attempt, settings, owner });

  async function openScheduler(): Promise<Scheduler> {
    const outage = outages("looking for deliveries that are due");
    if (queue === "embedded") return new Poller({ deliveries, worker, clock, settings, keepAlive, outage });
    // Loaded only when it is chosen.
    const { openBullScheduler } = await import("./bullmq/scheduler.ts");
    const queueOutage = outages("using the queue");
    return openBullScheduler({
      url: queue,
      deliveries,
      worker,
      clock,
      settings,
      outage,
      queueOutage,
      onFault,
      onWarning,
    });
  }

  if (settings.worker) await tellHeld(storage, onWarning);
  const scheduler =
    opensQueue === "at once" ? await openScheduler() : new OpenedWhenNeeded(openScheduler, onFault);
  const wake = (): void => scheduler.wake();
  const outage = outages("upkeep of deliveries");
  const upkeep = createUpkeep({
    ...delivering,
    clock: { now: () => storage.now() },
    retention: settings.retention,
    wake,
    outage,
  });
  const mailer = configuredMailer(configuration);
  const mail =
    mailer && new MailSender({ configuration, mailer, outbox: storage.outbox, sealer, events, outages });
  const onMail = (): void => mail?.wake();
  const notifications = createNotifications({ ...delivering, storage, sealer, attempt, wake, onMail });
  let stopping: Promise<void> | undefined;

  async function stop(grace: number): Promise<void> {
    await Promise.all([worker.stop(grace), scheduler.stop(), upkeep.stop(), mail?.stop(grace)]);
    // Hands back what the scheduler claimed in the meantime.
    await worker.stop(grace);
    await scheduler.close();
    deliverer.close();
  }

  return {
    notifications,
    wake,
    wakeMail: onMail,
    start() {
      if (!settings.worker) return;
      scheduler.start();
      upkeep.start();
      mail?.start();
    },
    isUp: () => scheduler.queueProblem === undefined,
    health(role) {
      const required = role === "worker";
      const reports = notifications.receivers();
      // Both parts ask for them.
      reports.catch(() => undefined);
      async function askNotifications(): Promise<AskedHealth> {
        const detail = detailOf(await reports, await storage.outbox.held());
        const { ok, queueProblem } = scheduler;
        return { ok, detail: queueProblem === undefined ? detail : `${queueProblem}; ${detail}` };
      }
      const askReceivers = async (): Promise<AskedHealth> => receiversHealth(await reports);
      return {
        notifications: { required, ask: askNotifications },
        ...(settings.worker && { receivers: { required, ask: askReceivers } }),
        ...(settings.worker && mail !== undefined && { mail: { required, ask: () => mail.health() } }),
      };
    },
    stop: (grace) => (stopping ??= stop(grace)),
  };
}
