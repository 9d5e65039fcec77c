/** Combines everything that is sent in the background: notifications, with their public calls, and mail. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { AskedHealth, AskedPart } from "../records/health.ts";
import { countText, HELD_SINCE, RESTORED } from "../records/deliveries/delivery.ts";
import type { StorageServices } from "../records/services.ts";
import { LaneWorker } from "./sending/lane-worker.ts";
import { createNotifications } from "./notifications.ts";
import type { Notifications } from "./operations.ts";
import type { ReceiverReport } from "./receiver-operations.ts";
import { MailSender } from "./mail/sender.ts";
import { configuredMailer } from "./mail/transport.ts";
import { LOOKING, Poller, type Scheduler } from "./poller.ts";
import { logReceivers } from "./receivers.ts";
import { createNotifierServices } from "./services.ts";
import { createUpkeep } from "./upkeep.ts";

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
  const failing = active.filter(({ circuit_open_until }) => circuit_open_until !== null);
  return {
    ok: active.length === 0 || failing.length < active.length,
    detail: named("circuit open", failing).join(""),
  };
}

function named(what: string, reports: readonly ReceiverReport[]): string[] {
  return reports.length === 0 ? [] : [`${what}: ${reports.map(({ receiver }) => receiver).join(", ")}`];
}

/** Tells operators that a restored service does not yet send what waited. */
async function tellHeld({
  storage: { deliveries, outbox },
  onWarning,
}: Pick<StorageServices, "storage" | "onWarning">): Promise<void> {
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

/**
 * @param process.keepAlive whether the worker keeps the process alive, for a process that does nothing else. Default: `false`.
 * @param process.opensQueue when a queue in Redis is opened, which writes to it: `when needed` is for a process that may have
 * nothing to deliver. Default `at once`, so that the start fails if it can't be used.
 * @throws StorageUnavailable when the Redis of `config.queue` can't be used.
 */
export async function createNotifier(
  given: StorageServices,
  {
    keepAlive = false,
    opensQueue = "at once",
  }: { readonly keepAlive?: boolean; readonly opensQueue?: "at once" | "when needed" } = {},
): Promise<Notifier> {
  const { configuration, storage, outages, onDefect } = given;
  const { notifications: settings, queue } = configuration;
  const services = createNotifierServices(given);
  logReceivers(services);
  const owner = `${hostname()} ${process.pid} ${randomBytes(4).toString("hex")}`;
  const worker = new LaneWorker(services, owner);

  async function openScheduler(): Promise<Scheduler> {
    if (queue === "embedded") return new Poller(services, { worker, keepAlive, outage: outages(LOOKING) });
    // Loaded only when it is chosen.
    const { openBullScheduler } = await import("./bullmq/scheduler.ts");
    return openBullScheduler(services, { worker });
  }

  if (settings.worker) await tellHeld(given);
  const scheduler =
    opensQueue === "at once" ? await openScheduler() : new OpenedWhenNeeded(openScheduler, onDefect);
  const wake = (): void => scheduler.wake();
  const upkeep = createUpkeep(services, wake);
  const mailer = configuredMailer(configuration);
  const mail = mailer && new MailSender(services, mailer);
  const onMail = (): void => mail?.wake();
  const notifications = createNotifications(services, { deliveries: wake, mail: onMail });
  let stopping: Promise<void> | undefined;

  async function stop(grace: number): Promise<void> {
    await Promise.all([worker.stop(grace), scheduler.stop(), upkeep.stop(), mail?.stop(grace)]);
    // Hands back what the scheduler claimed in the meantime.
    await worker.stop(grace);
    await scheduler.close();
    services.deliverer.close();
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
      const reports = services.receivers.report();
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
