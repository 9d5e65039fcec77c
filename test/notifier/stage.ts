/** The worker over a real storage in memory, with a clock that is moved by hand and attempts that the test answers. */
import type { NewDelivery } from "../../records/deliveries/delivery.ts";
import type { ReceiverRecord } from "../../records/directory/directory.ts";
import { openStorage } from "../../records/storage.ts";
import type { Storage } from "../../records/storage.ts";
import type { NotificationSettings } from "../../config/configuration.ts";
import { createDirectory, type Directory } from "../../accounts/directory.ts";
import type { ReceiverSettings } from "../../accounts/receivers.ts";
import { createEvents, type ServiceEmitter, type ServiceEvents } from "../../core/events.ts";
import { createSealer, type Sealer } from "../../core/sealing.ts";
import type { Attempt, AttemptResult, AttemptTarget } from "../../notifier/sending/deliver.ts";
import { CircuitBreaker } from "../../notifier/sending/breaker.ts";
import { LaneWorker } from "../../notifier/sending/lane-worker.ts";
import { createNotifications, type Notifications } from "../../notifier/notifications.ts";
import { NOTIFICATION_TYPES } from "../../accounts/plan.ts";
import { Poller } from "../../notifier/poller.ts";
import { Receivers } from "../../notifier/receivers.ts";
import { createUpkeep, type Upkeep } from "../../notifier/upkeep.ts";
import { ManualClock, store } from "../records/rules/stage.ts";
import { defaults } from "../../config/schema.ts";

export const SECOND = 1000;
export const MINUTE: number = 60 * SECOND;
export const HOUR: number = 60 * MINUTE;

/** A POST as it was made. */
export interface Posted {
  readonly target: AttemptTarget;
  readonly id: string;
  readonly body: string;
  /** Milliseconds since the stage was opened. */
  readonly at: number;
}

export type Answer = (posted: Posted, signal: AbortSignal) => number | object | Promise<number | object>;

const EVENTS = [
  "receiver.failing",
  "delivery.succeeded",
  "delivery.failed",
  "delivery.parked",
  "delivery.redriven",
  "delivery.discarded",
  "receiver.paused",
  "receiver.resumed",
  "receiver.held",
  "receiver.recovered",
  "receiver.removed",
  "fault",
] as const satisfies readonly (keyof ServiceEvents)[];

/** A worker as one process has it. */
export interface Worker {
  readonly lanes: LaneWorker;
  readonly poller: Poller;
  readonly upkeep: Upkeep;
  /** Sends what is due now, until nothing is. */
  settle(): Promise<void>;
  /** Lets so much time go by, in steps to whatever is due next. */
  live(milliseconds: number): Promise<void>;
}

export interface World {
  readonly storage: Storage;
  readonly clock: ManualClock;
  readonly directory: Directory;
  readonly sealer: Sealer;
  readonly notifications: Notifications;
  readonly settings: NotificationSettings;
  readonly posted: Posted[];
  /** Events that were emitted: name and argument. */
  readonly emitted: (readonly [name: string, argument: object])[];
  /** How receivers answer: a status, or a part of a result. Default 200. */
  answer: Answer;
  /** Milliseconds since the stage was opened. */
  readonly now: () => number;
  /** The calls on a storage that differs, of which nothing is sent. */
  notificationsOn(change: Partial<Storage>): Notifications;
  /** @param change returns the storage that this worker uses. */
  worker(change?: (storage: Storage) => Storage): Worker;
  /** Configures a receiver of a service. */
  receiver(service: string, settings?: Partial<ReceiverSettings>): Promise<void>;
  /** Stores deliveries `ID@RECEIVER/SUB`, in this order. */
  add(...deliveries: string[]): Promise<void>;
  /** The ids in the order in which they were posted. */
  ids(): string[];
}

export function receiverSettings(service: string): ReceiverSettings {
  return {
    url: `https://service-${service}.example/notify`,
    client_id: `service ${service}`,
    client_secret: "a secret of the receiver",
    types: NOTIFICATION_TYPES,
  };
}

function toResult(answer: number | object, startedAt: number): AttemptResult {
  const timing = { startedAt, duration: 1 };
  const given = typeof answer === "number" ? { kind: "answered", status: answer, answer: "" } : answer;
  return { ...timing, ...given } as AttemptResult;
}

const wake = (): void => undefined;

