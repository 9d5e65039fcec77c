/** Everything that makes up the delivery of notifications, put together. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { DeliveryStore } from "../lib/deliveries/delivery.ts";
import type { Storage } from "../lib/storage.ts";
import type { Configuration } from "../config/configuration.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import type { Outage } from "../lib/outages.ts";
import type { Sealer } from "../lib/sealing.ts";
import { createDeliverer } from "./deliver.ts";
import { createLaneRunner } from "./lane-run.ts";
import { createNotifications, type Notifications } from "./notifications.ts";
import { createPoller, type PollerDeps } from "./poller.ts";
import type { Scheduler } from "./scheduler.ts";
import { createUpkeep } from "./upkeep.ts";

export interface NotifierParts {
  readonly configuration: Pick<Configuration, "notifications" | "clock" | "queue">;
  readonly storage: Pick<Storage, "directory" | "deliveries" | "audit">;
  readonly sealer: Sealer;
  readonly events: ServiceEmitter;
  /** Whether the worker keeps the process alive, as the only thing that it does; default not. */
  readonly keepAlive?: boolean;
  /** Gives the teller of one piece of work in the background. */
  readonly outages: (work: string) => Outage;
  /** Told about errors that nobody expected. */
  readonly onFault: (error: unknown) => void;
  /** Told what an operator should put right, in words without secrets. */
  readonly onWarning: (text: string) => void;
}

/** How the delivery is doing. */
export interface NotifierHealth {
  /** The last look at the storage, and at Redis where it is the queue, succeeded; also without a worker in this process. */
  readonly ok: boolean;
  /** Such as `3 waiting, 1 parked; paused: service:1`. */
  readonly detail: string;
}

export interface Notifier {
  readonly notifications: Notifications;
  /** Something was stored: it need not wait for the next look. */
  wake(): void;
  /** Begins to deliver, if this process is to: `notifications.worker`. */
  start(): void;
  health(): Promise<NotifierHealth>;
  /** Finishes what is in flight, or hands it back after `grace` milliseconds; closes connections. */
  stop(grace: number): Promise<void>;
}

function detailOf(
  reports: readonly { receiver: string; paused: boolean; waiting: number; parked: number }[],
): string {
  const sum = (key: "waiting" | "parked"): number => reports.reduce((all, each) => all + each[key], 0);
  const paused = reports.filter((each) => each.paused).map(({ receiver }) => receiver);
  const counts = `${sum("waiting")} waiting, ${sum("parked")} parked`;
  return paused.length === 0 ? counts : `${counts}; paused: ${paused.join(", ")}`;
}

type SchedulerParts = Pick<NotifierParts, "onFault" | "onWarning"> &
  Omit<PollerDeps, "deliveries"> & { readonly deliveries: DeliveryStore };

/** The one that `config.queue` chooses; a driver's code is loaded when it is chosen. */
async function openScheduler(queue: string, parts: SchedulerParts): Promise<Scheduler> {
  if (queue === "embedded") return createPoller(parts);
  const { openBullScheduler } = await import("./bullmq/open.ts");
  return openBullScheduler({ ...parts, url: queue });
}

/** @throws StorageUnavailable when the Redis of `config.queue` can't be used. */
export async function createNotifier({
  keepAlive = false,
  outages,
  onFault,
  onWarning,
  ...parts
}: NotifierParts): Promise<Notifier> {
  const { sealer, events } = parts;
  const { notifications: settings, clock, queue } = parts.configuration;
  const { directory, deliveries, audit } = parts.storage;
  const deliverer = createDeliverer({ settings, clock });
  const owner = `${hostname()} ${process.pid} ${randomBytes(4).toString("hex")}`;
  const common = { directory, deliveries, sealer, events, clock, settings, attempt: deliverer.attempt };
  const runner = createLaneRunner({ ...common, owner });
  const told = { outage: outages("looking for deliveries that are due"), onFault, onWarning };
  const scheduler = await openScheduler(queue, { deliveries, runner, clock, settings, keepAlive, ...told });
  const wake = (): void => scheduler.wake();
  const upkeep = createUpkeep({ ...common, wake, outage: outages("upkeep of deliveries") });
  const notifications = createNotifications({ ...common, audit, wake });
  return {
    notifications,
    wake,
    start() {
      if (!settings.worker) return;
      scheduler.start();
      upkeep.start();
    },
    async health() {
      return { ok: scheduler.ok, detail: detailOf(await notifications.receivers()) };
    },
    async stop(grace) {
      await Promise.all([runner.stop(grace), scheduler.stop(), upkeep.stop()]);
      // What the scheduler had claimed meanwhile is handed back.
      await runner.stop(grace);
      await scheduler.close();
      deliverer.close();
    },
  };
}
