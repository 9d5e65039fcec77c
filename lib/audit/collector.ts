/**
 * What happens often is recorded once a second, in one commit: a sign-in does not wait for its record. A process that
 * crashes loses what it collected in the last second, and `close` stores the rest.
 */
import { StorageUnavailable } from "../errors.ts";
import type { Outage } from "../outages.ts";
import type { AuditEvent, AuditStore, CollectedEvent, Refusal } from "./audit-event.ts";
import { refusalRef } from "./records.ts";

export interface AuditCollector {
  /** Records an event soon. Never fails. */
  note(event: AuditEvent): void;
  /** Counts a refusal by a limit. Never fails. */
  noteRefusal(event: AuditEvent, refusal: Refusal): void;
  /** Stores what is collected by now. Never fails: what can't be stored is tried again a second later. */
  flush(): Promise<void>;
  /** Stores what is collected; what can't be stored is lost. */
  close(): Promise<void>;
}

/** Milliseconds from the first event to the commit. */
const INTERVAL = 1_000;
/** Events in one commit. */
const BATCH = 500;
/** Events that wait at most while the storage is away; beyond them one is lost for each that comes. */
const MOST_WAITING = 10_000;

/** @param outage told what came of each commit. @param onWarning told how many records were lost. */
export function createAuditCollector(
  store: Pick<AuditStore, "position" | "appendCollected">,
  outage: Outage,
  onWarning: (text: string) => void,
): AuditCollector {
  /** In the order in which they happened; refusals under the key of their record. */
  const waiting = new Map<string | symbol, CollectedEvent>();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  let lost = 0;

  function add(key: string | symbol, one: CollectedEvent): void {
    waiting.set(key, one);
    const [oldest] = waiting.keys();
    if (waiting.size > MOST_WAITING && oldest !== undefined) {
      waiting.delete(oldest);
      lost += 1;
    }
    timer ??= setTimeout(() => void flush(), INTERVAL).unref();
  }

  async function storeSome(): Promise<void> {
    const batch = [...waiting].slice(0, BATCH);
    for (const [key] of batch) waiting.delete(key);
    try {
      await store.appendCollected(batch.map(([, one]) => one));
    } catch (error) {
      if (error instanceof StorageUnavailable) putBack(batch);
      // What a storage that can be reached does not take now it never takes.
      else lost += batch.length;
      throw error;
    }
  }

  function putBack(batch: readonly (readonly [string | symbol, CollectedEvent])[]): void {
    for (const [key, one] of batch) {
      // What came in meanwhile may be about the same refusals.
      const count = one.count + (waiting.get(key)?.count ?? 0);
      add(key, { ...one, count });
    }
  }

  async function storeAll(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    try {
      while (waiting.size > 0) await storeSome();
      outage.worked();
    } catch (error) {
      outage.failed(error);
    }
    if (lost > 0) onWarning(`${lost} audit records could not be stored and are lost`);
    lost = 0;
  }

  function flush(): Promise<void> {
    running = running.then(storeAll);
    return running;
  }

  return {
    note(event) {
      add(Symbol("event"), { event, order: store.position(), count: 1 });
    },
    noteRefusal(event, refusal) {
      const order = store.position();
      const { key } = refusalRef(refusal, order);
      const before = waiting.get(key);
      if (before === undefined) add(key, { event, refusal, order, count: 1 });
      else waiting.set(key, { ...before, count: before.count + 1 });
    },
    flush,
    async close() {
      await flush();
      clearTimeout(timer);
      if (waiting.size > 0) onWarning(`${waiting.size} audit records could not be stored and are lost`);
      waiting.clear();
    },
  };
}