export async function openWorld(
  changes: Partial<NotificationSettings> = {},
  path = "sqlite::memory:",
): Promise<World> {
  const clock = new ManualClock();
  const start = clock.now();
  const storage = await openStorage({ storage: path, artifacts: path, clock });
  const settings = { ...defaults.notifications, ...changes };
  const sealer = createSealer([Buffer.alloc(32, 7).toString("base64")]);
  const events = createEvents((error) => {
    throw error;
  });
  const posted: Posted[] = [];
  const world = { answer: () => 200 } as { answer: Answer };
  const attempt: Attempt = async (target, body, { id, signal }) => {
    const startedAt = clock.now();
    const post = { target, id, body, at: startedAt - start };
    posted.push(post);
    return toResult(await world.answer(post, signal), startedAt);
  };
  const common = { sealer, events, clock, settings, attempt };
  const directory = createDirectory({ storage, sealer, deployments: {} });
  return Object.assign(world, {
    storage,
    clock,
    directory,
    sealer,
    settings,
    posted,
    emitted: listen(events),
    notifications: createNotifications({
      ...common,
      ...partsOf(common, storage),
      storage,
      wake,
      onMail: wake,
    }),
    notificationsOn(change: Partial<Storage>) {
      const changed = { ...storage, ...change };
      return createNotifications({
        ...common,
        ...partsOf(common, changed),
        storage: changed,
        events: createEvents(() => undefined),
        attempt: () => Promise.reject(new Error("nothing is to be sent")),
        wake,
        onMail: wake,
      });
    },
    now: () => clock.now() - start,
    worker: (change: (storage: Storage) => Storage = (same) => same) => createWorker(common, change(storage)),
    async receiver(service: string, more: Partial<ReceiverSettings> = {}) {
      const receiver = { ...receiverSettings(service), ...more };
      await directory.services.put(service, { name: service, receiver });
    },
    add: (...deliveries: string[]) =>
      store({ storage, clock }, ...deliveries.map((text) => newDelivery(text, sealer))),
    ids: () => posted.map(({ id }) => id),
  });
}

function newDelivery(text: string, sealer: Sealer): NewDelivery {
  const [, id = "", receiver = "", sub = ""] = /^(.*)@(.*)\/(.*)$/.exec(text) ?? [];
  const payload = sealer.seal(`delivery ${id}`, JSON.stringify({ secret: `payload of ${id}` }));
  return { id, receiver: `service:${receiver}`, sub, type: "PROFILE_CHANGED", payload, at: 1_800_000_000 };
}

function listen(events: ServiceEmitter): (readonly [name: string, argument: object])[] {
  const emitted: (readonly [string, object])[] = [];
  for (const name of EVENTS) events.on(name, (argument: object) => void emitted.push([name, argument]));
  return emitted;
}

interface Common {
  readonly sealer: Sealer;
  readonly events: ServiceEmitter;
  readonly clock: ManualClock;
  readonly settings: NotificationSettings;
  readonly attempt: Attempt;
}

function partsOf({ sealer, settings, events, clock }: Common, { directory, deliveries }: Storage) {
  const receivers = new Receivers(directory, sealer);
  return { receivers, breaker: new CircuitBreaker(deliveries, settings.breaker, events, clock) };
}

const outage = {
  failed(error: unknown): never {
    throw error;
  },
  worked: () => undefined,
};

function createWorker(common: Common, storage: Storage): Worker {
  const { clock, settings } = common;
  const { deliveries } = storage;
  const parts = { ...common, ...partsOf(common, storage), deliveries };
  const lanes = new LaneWorker({ ...parts, owner: "worker", random: () => 0.5 });
  const running = new Set<Promise<void>>();
  const watched = {
    lease: lanes.lease,
    run(...parameters: Parameters<LaneWorker["run"]>) {
      const run = lanes.run(...parameters);
      running.add(run);
      return run.finally(() => running.delete(run));
    },
  };
  const poller = new Poller({ ...parts, worker: watched, keepAlive: false, outage });
  const upkeep = createUpkeep({ ...parts, retention: settings.retention, wake, outage });
  async function settle(): Promise<number> {
    for (;;) {
      const next = await poller.pass();
      if (running.size === 0) return next;
      await Promise.all(running);
      // The poller frees the slot a moment after the run has ended.
      await new Promise(setImmediate);
    }
  }
  return {
    lanes,
    poller,
    upkeep,
    async settle() {
      await settle();
    },
    async live(milliseconds) {
      const end = clock.now() + milliseconds;
      for (;;) {
        const next = await settle();
        const left = end - clock.now();
        if (left <= 0) return;
        clock.advance(Math.min(left, Math.max(next, 1)));
      }
    },
  };
}

/** A receiver whose credentials no key opens. */
export function unreadable(record: ReceiverRecord): ReceiverRecord {
  return { ...record, sealed: "AAAA" };
}
