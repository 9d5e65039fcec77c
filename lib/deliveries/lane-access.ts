/** Reading lanes and receivers, and writing what depends on what was read. */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type { DeliveryState, LaneKey } from "../../adapters/deliveries.ts";
import type {
  Commit,
  Expectation,
  Query,
  RecordData,
  RecordStore,
  Ref,
} from "../../adapters/record-store.ts";
import type { Clock } from "../clock.ts";
import { ConditionFailed, StorageUnavailable } from "../errors.ts";
import {
  deliveryRecord,
  deliveryRef,
  type KeptDelivery,
  type KnownReceiver,
  type Lane,
  laneKey,
  laneRef,
  type Read,
  read,
  receiverRef,
} from "./records.ts";

/** Milliseconds that a step outside a request may take. */
const PATIENCE = 4_500;
/** Milliseconds before a step that met another one is tried again, at most. */
const LONGEST_PAUSE = 20;
/** Deliveries in one page. */
export const PAGE = 1_000;

/** What one step writes, collected with its conditions. */
export class Changes {
  readonly #put = new Map<string, RecordData>();
  readonly #remove: Ref[] = [];
  readonly #expect = new Map<string, Expectation>();

  /** The record is as it was read; `undefined`: it is not there. */
  expect(ref: Ref, was: Read<unknown> | undefined): void {
    this.#expect.set(`${ref.kind} ${ref.key}`, { ref, version: was?.version ?? "absent" });
  }

  write(record: RecordData, was: Read<unknown> | undefined): void {
    this.expect(record, was);
    this.#put.set(`${record.kind} ${record.key}`, record);
  }

  delete(ref: Ref, was: Read<unknown>): void {
    this.expect(ref, was);
    this.#remove.push(ref);
  }

  /** For the commit. */
  parts(): Required<Pick<Commit, "expect" | "put" | "remove">> {
    return { expect: [...this.#expect.values()], put: [...this.#put.values()], remove: this.#remove };
  }
}

export class LaneAccess {
  readonly store: RecordStore;
  readonly clock: Clock;

  constructor(store: RecordStore, clock: Clock) {
    this.store = store;
    this.clock = clock;
  }

  /** Several records in one round trip, each of its own type. */
  async get<Types extends readonly unknown[]>(
    refs: readonly Ref[],
  ): Promise<{ readonly [Index in keyof Types]: Read<Types[Index]> | undefined }> {
    const found = (await this.store.get(refs)).map((record) => record && read(record));
    return found as unknown as { readonly [Index in keyof Types]: Read<Types[Index]> | undefined };
  }

  async delivery(id: string): Promise<Read<KeptDelivery> | undefined> {
    const [found] = await this.store.get([deliveryRef(id)]);
    return found && read(found);
  }

  async lane(lane: LaneKey): Promise<Read<Lane> | undefined> {
    const [found] = await this.store.get([laneRef(lane)]);
    return found && read(found);
  }

  async receiver(receiver: string): Promise<Read<KnownReceiver> | undefined> {
    const [found] = await this.store.get([receiverRef(receiver)]);
    return found && read(found);
  }

  /** All receivers to which something was ever to be sent, ordered by name. */
  async receivers(): Promise<KnownReceiver[]> {
    const found: KnownReceiver[] = [];
    for (let after: string | undefined; ;) {
      const { records, next } = await this.store.scan("receiver", after, PAGE);
      found.push(...records.map((record) => read<KnownReceiver>(record).value));
      if (next === undefined) break;
      after = next;
    }
    // A scan may give a record twice.
    const unique = new Map(found.map((each) => [each.receiver, each] as const));
    return [...unique.values()].toSorted((one, other) => (one.receiver < other.receiver ? -1 : 1));
  }

  /** What waits in a lane, its head first. */
  async waiting(lane: LaneKey, most: number): Promise<Read<KeptDelivery>[]> {
    return this.deliveries(laneQuery(lane, "waiting"), most);
  }

  /** What an index has, at most so many. */
  async deliveries(query: Omit<Query, "limit">, most: number): Promise<Read<KeptDelivery>[]> {
    const found: Read<KeptDelivery>[] = [];
    for (let after: string | undefined; found.length < most;) {
      const limit = Math.min(PAGE, most - found.length);
      const [page] = await this.store.list([{ ...query, limit, ...(after === undefined ? {} : { after }) }]);
      found.push(...(page?.records ?? []).map((record) => read<KeptDelivery>(record)));
      if (page?.next === undefined) break;
      after = page.next;
    }
    return found;
  }

  /** @throws ConditionFailed when something was changed since it was read. */
  async commit(changes: Changes, options: { readonly relaxed?: boolean } = {}): Promise<void> {
    const parts = changes.parts();
    if (parts.put.length === 0 && parts.remove.length === 0) return;
    await this.store.commit({
      id: randomUUID(),
      deadline: this.clock.now() + PATIENCE,
      ...parts,
      ...options,
    });
  }

  /** Runs a step again and again while another one is faster. @throws StorageUnavailable when that takes too long. */
  async retry<T>(step: () => Promise<T>): Promise<T> {
    const end = performance.now() + PATIENCE;
    for (let tries = 1; ; tries += 1) {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof ConditionFailed)) throw error;
        if (performance.now() >= end) {
          throw new StorageUnavailable("this lane or receiver is being changed by too many at once", {
            cause: error,
          });
        }
      }
      await pause(Math.random() * Math.min(tries, LONGEST_PAUSE));
    }
  }
}

export function laneQuery(lane: LaneKey, state: DeliveryState): Omit<Query, "limit"> {
  return { kind: "delivery", index: "lane", at: `${state}~${laneKey(lane)}` };
}

/** Writes a delivery if it is not as it was. */
export function writeDelivery(changes: Changes, was: Read<KeptDelivery>, now: KeptDelivery): void {
  if (now !== was.value) changes.write(deliveryRecord(now), was);
}
