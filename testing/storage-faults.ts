/** Storage faults on demand, for tests. */
import { setTimeout as pause } from "node:timers/promises";
import type { Commit, RecordStore } from "../adapters/record-store.ts";
import { StorageUnavailable } from "../core/errors.ts";

/** What a test can do to the storage of its service. */
export interface StorageFaults {
  /**
   * The next commits fail and write nothing. Requests that need one get a 503. What the service records in the
   * background, such as the audit of sign-ins, doesn't count.
   * @param count how many; default 1.
   */
  failCommits(count?: number): void;
  /** Every read and commit fails, and so does the health check, until {@link StorageFaults.mend}. */
  unavailable(): void;
  /** Delays every read and commit, by the system's time. */
  slow(delayMs: number): void;
  /** Ends all faults. */
  mend(): void;
}

/** Faults, and the function that puts them between a service and its stores. */
interface PlantedFaults {
  readonly faults: StorageFaults;
  through(store: RecordStore): RecordStore;
}

/** Written in the background, at times that a test can't know. */
const IN_BACKGROUND = "audit";

const isInBackground = ({ put = [], remove = [] }: Commit): boolean =>
  [...put, ...remove].every(({ kind }) => kind === IN_BACKGROUND);

export function createStorageFaults(): PlantedFaults {
  let isAway = false;
  let delay = 0;
  let failing = 0;

  async function fault(): Promise<void> {
    if (delay > 0) await pause(delay);
    if (isAway) throw new StorageUnavailable("the test has made the storage unavailable");
  }

  return {
    faults: {
      failCommits(count = 1) {
        if (!Number.isInteger(count) || count < 0) throw new TypeError("count: must be 0 or more");
        failing = count;
      },
      unavailable() {
        isAway = true;
      },
      slow(delayMs) {
        if (!(delayMs >= 0)) throw new TypeError("delayMs: must be 0 or more");
        delay = delayMs;
      },
      mend() {
        isAway = false;
        delay = 0;
        failing = 0;
      },
    },
    through: (store) => ({
      get: (refs, options) => fault().then(() => store.get(refs, options)),
      list: (queries) => fault().then(() => store.list(queries)),
      scan: (kind, after, limit) => fault().then(() => store.scan(kind, after, limit)),
      count: (queries) => fault().then(() => store.count(queries)),
      next: (counter, atLeast) => fault().then(() => store.next(counter, atLeast)),
      sweep: (limit, now) => fault().then(() => store.sweep(limit, now)),
      ping: () => fault().then(() => store.ping()),
      async commit(change) {
        if (failing > 0 && !isInBackground(change)) {
          failing -= 1;
          throw new StorageUnavailable("the test has made this commit fail");
        }
        await fault();
        await store.commit(change);
      },
      close: () => store.close(),
      ...(store.watch !== undefined && {
        watch: (kinds, onChange) => store.watch?.(kinds, onChange) ?? (() => undefined),
      }),
    }),
  };
}
