/**
 * Stores what happens often in batches, once a second in one commit, so that nothing waits for it. `close` stores the rest; a
 * process that crashes loses its last second.
 */
import { StorageUnavailable } from "../core/errors.ts";
import type { Outage } from "../core/outages.ts";

export interface Collected<One> {
  /** Stores it soon. Never fails. @param key one that waits with the same key is merged with it. */
  readonly add: (key: string | symbol, one: One) => void;
  /** Stores what was added so far. Never fails: what can't be stored is tried again a second later. */
  readonly flush: () => Promise<void>;
  /** How many are lost since the start. */
  readonly lost: () => number;
  /** Stores what was added so far; what can't be stored is lost. */
  readonly close: () => Promise<void>;
}

interface Collecting<One> {
  /** Stores a batch in one commit. */
  readonly store: (batch: readonly One[]) => Promise<void>;
  /** The two as one. */
  readonly merge: (earlier: One, later: One) => One;
  /** Records whether commits succeed. */
  readonly outage: Outage;
  /** Called with how many were lost. */
  readonly onLost: (count: number) => void;
}

/** From the first to the commit. */
const COMMIT_INTERVAL_MS = 1_000;
/** In one commit. */
const MAX_BATCH = 500;
/** How many wait while the storage is unavailable. Beyond that, each new one displaces the oldest. */
const MAX_WAITING = 10_000;

export function collect<One>({ store, merge, outage, onLost }: Collecting<One>): Collected<One> {
  /** In the order in which they were added. */
  const waiting = new Map<string | symbol, One>();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  /** Those that are lost, of which the ones since the last call of `onLost` are new. */
  let [lost, told] = [0, 0];

  function put(key: string | symbol, one: One): void {
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
      await store(batch.map(([, one]) => one));
    } catch (error) {
      if (error instanceof StorageUnavailable) putBack(batch);
      // A storage that is available and rejects something would reject it again.
      else lost += batch.length;
      throw error;
    }
  }

  function putBack(batch: readonly (readonly [string | symbol, One])[]): void {
    for (const [key, one] of batch) {
      // One with the same key may have been added in the meantime.
      const later = waiting.get(key);
      put(key, later === undefined ? one : merge(one, later));
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
    if (lost > told) onLost(lost - told);
    told = lost;
  }

  function flush(): Promise<void> {
    running = running.then(storeAll);
    return running;
  }

  return {
    add(key, one) {
      const earlier = waiting.get(key);
      put(key, earlier === undefined ? one : merge(earlier, one));
    },
    flush,
    lost: () => lost,
    async close() {
      await flush();
      clearTimeout(timer);
      if (waiting.size > 0) onLost(waiting.size);
      waiting.clear();
    },
  };
}
