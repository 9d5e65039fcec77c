/**
 * Stores frequent events in batches, once a second in one commit, so that a sign-in does not wait for its audit record.
 * `close` stores the rest; a process that crashes loses the events of its last second. Refusals of one rate limit are
 * counted in one record, so that an attack does not fill the storage, and so are the events of one account beyond its records.
 */
import { StorageUnavailable } from "../../core/errors.ts";
import type { Outage } from "../../core/outages.ts";
import { AccountEvents } from "./account-events.ts";
import type { AuditEvent, AuditStore, CollectedEvent, Refusal } from "./audit-event.ts";
import { refusalRef } from "./audit-kinds.ts";

export interface AuditCollector {
  /** Records an event soon. Never fails. */
  note(event: AuditEvent): void;
  /** Counts a refusal by a rate limit. Never fails. */
  noteRefusal(event: AuditEvent, refusal: Refusal): void;
  /** Stores the events so far. Never fails: events that can't be stored are retried a second later. */
  flush(): Promise<void>;
  /** How many records are lost since the start. */
  lost(): number;
  /** Stores the events so far; those that can't be stored are lost. */
  close(): Promise<void>;
}

/** From the first event to the commit. */
const COMMIT_INTERVAL_MS = 1_000;
/** Events in one commit. */
const MAX_BATCH = 500;
/** How many events wait while the storage is unavailable. Beyond that, each new one displaces the oldest. */
const MAX_WAITING = 10_000;

/** @param outage records whether commits succeed. @param onWarning called with the number of lost records. */
export function createAuditCollector(
  store: Pick<AuditStore, "position" | "appendCollected">,
  outage: Outage,
  onWarning: (text: string) => void,
): AuditCollector {
  /** In the order of events; refusals by the key of their record. */
  const waiting = new Map<string | symbol, CollectedEvent>();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  /** Records that are lost, of which those since the last warning are new. */
  let [lost, told] = [0, 0];

  function add(key: string | symbol, one: CollectedEvent): void {
    waiting.set(key, one);
    const [oldest] = waiting.keys();
    if (waiting.size > MAX_WAITING && oldest !== undefined) {
      waiting.delete(oldest);
      lost += 1;
    }
    timer ??= setTimeout(() => void flush(), COMMIT_INTERVAL_MS).unref();
  }

  async function storeSome(): Promise<void> {
    const batch = [...waiting].slice(0, MAX_BATCH);
    for (const [key] of batch) waiting.delete(key);
    try {
      await store.appendCollected(batch.map(([, one]) => one));
    } catch (error) {
      if (error instanceof StorageUnavailable) putBack(batch);
      // A storage that is available and rejects a record would reject it again.
      else lost += batch.length;
      throw error;
    }
  }

  function putBack(batch: readonly (readonly [string | symbol, CollectedEvent])[]): void {
    for (const [key, one] of batch) {
      // The same refusal may have been counted again in the meantime.
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
    if (lost > told) onWarning(`${lost - told} audit records could not be stored and are lost`);
    told = lost;
  }

  function flush(): Promise<void> {
    running = running.then(storeAll);
    return running;
  }

  const accounts = new AccountEvents();

  function collect(one: CollectedEvent): void {
    if (one.refusal === undefined) return add(Symbol("event"), one);
    const { key } = refusalRef(one.refusal, one.order);
    const before = waiting.get(key);
    add(key, before === undefined ? one : { ...before, count: before.count + 1 });
  }

  return {
    note: (event) => collect(accounts.take({ event, order: store.position(), count: 1 })),
    noteRefusal: (event, refusal) => collect({ event, refusal, order: store.position(), count: 1 }),
    flush,
    lost: () => lost,
    async close() {
      await flush();
      clearTimeout(timer);
      if (waiting.size > 0) onWarning(`${waiting.size} audit records could not be stored and are lost`);
      waiting.clear();
    },
  };
}
