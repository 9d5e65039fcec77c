/** Background maintenance: repairs lanes, finishes interrupted releases, parks for removed receivers, and purges. */
import { TOO_LATE } from "../records/deliveries/delivery.ts";
import { RECEIVER_REMOVED } from "./sending/lane-worker.ts";
import { isUnknownReceiver } from "./receivers.ts";
import type { NotifierServices } from "./services.ts";

export interface Upkeep {
  /** Runs all steps once. */
  pass(): Promise<void>;
  /** Runs a pass immediately, and then every minute; five seconds after a pass that failed. */
  start(): void;
  /** Waits for the step that is running. */
  stop(): Promise<void>;
}

const PASS_INTERVAL_MS = 60_000;
const RETRY_INTERVAL_MS = 5_000;
/** Deliveries or lanes in one step, so that other requests to the storage don't wait long. */
const STEP = 500;

/** For so long, processes with another configuration may send to a receiver of events that this one does not have. */
const UNKNOWN_MS = 3_600_000;

/** @param wake called when more may be due than before. */
export function createUpkeep(
  {
    configuration,
    storage,
    receivers,
    events,
    outages,
  }: Pick<NotifierServices, "configuration" | "storage" | "receivers" | "events" | "outages">,
  wake: () => void,
): Upkeep {
  const { deliveries } = storage;
  const { retention } = configuration.notifications;
  const outage = outages("upkeep of deliveries");
  const stopping = new AbortController();
  const goesOn = (): boolean => !stopping.signal.aborted;
  let running: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  async function reconcile(): Promise<void> {
    let page = await deliveries.reconcile({ limit: STEP });
    while (page.after !== undefined && goesOn()) {
      // An embedded storage answers without yielding to the event loop, so let requests run between two pages.
      await new Promise(setImmediate);
      page = await deliveries.reconcile({ limit: STEP, after: page.after });
    }
  }

  /** Finishes releases of workers that died before they were done. */
  async function release(): Promise<void> {
    for (const [receiver, { releaseUntil }] of await deliveries.receivers()) {
      if (releaseUntil !== null && goesOn()) await receivers.release(receiver);
    }
  }

  /** Parks deliveries for receivers that are no longer configured. */
  async function parkRemoved(): Promise<void> {
    for (const { receiver, waiting, oldest } of await deliveries.counts()) {
      if (waiting === 0 || !goesOn() || (await receivers.isConfigured(receiver))) continue;
      const isNew = storage.now() - (oldest ?? Infinity) < UNKNOWN_MS;
      if (isNew && isUnknownReceiver(configuration.events, receiver)) continue;
      let parked = 0;
      let isBack = false;
      for (let step = STEP; step === STEP && goesOn() && !isBack; parked += step) {
        step = await deliveries.parkWaiting(receiver, RECEIVER_REMOVED, STEP);
        // If it was configured again in the meantime, what waits now must be sent.
        isBack = await receivers.isConfigured(receiver);
      }
      if (!isBack) await receivers.forget(receiver);
      events.emit("receiver.removed", { receiver, parked });
    }
  }

  /** Gives up what is no longer worth sending, such as sign-ins that a paused receiver does not get. */
  async function discardLate(): Promise<void> {
    let count: number;
    do {
      const discarded = await deliveries.discardLate(STEP);
      for (const [receiver, number] of discarded)
        events.emit("delivery.dropped", { receiver, reason: TOO_LATE, number });
      count = [...discarded.values()].reduce((sum, each) => sum + each, 0);
    } while (count === STEP && goesOn());
  }

  async function purge(): Promise<void> {
    // What is too old is decided by the time of the storage.
    const now = storage.now();
    const payloads = now - retention.payloads * 1000;
    const records = now - retention.records * 1000;
    while ((await deliveries.purge({ payloads, records, limit: STEP })) === STEP && goesOn());
  }

  async function pass(): Promise<void> {
    for (const step of [reconcile, release, discardLate, parkRemoved, purge]) if (goesOn()) await step();
    wake();
  }

  async function run(): Promise<void> {
    let pause = PASS_INTERVAL_MS;
    try {
      await pass();
      outage.worked();
    } catch (error) {
      pause = RETRY_INTERVAL_MS;
      outage.failed(error);
    }
    if (goesOn()) timer = setTimeout(start, pause).unref();
  }

  function start(): void {
    running = run();
  }

  return {
    pass,
    start,
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
