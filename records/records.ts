/**
 * Typed reads and writes of records. The version that was read is the condition of the write; conflicts are retried.
 */
import { hash, randomUUID } from "node:crypto";
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as pause } from "node:timers/promises";
import type {
  Commit,
  Expectation,
  Found,
  Page,
  JsonObject,
  Query,
  RecordData,
  RecordStore,
  Ref,
} from "../adapters/record-store.ts";
import type { Clock } from "../core/clock.ts";
import { ConditionFailed, StorageUnavailable } from "../core/errors.ts";
import { pagesOf } from "../core/pages.ts";

declare const holds: unique symbol;

/** Names a record whose value has this type. */
export interface RefTo<Value> extends Ref {
  /** Exists for the compiler only. */
  readonly [holds]?: (value: Value) => void;
}

/** What records with these references hold; `undefined` for one that is missing. */
type ValuesOf<Refs extends readonly RefTo<never>[]> = {
  readonly [Index in keyof Refs]: Refs[Index] extends RefTo<infer Value> ? Value | undefined : never;
};

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

/**
 * The writes and conditions of one commit. {@link Records.transact} fills it. Only two callers fill it themselves,
 * because their conditions differ from what they read: lanes of deliveries, where a claim must not fail for what is
 * added behind it, and oidc-provider's unit of work, which merges its writes with those of other requests instead of
 * retrying.
 */
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

  /** Whether it puts the record. */
  writes(ref: Ref): boolean {
    return this.#put.has(nameOf(ref));
  }

  /** The records that it is about, by name: the version that one must have which it does not write; `undefined` for those that it writes. */
  touched(): Map<string, string | undefined> {
    const touched = new Map<string, string | undefined>();
    for (const [name, { version }] of this.#expect) touched.set(name, version);
    for (const name of [...this.#put.keys(), ...this.#remove.map(nameOf)]) touched.set(name, undefined);
    return touched;
  }

  /** Whether one of the conditions that failed is about a record of these changes. */
  concerns({ refs }: ConditionFailed): boolean {
    const touched = this.touched();
    return refs.some((ref) => touched.has(nameOf(ref)));
  }

  isEmpty(): boolean {
    return this.#put.size === 0 && this.#remove.length === 0;
  }

  /** The parts of a commit. */
  parts(): Required<Pick<Commit, "expect" | "put" | "remove">> {
    return { expect: [...this.#expect.values()], put: [...this.#put.values()], remove: this.#remove };
  }
}

/** A record as a transaction has read it. */
interface Known {
  readonly value: unknown;
  /** `undefined` if there was none. */
  readonly version: string | undefined;
}

/**
 * A change of stored data while it is decided. What it reads is a condition of what it writes: if a record has changed by
 * the commit, {@link Records.transact} retries. Values are shared, so treat them as immutable.
 */
export class Transaction {
  readonly #store: RecordStore;
  readonly #known = new Map<string, Known>();
  readonly #changes = new Changes();
  readonly #taken = new Map<string, () => Error>();
  readonly #followUps: (() => void | Promise<void>)[] = [];
  #isOutdated = false;

  constructor(store: RecordStore) {
    this.#store = store;
  }

  /**
   * Reads a record once, however often it is asked for. A missing record is a condition only if this transaction
   * puts it.
   */
  async get<Value>(ref: RefTo<Value>): Promise<Value | undefined> {
    const [value] = await this.getAll([ref]);
    return value;
  }

  /** Reads several records in one round trip. */
  async getAll<const Refs extends readonly RefTo<never>[]>(refs: Refs): Promise<ValuesOf<Refs>> {
    const values = await this.peekAll(refs);
    for (const ref of refs) {
      const { version } = this.#known.get(nameOf(ref)) as Known;
      if (version !== undefined && !this.#changes.writes(ref)) this.#changes.expect(ref, { version });
    }
    return values;
  }

  /** Reads records whose changes don't matter to what is written. Putting one makes what was read a condition after all. */
  async peekAll<const Refs extends readonly RefTo<never>[]>(refs: Refs): Promise<ValuesOf<Refs>> {
    const names = refs.map(nameOf);
    const unknown = new Map<string, Ref>();
    for (const [index, ref] of refs.entries()) {
      const name = names[index] ?? "";
      if (!this.#known.has(name)) unknown.set(name, ref);
    }
    if (unknown.size > 0) {
      const found = await this.#store.get([...unknown.values()]);
      for (const [index, name] of [...unknown.keys()].entries())
        this.#known.set(name, { value: found[index]?.value, version: found[index]?.version });
    }
    return names.map((name) => this.#known.get(name)?.value) as unknown as ValuesOf<Refs>;
  }

  /**
   * Lists one page of each index, without a condition. What it finds is not read again: a `get` only makes it a
   * condition.
   */
  async list<Value>(queries: readonly Query[]): Promise<Value[][]> {
    const pages = await this.#store.list(queries);
    return pages.map(({ records }) =>
      records.map((found) => {
        const name = nameOf(found);
        if (!this.#known.has(name)) this.#known.set(name, { value: found.value, version: found.version });
        return this.#known.get(name)?.value as Value;
      }),
    );
  }

  /** Adds a record that this attempt has read in another way, as if `get` had read it. */
  adopt(record: Pick<Found, "kind" | "key" | "value" | "version">): void {
    const { value, version } = record;
    this.#known.set(nameOf(record), { value, version });
    this.#changes.expect(record, { version });
  }

  /**
   * Puts a record that this transaction has read, or has found to be missing.
   * @throws TypeError for a record that it has not read: what another process wrote would be lost.
   */
  put(record: RecordData): void {
    const known = this.#known.get(nameOf(record));
    if (known === undefined) throw new TypeError(`a record of ${record.kind} is put without being read`);
    this.#changes.write(record, known.version === undefined ? undefined : { version: known.version });
    this.#know(record, record.value);
  }

  /**
   * Creates a record without reading it first. A random key needs no `taken`.
   * @param taken the error of {@link Records.transact} when there is one already. Default: it retries.
   */
  create(record: RecordData, taken?: () => Error): void {
    this.#changes.write(record, undefined);
    this.#know(record, record.value);
    if (taken !== undefined) this.#taken.set(nameOf(record), taken);
  }

  /** Puts a record whatever is there: for one that replaces all earlier ones. Reads don't see it. */
  overwrite(record: RecordData): void {
    this.#changes.add(record);
  }

  /** Removes a record: what was read, or whatever is there if it was not read. */
  remove(ref: Ref): void {
    if (this.#changes.writes(ref)) throw new TypeError(`a record of ${ref.kind} is put and removed`);
    const known = this.#known.get(nameOf(ref));
    if (known === undefined) this.#changes.drop(ref);
    else if (known.version !== undefined) this.#changes.delete(ref, { version: known.version });
    this.#know(ref, undefined);
  }

  /** Later reads see what is written. */
  #know(ref: Ref, value: unknown): void {
    this.#known.set(nameOf(ref), { value, version: this.#known.get(nameOf(ref))?.version });
  }

  /**
   * The error to throw when what was read does not fit together, because it was changed in between: the transaction is
   * retried.
   */
  outdated(message: string): ConditionFailed {
    this.#isOutdated = true;
    return new ConditionFailed(message);
  }

  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /** Runs `work` once the transaction is committed, after what was added before. It must not reject. */
  afterCommit(work: () => void | Promise<void>): void {
    this.#followUps.push(work);
  }

  /** Runs what follows the commit. */
  async followUp(): Promise<void> {
    for (const work of this.#followUps) await work();
  }

  /** The version of a record that was read; `undefined` if it is missing. */
  versionOf(ref: Ref): string | undefined {
    return this.#known.get(nameOf(ref))?.version;
  }

  /** What is to be committed. */
  get changes(): Changes {
    return this.#changes;
  }

  /**
   * The error for a record that should be new but exists. `undefined` if another condition failed as well: then the
   * transaction is retried, and may not create it.
   */
  refusalOf({ refs }: ConditionFailed): Error | undefined {
    const taken = refs.map((ref) => this.#taken.get(nameOf(ref)));
    return taken.includes(undefined) ? undefined : taken[0]?.();
  }
}

/** How changes are committed. */
type CommitOptions = Pick<Commit, "relaxed" | "quiet"> & Partial<Pick<Commit, "deadline">>;

/**
 * Adds something to a transaction of an operation that does not know about it: records, or a condition. It is called for each attempt,
 * after the work and before the commit. What it throws ends the transaction.
 * @returns `false` if it waits for a later transaction. Default: it rides along with this one, and with no other.
 */
export type Rider = (tx: Transaction) => void | boolean | Promise<void | boolean>;

interface Ride {
  readonly rider: Rider;
  /** It is in a commit, or what it rides along has ended. */
  isOver: boolean;
}

/** For an operation outside a request. */
const OPERATION_TIMEOUT_MS = 4_500;
/** The longest pause before an operation is retried. */
const MAX_RETRY_PAUSE_MS = 20;
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
  readonly #rides = new AsyncLocalStorage<Ride | undefined>();

  constructor(store: RecordStore, clock: Clock, kinds: KindRules) {
    this.store = store;
    this.clock = clock;
    this.#kinds = kinds;
  }

  async find<Value>(ref: RefTo<Value>): Promise<Read<Value> | undefined> {
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

  /** Like `list`, without types. */
  async found(query: Omit<Query, "limit">, most: number = Number.MAX_SAFE_INTEGER): Promise<Found[]> {
    const found: Found[] = [];
    for await (const { records } of this.pages({ ...query, limit: Math.min(PAGE, most) })) {
      found.push(...records);
      if (found.length >= most) break;
    }
    return found.slice(0, most);
  }

  /** The pages of an index. */
  pages(query: Query): AsyncIterable<Page> {
    return pagesOf(async (after) => {
      const [page] = await this.store.list([{ ...query, after }]);
      return page ?? { records: [] };
    });
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
  async commit(changes: Changes, options: CommitOptions = {}): Promise<string | undefined> {
    if (changes.isEmpty()) return undefined;
    const { expect, put, remove } = changes.parts();
    const kinds = new Set<string>();
    for (const { ref } of expect) kinds.add(ref.kind);
    for (const { kind } of put) kinds.add(kind);
    for (const { kind } of remove) kinds.add(kind);
    this.#kinds.checkTogether(kinds);
    const deadline = this.clock.now() + OPERATION_TIMEOUT_MS;
    const id = randomUUID();
    await this.store.commit({ id, deadline, expect, put, remove, ...options });
    return id;
  }

  /**
   * Changes stored data: decides with `work`, and commits what it has put, on condition that nothing that it has read has
   * changed. Otherwise it retries. A transaction that writes nothing is not checked.
   * @param work is called once for each attempt, so it must have no other effects.
   * @returns what `work` returned in the attempt that was committed.
   * @throws what `work` throws, without trying again; StorageUnavailable when there are too many concurrent changes.
   */
  async transact<T>(work: (tx: Transaction) => T | Promise<T>, options?: CommitOptions): Promise<T> {
    const ride = this.#rides.getStore();
    const done = await this.retry(async () => {
      const tx = new Transaction(this.store);
      let result: T;
      let isCarried = false;
      try {
        result = await work(tx);
        if (ride !== undefined && !ride.isOver && !tx.changes.isEmpty()) {
          const rides = await this.#rides.run(undefined, () => ride.rider(tx));
          isCarried = rides !== false;
        }
      } catch (error) {
        if (tx.isOutdated) throw error;
        return { error };
      }
      try {
        await this.commit(tx.changes, options);
        if (ride !== undefined && isCarried) ride.isOver = true;
      } catch (error) {
        throw (error instanceof ConditionFailed && tx.refusalOf(error)) || error;
      }
      return { tx, result };
    });
    if ("error" in done) throw done.error;
    await done.tx.followUp();
    return done.result;
  }

  /**
   * Lets something ride along with an operation: in the first transaction of `run` that it wants and that commits, and in none that writes nothing. Inside
   * another one, only the inner one rides.
   * @returns what `run` returns.
   */
  async along<T>(rider: Rider, run: () => Promise<T>): Promise<T> {
    const ride: Ride = { rider, isOver: false };
    try {
      return await this.#rides.run(ride, run);
    } finally {
      // What the operation has started, and does not wait for, is not part of it.
      ride.isOver = true;
    }
  }

  /**
   * Repeats an operation as long as it conflicts with others.
   * @throws StorageUnavailable when that takes too long.
   */
  async retry<T>(step: () => Promise<T>): Promise<T> {
    const end = performance.now() + OPERATION_TIMEOUT_MS;
    for (let tries = 1; ; tries += 1) {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof ConditionFailed)) throw error;
        if (performance.now() >= end) {
          throw new StorageUnavailable("too many concurrent changes to this record", { cause: error });
        }
      }
      await pause(Math.random() * Math.min(tries, MAX_RETRY_PAUSE_MS));
    }
  }
}
