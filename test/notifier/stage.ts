/** The worker over a real storage in memory, with a clock that is moved by hand and attempts that the test answers. */
import type { NewDelivery } from "../../records/deliveries/delivery.ts";
import type { ReceiverRecord } from "../../records/directory/directory.ts";
import { pino } from "pino";
import { createStorageServices, type StorageServices } from "../../records/services.ts";
import { openStorage } from "../../records/storage.ts";
import type { Storage } from "../../records/storage.ts";
import type { NotificationSettings } from "../../config/configuration.ts";
import { CLIENT_ROWS } from "../../accounts/clients/client-settings.ts";
import { createDirectory, type Directory } from "../../accounts/directory.ts";
import type { ReceiverSettings } from "../../accounts/receivers.ts";
import { createEvents, type ServiceEmitter, type ServiceEvents } from "../../core/events.ts";
import { events as eventsSchema, type EventsInput } from "../../config/events.ts";
import { readConfiguration } from "../../config/read.ts";
import { createSealer, type Sealer } from "../../core/sealing.ts";
import type { Attempt, AttemptResult, AttemptTarget } from "../../notifier/sending/deliver.ts";
import { LaneWorker } from "../../notifier/sending/lane-worker.ts";
import { createNotifications } from "../../notifier/notifications.ts";
import type { Notifications } from "../../notifier/operations.ts";
import { NOTIFICATION_TYPES } from "../../receiver/notification.ts";
import { Poller } from "../../notifier/poller.ts";
import { createNotifierServices, type NotifierServices } from "../../notifier/services.ts";
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
  "delivery.dropped",
  "receiver.paused",
  "receiver.resumed",
  "receiver.circuit_opened",
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
  /** @param change returns the storage that this worker uses. @param events receivers of its own configuration. */
  worker(change?: (storage: Storage) => Storage, events?: EventsInput): Worker;
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

const nothing = (): void => undefined;
const wake = { deliveries: nothing, mail: nothing };

function rethrow(error: unknown): never {
  throw error;
}

export async function openWorld(
  changes: Partial<NotificationSettings> = {},
  path = "sqlite::memory:",
  receivers: EventsInput["receivers"] = {},
): Promise<World> {
  const clock = new ManualClock();
  const start = clock.now();
  const settings = { ...defaults.notifications, ...changes };
  const deployments = { openid: { url: "http://127.0.0.1:1" } };
  const configuration = {
    ...readConfiguration({ deployments, storage: path, clock, events: { receivers } }),
    notifications: settings,
  };
  const storage = await openStorage(configuration);
  const sealer = createSealer([Buffer.alloc(32, 7).toString("base64")]);
  const posted: Posted[] = [];
  const world = { answer: () => 200 } as { answer: Answer };
  const attempt: Attempt = async (target, body, { id, signal }) => {
    const startedAt = clock.now();
    const post = { target, id, body, at: startedAt - start };
    posted.push(post);
    return toResult(await world.answer(post, signal), startedAt);
  };
  const base = createStorageServices(
    { configuration, storage, sealer, logger: pino({ level: "silent" }) },
    { events: createEvents(rethrow), outages: () => ({ failed: rethrow, worked: () => undefined }) },
  );
  const servicesOn = (change: Partial<StorageServices>, send: Attempt = attempt): NotifierServices =>
    createNotifierServices({ ...base, ...change }, { deliverer: { attempt: send, close: () => undefined } });
  const directory = createDirectory({ ...base, clientRows: CLIENT_ROWS });
  return Object.assign(world, {
    storage,
    clock,
    directory,
    sealer,
    settings,
    posted,
    emitted: listen(base.events),
    notifications: createNotifications(servicesOn({}), wake),
    notificationsOn: (change: Partial<Storage>) =>
      createNotifications(
        servicesOn({ storage: { ...storage, ...change }, events: createEvents(() => undefined) }, () =>
          Promise.reject(new Error("nothing is to be sent")),
        ),
        wake,
      ),
    now: () => clock.now() - start,
    worker(change: (storage: Storage) => Storage = (same) => same, events?: EventsInput) {
      const own = { ...configuration, ...(events && { events: eventsSchema.parse(events) }) };
      return createWorker(servicesOn({ storage: change(storage), configuration: own }), clock);
    },
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

function createWorker(services: NotifierServices, clock: ManualClock): Worker {
  const lanes = new LaneWorker(services, "worker", () => 0.5);
  const running = new Set<Promise<void>>();
  const watched = {
    lease: lanes.lease,
    run(...parameters: Parameters<LaneWorker["run"]>) {
      const run = lanes.run(...parameters);
      running.add(run);
      return run.finally(() => running.delete(run));
    },
  };
  const poller = new Poller(services, { worker: watched, outage: services.outages("poll") });
  const upkeep = createUpkeep(services, nothing);
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
