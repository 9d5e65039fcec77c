/** Measures the calls to a store. */
import type { RecordStore } from "../../adapters/record-store.ts";
import { ConditionFailed } from "../errors.ts";
import type { StoreCall } from "../metrics.ts";

/** The same store, whose calls are reported when they have ended. Without a listener nothing is measured. */
export function timedStore(
  store: RecordStore,
  name: StoreCall["store"],
  listener: () => ((call: StoreCall) => void) | undefined,
): RecordStore {
  async function timed<T>(operation: StoreCall["operation"], call: () => Promise<T>): Promise<T> {
    const report = listener();
    if (report === undefined) return call();
    const startedAt = performance.now();
    const ended = (result: StoreCall["result"]): void =>
      report({ store: name, operation, result, seconds: (performance.now() - startedAt) / 1000 });
    try {
      const answer = await call();
      ended("success");
      return answer;
    } catch (error) {
      ended(error instanceof ConditionFailed ? "conflict" : "failure");
      throw error;
    }
  }

  return {
    get: (refs, options) => timed("get", () => store.get(refs, options)),
    list: (queries) => timed("list", () => store.list(queries)),
    scan: (kind, after, limit) => timed("scan", () => store.scan(kind, after, limit)),
    count: (queries) => timed("count", () => store.count(queries)),
    commit: (change) => timed("commit", () => store.commit(change)),
    next: (counter, atLeast) => timed("next", () => store.next(counter, atLeast)),
    sweep: (limit) => timed("sweep", () => store.sweep(limit)),
    ping: () => store.ping(),
    close: () => store.close(),
    ...(store.watch !== undefined && {
      watch: (kinds, onChange) => store.watch?.(kinds, onChange) ?? (() => undefined),
    }),
  };
}
