/** Workers over one storage and a real Redis; attempts are answered by the test. */
import type { Redis } from "ioredis";
import type { NewDelivery } from "../../../records/deliveries/delivery.ts";
import { pino } from "pino";
import { createStorageServices } from "../../../records/services.ts";
import { openStorage } from "../../../records/storage.ts";
import type { Storage } from "../../../records/storage.ts";
import type { NotificationSettings } from "../../../config/configuration.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { CLIENT_ROWS } from "../../../accounts/clients/client-settings.ts";
import { createDirectory } from "../../../accounts/directory.ts";
import { createEvents } from "../../../core/events.ts";
import { createOutages } from "../../../core/outages.ts";
import { readConfiguration } from "../../../config/read.ts";
import { createSealer } from "../../../core/sealing.ts";
import type { Attempt } from "../../../notifier/sending/deliver.ts";
import { openBullScheduler } from "../../../notifier/bullmq/scheduler.ts";
import { LaneWorker } from "../../../notifier/sending/lane-worker.ts";
import { createNotifierServices } from "../../../notifier/services.ts";
import type { Scheduler } from "../../../notifier/poller.ts";
import { store } from "../../records/rules/stage.ts";
import { receiverSettings } from "../stage.ts";
import { defaults } from "../../../config/schema.ts";

export interface Posted {
  readonly id: string;
  /** The user. */
  readonly sub: string;
}

export interface BullWorker {
  readonly scheduler: Scheduler;
  /** Ends it as a process is ended. */
  end(grace?: number): Promise<void>;
}

export interface BullStage {
  readonly storage: Storage;
  readonly posted: Posted[];
  readonly warnings: string[];
  readonly faults: unknown[];
  /** Log entries about polls that work again. */
  readonly healed: unknown[];
  /** Those that have not ended, in the order in which they were opened. */
  readonly workers: readonly BullWorker[];
  answer: (posted: Posted, signal: AbortSignal) => number | Promise<number>;
  worker(url: string, interval?: number): Promise<BullWorker>;
  receiver(service: string): Promise<void>;
  /** Stores deliveries `ID@RECEIVER/SUB`, in this order. */
  add(...deliveries: string[]): Promise<void>;
  waiting(): Promise<number>;
  /** Resolves when no delivery waits any more. */
  nothingWaits(): Promise<void>;
  close(): Promise<void>;
}

/** What the jobs hold that wait or run. */
export async function wakeUps(client: Redis): Promise<string[]> {
  const keys = await client.keys("sign-in-service:deliveries:*");
  const jobs = keys.filter((key) => /deliveries:\d+$/u.test(key));
  const held = await Promise.all(jobs.map((key) => client.hget(key, "data")));
  return held.filter((data) => data !== null);
}

/** Looks again and again: the test's own time-out is the only limit. */
export async function until(true_: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await true_())) await new Promise((resolve) => setTimeout(resolve, 5));
}

export async function openBullStage(changes: Partial<NotificationSettings> = {}): Promise<BullStage> {
  const clock = createSystemClock();
  const settings = { ...defaults.notifications, retryDelays: [0.05, 0.05, 0.05], ...changes };
  const deployments = { openid: { url: "http://127.0.0.1:1" } };
  const configuration = {
    ...readConfiguration({ deployments, storage: "sqlite::memory:", clock }),
    notifications: settings,
  };
  const storage = await openStorage(configuration);
  const { deliveries } = storage;
  const sealer = createSealer([Buffer.alloc(32, 7).toString("base64")]);
  const faults: unknown[] = [];
  const warnings: string[] = [];
  const posted: Posted[] = [];
  const workers: BullWorker[] = [];
  const onDefect = (error: unknown): void => void faults.push(error);
  const onWarning = (text: string): void => void warnings.push(text);
  const healed: unknown[] = [];
  const outages = createOutages({ error: onDefect, warn: (what: unknown) => void healed.push(what) }, clock);
  const base = createStorageServices(
    { configuration, storage, sealer, logger: pino({ level: "silent" }) },
    { outages, onDefect, onWarning, events: createEvents(onDefect) },
  );
  const directory = createDirectory({ ...base, clientRows: CLIENT_ROWS });
  const stage = { answer: () => 200 } as { answer: BullStage["answer"] };
  const attempt: Attempt = async (_target, body, { id, signal }) => {
    const startedAt = clock.now();
    const post = { id, sub: body };
    posted.push(post);
    const aborted = new Promise<undefined>((resolve) => {
      signal.addEventListener("abort", () => resolve(undefined), { once: true });
    });
    const status = await Promise.race([stage.answer(post, signal), aborted]);
    const timing = { startedAt, duration: 1 };
    if (status === undefined) return { ...timing, kind: "failed", code: "aborted" };
    return { ...timing, kind: "answered", status, answer: "" };
  };
  const waiting = async (): Promise<number> =>
    (await deliveries.counts()).reduce((all, each) => all + each.waiting, 0);
  return Object.assign(stage, {
    storage,
    posted,
    warnings,
    faults,
    healed,
    workers,
    waiting,
    nothingWaits: () => until(async () => (await waiting()) === 0),
    async worker(url: string, interval = 60_000) {
      const owner = `worker ${workers.length}`;
      const services = createNotifierServices(
        { ...base, configuration: { ...configuration, queue: url } },
        { deliverer: { attempt, close: () => undefined } },
      );
      const lanes = new LaneWorker(services, owner);
      const scheduler = await openBullScheduler(services, {
        worker: lanes,
        intervalMs: interval,
        connectTimeoutMs: 1000,
      });
      const worker = {
        scheduler,
        async end(grace = 0) {
          workers.splice(workers.indexOf(worker), 1);
          await scheduler.stop();
          await lanes.stop(grace);
          await scheduler.close();
        },
      };
      workers.push(worker);
      return worker;
    },
    async receiver(service: string) {
      await directory.services.put(service, { name: service, receiver: receiverSettings(service) });
    },
    async add(...texts: string[]) {
      const all = texts.map((text): NewDelivery => {
        const [, id = "", receiver = "", sub = ""] = /^(.*)@(.*)\/(.*)$/.exec(text) ?? [];
        const payload = sealer.seal(`delivery ${id}`, sub);
        return {
          id,
          receiver: `service:${receiver}`,
          sub,
          type: "PROFILE_CHANGED",
          payload,
          at: 1_800_000_000,
        };
      });
      await store({ storage, clock } as Parameters<typeof store>[0], ...all);
    },
    async close() {
      await Promise.all([...workers].map((each) => each.end()));
      await storage.close();
    },
  });
}
