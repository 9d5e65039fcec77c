/** What every case of the storage contract uses: an empty store, opened twice, and a manual clock. */
import { randomUUID } from "node:crypto";
import type { Commit, Found, RecordData, RecordStore, Ref } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";

/** The time at which every case starts. */
export const START = 1_800_000_000_000;

/** A clock that stands still until it is advanced. */
export class ManualClock implements Clock {
  readonly virtual = true;
  #now: number;
  constructor(now: number = START) {
    this.#now = now;
  }
  now(): number {
    return this.#now;
  }
  /** @param milliseconds by which the clock moves. */
  advance(milliseconds: number): void {
    this.#now += milliseconds;
  }
}

/** A backend under test. */
export interface StorageBackend {
  /** Opens an empty store. Everything that depends on time follows this clock. */
  open(clock: Clock): Promise<RecordStore>;
  /**
   * Opens the last store of `open` again, as another process would: while it is open, or after it was closed. Left out
   * for a store that does not outlive `close`.
   */
  reopen?(clock: Clock): Promise<RecordStore>;
  /**
   * Cases that this backend can't pass, with the reasons: they are skipped, and the report says why. A case is named
   * by the titles that lead to it: `"indexes > keep …"`. A name without a case fails.
   */
  readonly differences?: Readonly<Record<string, string>>;
}

/** The store of the running case; each case has a new one. */
export interface Stage {
  store: RecordStore;
  /** The same records through another connection; `store` itself if there can be only one. */
  second: RecordStore;
  clock: ManualClock;
}

/** A record of the kind `thing`. */
export function thing(key: string, parts: Partial<RecordData> = {}): RecordData {
  return { kind: "thing", key, value: { key }, ...parts };
}

export function ref(key: string, kind = "thing"): Ref {
  return { kind, key };
}

/** Commits within five seconds, and returns the version of the written records. */
export async function commit(
  { store, clock }: Pick<Stage, "store" | "clock">,
  change: Omit<Commit, "id" | "deadline">,
): Promise<string> {
  const id = randomUUID();
  await store.commit({ id, deadline: clock.now() + 5_000, ...change });
  return id;
}

/** One record, without its parent. */
export async function find(store: RecordStore, key: string, kind = "thing"): Promise<Found | undefined> {
  const [found] = await store.get([{ kind, key }]);
  return found;
}

/** The keys of the records, in order; `undefined` for missing ones. */
export const keysOf = (found: readonly (Pick<Found, "key"> | undefined)[]): (string | undefined)[] =>
  found.map((record) => record?.key);

/** The stable codes of the errors among the results, `done` for a success. */
export async function outcomes(calls: readonly Promise<unknown>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(calls);
  return settled.map((result) =>
    result.status === "fulfilled" ? "done" : Reflect.get(Object(result.reason), "code"),
  );
}
