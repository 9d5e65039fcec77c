/** Reading and writing records: typed values, the versions that were read as conditions, and trying again. */
import { hash, randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type {
  Commit,
  Expectation,
  Found,
  JsonObject,
  Query,
  RecordData,
  RecordStore,
  Ref,
} from "../adapters/record-store.ts";
import type { Clock } from "./clock.ts";
import { ConditionFailed, StorageUnavailable } from "./errors.ts";

/** A record with its value as the type that its kind has, and the version that was read. */
export interface Read<T> {
  readonly value: T;
  readonly version: string;
}

/** What was read, as the condition of a write. */
type Version = Pick<Read<unknown>, "version">;

export function read<T>({ value, version }: Found): Read<T> {
  return { value: value as unknown as T, version };
}

/** The value of a record as the store takes it. */
export function json(value: object): JsonObject {
  return value as unknown as JsonObject;
}

/** A name that is not to be read where it is a key. */
export function hashedPart(name: string): string {
  return `~${hash("sha256", JSON.stringify(name), "base64url")}`;
}

/** A name as a key or a part of one: itself where it is short and plain, else its hash. It never holds `~` but at its start. */
export function keyPart(name: string): string {
  return /^[!-}]{1,80}$/.test(name) ? name : hashedPart(name);
}

const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/** What one step writes, collected with its conditions. */
export class Changes {
  readonly #put = new Map<string, RecordData>();
  readonly #remove: Ref[] = [];
  readonly #expect = new Map<string, Expectation>();

  /** The record is as it was read. */
  expect({ kind, key }: Ref, was: Version): void {
    this.#expect.set(nameOf({ kind, key }), { ref: { kind, key }, version: was.version });
  }

  /** Replaces what was read; without `was` it creates the record, which must not be there. */
  write(record: RecordData, was: Version | undefined): void {
    const { kind, key } = record;
    this.#expect.set(nameOf(record), { ref: { kind, key }, version: was?.version ?? "absent" });
    this.#put.set(nameOf(record), record);
  }

  /** Writes a record that nobody else writes. */
  add(record: RecordData): void {
    this.#put.set(nameOf(record), record);
  }

  /** Removes what was read. */
  delete(ref: Ref, was: Version): void {
    this.expect(ref, was);
    this.#remove.push(ref);
  }

  /** Removes a record that nobody else writes, if it is there. */
  drop(ref: Ref): void {
    this.#remove.push(ref);
  }

  /** Takes over what another step has collected. */
  merge(other: Changes): void {
    for (const [name, one] of other.#expect) this.#expect.set(name, one);
    for (const [name, one] of other.#put) this.#put.set(name, one);
    this.#remove.push(...other.#remove);
  }

  isEmpty(): boolean {
    return this.#put.size === 0 && this.#remove.length === 0;
  }

  /** For the commit. */
  parts(): Required<Pick<Commit, "expect" | "put" | "remove">> {
    return { expect: [...this.#expect.values()], put: [...this.#put.values()], remove: this.#remove };
  }
}

/** Milliseconds that a step outside a request may take. */
const PATIENCE = 4_500;
/** Milliseconds before a step that met another one is tried again, at most. */
const LONGEST_PAUSE = 20;
/** Records in one page. */
export const PAGE = 1_000;

/** Knows which kinds there are, and which of them are kept together. */
export interface KindRules {
  /** @throws TypeError when one commit can't be about all of these. */
  checkTogether(kinds: Iterable<string>): void;
}

export class Records {
  readonly store: RecordStore;
  readonly clock: Clock;
  readonly #kinds: KindRules;

  constructor(store: RecordStore, clock: Clock, kinds: KindRules) {
    this.store = store;
    this.clock = clock;
    this.#kinds = kinds;
  }

  async find<T>(ref: Ref): Promise<Read<T> | undefined> {
    const [found] = await this.store.get([ref]);
    return found && read(found);
  }

  /** Several records in one round trip, each of its own type. */
  async get<Types extends readonly unknown[]>(
    refs: readonly Ref[],
  ): Promise<{ readonly [Index in keyof Types]: Read<Types[Index]> | undefined }> {
    const found = (await this.store.get(refs)).map((record) => record && read(record));
    return found as unknown as { readonly [Index in keyof Types]: Read<Types[Index]> | undefined };
  }

  /** What an index has, at most so many. */
  async list<T>(query: Omit<Query, "limit">, most?: number): Promise<Read<T>[]> {
    return (await this.found(query, most)).map((record) => read<T>(record));
  }

  /** The records themselves of what an index has, at most so many. */
  async found(query: Omit<Query, "limit">, most: number = Number.MAX_SAFE_INTEGER): Promise<Found[]> {
    const found: Found[] = [];
    for (let after: string | undefined; found.length < most;) {
      const limit = Math.min(PAGE, most - found.length);
      const [page] = await this.store.list([{ ...query, limit, ...(after === undefined ? {} : { after }) }]);
      found.push(...(page?.records ?? []));
      if (page?.next === undefined) break;
      after = page.next;
    }
    return found;
  }

  /** Every record of a kind, each once. */
  async all<T>(kind: string): Promise<T[]> {
    const found = new Map<string, T>();
    for (let after: string | undefined; ;) {
      const { records, next } = await this.store.scan(kind, after, PAGE);
      for (const record of records) found.set(record.key, read<T>(record).value);
      if (next === undefined) return [...found.values()];
      after = next;
    }
  }

  /**
   * @returns the version of what is written; `undefined` when there was nothing to write.
   * @throws ConditionFailed when something was changed since it was read.
   * @throws TypeError when it writes a kind that nobody has declared, or kinds of two stores.
   */
  async commit(
    changes: Changes,
    options: { readonly relaxed?: boolean; readonly deadline?: number } = {},
  ): Promise<string | undefined> {
    if (changes.isEmpty()) return undefined;
    const { expect, put, remove } = changes.parts();
    const kinds = new Set<string>();
    for (const { ref } of expect) kinds.add(ref.kind);
    for (const { kind } of put) kinds.add(kind);
    for (const { kind } of remove) kinds.add(kind);
    this.#kinds.checkTogether(kinds);
    const deadline = this.clock.now() + PATIENCE;
    const id = randomUUID();
    await this.store.commit({ id, deadline, expect, put, remove, ...options });
    return id;
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
          throw new StorageUnavailable("too many change the same record at once", { cause: error });
        }
      }
      await pause(Math.random() * Math.min(tries, LONGEST_PAUSE));
    }
  }
}
