/** Everything that makes up the delivery of notifications, put together. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { Storage } from "../adapters/storage.ts";
import type { Configuration } from "../config/configuration.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import type { Sealer } from "../lib/sealing.ts";
import { createDeliverer } from "./deliver.ts";
import { createLaneRunner } from "./lane-run.ts";
import { createNotifications, type Notifications } from "./notifications.ts";
import { createPoller } from "./poller.ts";
import { createUpkeep } from "./upkeep.ts";

export interface NotifierParts {
  readonly configuration: Pick<Configuration, "notifications" | "clock">;
  readonly storage: Pick<Storage, "directory" | "deliveries">;
  readonly sealer: Sealer;
  readonly events: ServiceEmitter;
  /** Whether the worker keeps the process alive, as the only thing that it does; default not. */
  readonly keepAlive?: boolean;
  /** Told when a look at the storage fails; the next one tries again. */
  readonly onFault: (error: unknown) => void;
}

/** How the delivery is doing. */
export interface NotifierHealth {
  /** The last look at the storage succeeded; also without a worker in this process. */
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

export function createNotifier({ keepAlive = false, onFault, ...parts }: NotifierParts): Notifier {
  const { sealer, events } = parts;
  const { notifications: settings, clock } = parts.configuration;
  const { directory, deliveries } = parts.storage;
  const deliverer = createDeliverer({ settings, clock });
  const owner = `${hostname()} ${process.pid} ${randomBytes(4).toString("hex")}`;
  const common = { directory, deliveries, sealer, events, clock, settings, attempt: deliverer.attempt };
  const runner = createLaneRunner({ ...common, owner });
  const poller = createPoller({ deliveries, runner, clock, settings, keepAlive, onFault });
  const wake = (): void => poller.wake();
  const upkeep = createUpkeep({ ...common, wake, onFault });
  const notifications = createNotifications({ ...common, wake });
  return {
    notifications,
    wake,
    start() {
      if (!settings.worker) return;
      poller.start();
      upkeep.start();
    },
    async health() {
      return { ok: poller.ok, detail: detailOf(await notifications.receivers()) };
    },
    async stop(grace) {
      await Promise.all([poller.stop(), upkeep.stop()]);
      await runner.stop(grace);
      deliverer.close();
    },
  };
}
