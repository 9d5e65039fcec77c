/** What has to be done now and then: putting lanes right, finishing what was begun, parking, purging. */
import { type DeliveryStore, untouchedReceiver } from "../lib/deliveries/delivery.ts";
import type { DirectoryStore } from "../lib/directory/directory.ts";
import type { NotificationSettings } from "../config/configuration.ts";
import type { Clock } from "../lib/clock.ts";
import { parseReceiverName } from "../lib/domain/receivers.ts";
import type { ServiceEmitter } from "../lib/events.ts";
import type { Outage } from "../lib/outages.ts";
import { RECEIVER_REMOVED } from "./lane-run.ts";
import { releaseAll } from "./receiver-watch.ts";

export interface UpkeepDeps {
  readonly deliveries: DeliveryStore;
  readonly directory: Pick<DirectoryStore, "findEntry">;
  readonly settings: Pick<NotificationSettings, "retention">;
  readonly clock: Clock;
  readonly events: ServiceEmitter;
  /** Told when there may be more to send than before. */
  readonly wake: () => void;
  /** Told what came of each pass; after one that failed the next one tries again. */
  readonly outage: Outage;
}

export interface Upkeep {
  /** Everything once. */
  pass(): Promise<void>;
  /** At once, and then every minute; five seconds after a pass that failed. */
  start(): void;
  /** Waits for the step that is running. */
  stop(): Promise<void>;
}

const INTERVAL = 60_000;
const AFTER_FAILURE = 5_000;
/** Deliveries or lanes in one step, so that nobody waits long for the storage. */
const STEP = 500;

type More = () => boolean;

async function reconcile({ deliveries }: UpkeepDeps, more: More): Promise<void> {
  let page = await deliveries.reconcile({ limit: STEP });
  while (page.after !== undefined && more()) {
    // A storage in this process answers at once: requests are not to wait until all lanes are looked at.
    await new Promise(setImmediate);
    page = await deliveries.reconcile({ limit: STEP, after: page.after });
  }
}

/** Finishes what a worker began that died over it. */
async function release({ deliveries }: UpkeepDeps, more: More): Promise<void> {
  for (const [receiver, { releaseUntil }] of await deliveries.receivers()) {
    if (releaseUntil !== null && more()) await releaseAll(deliveries, receiver);
  }
}

async function isConfigured({ directory }: UpkeepDeps, receiver: string): Promise<boolean> {
  const place = parseReceiverName(receiver);
  const entry = place && (await directory.findEntry(place.kind, place.key));
  return entry !== undefined && entry.receiver !== null;
}

/** Parks what waits for receivers that are not configured any more; one that comes back begins anew. */
async function parkRemoved(deps: UpkeepDeps, more: More): Promise<void> {
  const { deliveries, events } = deps;
  for (const { receiver, waiting } of await deliveries.counts()) {
    if (waiting === 0 || !more() || (await isConfigured(deps, receiver))) continue;
    let parked = 0;
    let isBack = false;
    for (let step = STEP; step === STEP && more() && !isBack; parked += step) {
      step = await deliveries.parkWaiting(receiver, RECEIVER_REMOVED, STEP);
      // What has waited since it is there again is to be sent.
      isBack = await isConfigured(deps, receiver);
    }
    if (!isBack) await deliveries.changeReceiver(receiver, () => untouchedReceiver);
    events.emit("receiver.removed", { receiver, parked });
  }
}

async function purge({ deliveries, settings, clock }: UpkeepDeps, more: More): Promise<void> {
  const { payloads, records } = settings.retention;
  const now = clock.now();
  const limits = { payloads: now - payloads * 1000, records: now - records * 1000, limit: STEP };
  while ((await deliveries.purge(limits)) === STEP && more());
}

const STEPS = [reconcile, release, parkRemoved, purge] as const;

export function createUpkeep(deps: UpkeepDeps): Upkeep {
  const stopping = new AbortController();
  const more: More = () => !stopping.signal.aborted;
  let running: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  async function pass(): Promise<void> {
    for (const step of STEPS) if (more()) await step(deps, more);
    deps.wake();
  }
  async function run(): Promise<void> {
    let pause = INTERVAL;
    try {
      await pass();
      deps.outage.worked();
    } catch (error) {
      pause = AFTER_FAILURE;
      deps.outage.failed(error);
    }
    if (more()) timer = setTimeout(next, pause).unref();
  }
  function next(): void {
    running = run();
  }
  return {
    pass,
    start: next,
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
