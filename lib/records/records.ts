/**
 * Typed reads and writes of records. The version that was read is the condition of the write; conflicts are retried.
 */
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
} from "../../adapters/record-store.ts";
import type { Clock } from "../clock.ts";
import { ConditionFailed, StorageUnavailable } from "../errors.ts";

/** A typed record, and the version that was read. */
export interface Read<T> {
  readonly value: T;
  readonly version: string;
}

/** The version that a write expects. */
type Version = Pick<Read<unknown>, "version">;

export function read<T>({ value, version }: Found): Read<T> {
  return { value: value as unknown as T, version };
}

/** A value as the store accepts it. */
export function json(value: object): JsonObject {
  return value as unknown as JsonObject;
}

/** A name as part of a key, hashed so that the key does not reveal it. */
export function hashedPart(name: string): string {
  return `~${hash("sha256", JSON.stringify(name), "base64url")}`;
}

/**
 * A name as part of a key: unchanged if it is short and plain, otherwise hashed. `~` can only be its first character.
 */
export function keyPart(name: string): string {
  return /^[!-}]{1,80}$/.test(name) ? name : hashedPart(name);
}

const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/** The writes and conditions of one commit. */
export class Changes {
  readonly #put = new Map<string, RecordData>();
  readonly #remove: Ref[] = [];
  readonly #expect = new Map<string, Expectation>();

  /** Expects the record to have the version that was read. */
  expect({ kind, key }: Ref, was: Version): void {
    this.#expect.set(nameOf({ kind, key }), { ref: { kind, key }, version: was.version });
  }

  /** Replaces the record that was read. Without `was` it creates the record, which must not exist. */
  write(record: RecordData, was: Version | undefined): void {
    const { kind, key } = record;
    this.#expect.set(nameOf(record), { ref: { kind, key }, version: was?.version ?? "absent" });
    this.#put.set(nameOf(record), record);
  }

  /** Writes a record without a condition. */
  add(record: RecordData): void {
    this.#put.set(nameOf(record), record);
  }

  /** Removes what was read. */
  delete(ref: Ref, was: Version): void {
    this.expect(ref, was);
    this.#remove.push(ref);
  }

  /** Removes a record without a condition, if it exists. */
  drop(ref: Ref): void {
    this.#remove.push(ref);
  }

  /** Adds the writes and conditions of another step. */
  merge(other: Changes): void {
    for (const [name, one] of other.#expect) this.#expect.set(name, one);
    for (const [name, one] of other.#put) this.#put.set(name, one);
    this.#remove.push(...other.#remove);
  }

  isEmpty(): boolean {
    return this.#put.size === 0 && this.#remove.length === 0;
  }

  /** The parts of a commit. */
  parts(): Required<Pick<Commit, "expect" | "put" | "remove">> {
    return { expect: [...this.#expect.values()], put: [...this.#put.values()], remove: this.#remove };
  }
}

/** Milliseconds for an operation outside a request. */
const PATIENCE = 4_500;
/** Milliseconds before an operation is retried after a conflict, at most. */
const LONGEST_PAUSE = 20;
/** Records of one page. */
export const PAGE = 1_000;

/** Which kinds exist, and which store they are in. */
export interface KindRules {
  /** @throws TypeError for kinds of different stores. */
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

  /** Reads several records in one round trip, each with its own type. */
  async get<Types extends readonly unknown[]>(
    refs: readonly Ref[],
  ): Promise<{ readonly [Index in keyof Types]: Read<Types[Index]> | undefined }> {
    const found = (await this.store.get(refs)).map((record) => record && read(record));
    return found as unknown as { readonly [Index in keyof Types]: Read<Types[Index]> | undefined };
  }

  /** At most `most` records of an index. */
  async list<T>(query: Omit<Query, "limit">, most?: number): Promise<Read<T>[]> {
    return (await this.found(query, most)).map((record) => read<T>(record));
  }

  /** The same, without types. */
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

  /** Every record of a kind, once. */
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
   * @returns the version of the written records; `undefined` if there was nothing to write.
   * @throws ConditionFailed when a record has changed since it was read.
   * @throws TypeError for a kind that is not declared, or kinds of two stores.
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

  /**
   * Repeats an operation as long as it conflicts with others.
   * @throws StorageUnavailable when that takes too long.
   */
  async retry<T>(step: () => Promise<T>): Promise<T> {
    const end = performance.now() + PATIENCE;
    for (let tries = 1; ; tries += 1) {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof ConditionFailed)) throw error;
        if (performance.now() >= end) {
          throw new StorageUnavailable("too many concurrent changes to this record", { cause: error });
        }
      }
      await pause(Math.random() * Math.min(tries, LONGEST_PAUSE));
    }
  }
}
