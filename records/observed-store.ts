/**
 * A store as the service uses it: its calls are measured, it refuses them while the clock of this process is wrong, and it
 * knows whether it takes writes.
 */
import { randomUUID } from "node:crypto";
import type { Commit, Found, Page, Position, Query, RecordStore, Ref } from "../adapters/record-store.ts";
import type { Clock } from "../core/clock.ts";
import { ConditionFailed, StorageUnavailable } from "../core/errors.ts";
import type { StoreCall } from "../core/metrics.ts";
import type { StoreClocks } from "./clocks.ts";
import { defineKind, type Kind } from "./kinds.ts";

/** What a health check writes. On a full disk, reads still work. */
export const WRITE_PROBE: Kind<{ readonly at: number }> = defineKind<{ readonly at: number }>({
  name: "write-probe",
  holds: "when a health check last tried whether the store takes writes",
  key: "always the same",
  keyOf: () => "current",
  store: "each",
  exported: false,
  afterRestore: "kept",
  personal: undefined,
});

/** How long the outcome of a write, or of a probe, is used. */
const WRITE_INTERVAL_MS = 1_000;
/** Shorter than a health check waits, so that it says why the write failed. */
const PROBE_TIMEOUT_MS = 1_500;

/** What a store needs of the storage that it belongs to. */
interface Observers {
  readonly clock: Clock;
  readonly clocks: Pick<StoreClocks, "require">;
  /** Measures the calls. Default: nothing does. */
  readonly listener: () => ((call: StoreCall) => void) | undefined;
}

export class ObservedStore implements RecordStore {
  readonly name: StoreCall["store"];
  readonly copy?: NonNullable<RecordStore["copy"]>;
  readonly watch?: NonNullable<RecordStore["watch"]>;
  readonly pool?: NonNullable<RecordStore["pool"]>;
  readonly #store: RecordStore;
  readonly #observers: Observers;
  /** When a write last succeeded, by the monotonic clock; `undefined` if a call has failed since. */
  #wroteAt: number | undefined;
  #probedAt = -Infinity;
  #probe: Promise<void> = Promise.resolve();

  constructor(
    { name, store }: { readonly name: StoreCall["store"]; readonly store: RecordStore },
    observers: Observers,
  ) {
    this.name = name;
    this.#store = store;
    this.#observers = observers;
    if (store.copy !== undefined) this.copy = store.copy.bind(store);
    if (store.watch !== undefined) this.watch = store.watch.bind(store);
    if (store.pool !== undefined) this.pool = store.pool.bind(store);
  }

  get(refs: readonly Ref[], options?: { readonly withParents?: boolean }): Promise<(Found | undefined)[]> {
    return this.#observed("get", () => this.#store.get(refs, options));
  }

  list(queries: readonly Query[]): Promise<Page[]> {
    return this.#observed("list", () => this.#store.list(queries));
  }

  scan(kind: string, after: Position | undefined, limit: number): Promise<Page> {
    return this.#observed("scan", () => this.#store.scan(kind, after, limit));
  }

  count(queries: readonly Query[]): Promise<number[]> {
    return this.#observed("count", () => this.#store.count(queries));
  }

  async commit(change: Commit): Promise<void> {
    await this.#observed("commit", () => this.#store.commit(change));
    this.#wroteAt = performance.now();
  }

  next(counter: string, atLeast?: number): Promise<number> {
    return this.#observed("next", () => this.#store.next(counter, atLeast));
  }

  sweep(limit: number, now: number): Promise<number> {
    return this.#observed("sweep", () => this.#store.sweep(limit, now));
  }

  ping(): Promise<number> {
    return this.#store.ping();
  }

  close(): Promise<void> {
    [this.#wroteAt, this.#probedAt] = [undefined, -Infinity];
    return this.#store.close();
  }

  /**
   * Resolves if the store takes writes: one succeeded within the last second, or a probe does, of which there is one a
   * second at most.
   * @throws StorageUnavailable if it doesn't, or the clock of this process is wrong.
   */
  async takesWrites(): Promise<void> {
    this.#observers.clocks.require();
    const now = performance.now();
    if (this.#wroteAt !== undefined && now - this.#wroteAt < WRITE_INTERVAL_MS) return;
    if (now - this.#probedAt >= WRITE_INTERVAL_MS) {
      this.#probedAt = now;
      this.#probe = this.#write();
      // The caller gets the error.
      this.#probe.catch(() => undefined);
    }
    await this.#probe;
  }

  #write(): Promise<void> {
    const at = this.#observers.clock.now();
    const put = [WRITE_PROBE.record({ at })];
    return this.commit({ id: randomUUID(), deadline: at + PROBE_TIMEOUT_MS, put });
  }

  async #observed<T>(operation: StoreCall["operation"], call: () => Promise<T>): Promise<T> {
    const { clocks, listener } = this.#observers;
    clocks.require();
    const startedAt = performance.now();
    const ended = (result: StoreCall["result"]): void =>
      listener()?.({ store: this.name, operation, result, seconds: (performance.now() - startedAt) / 1000 });
    try {
      const answer = await call();
      // It works again, so a probe that failed says nothing any more.
      if (this.#wroteAt === undefined) this.#probedAt = -Infinity;
      ended("success");
      return answer;
    } catch (error) {
      ended(error instanceof ConditionFailed ? "conflict" : "failure");
      if (error instanceof StorageUnavailable) {
        error.call ??= { store: this.name, operation };
        this.#wroteAt = undefined;
      }
      throw error;
    }
  }
}
