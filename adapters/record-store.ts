/**
 * The storage contract: a store of records. A backend knows records, indexes, conditions and expiry, and nothing about
 * accounts, tokens or deliveries; every rule that has a meaning stands once above it.
 *
 * What every backend promises, and `describeStorage` tests:
 *
 * 1. Of two commits that each rely on what the other one changes, at most one succeeds. Expectations are about
 *    records; they say nothing about indexes.
 * 2. A record is never seen half-written. Indexes and parents agree with it, in every process, from the moment its
 *    commit is acknowledged.
 * 3. A commit never begins after its deadline.
 * 4. An expired record is gone for every read from that millisecond on, whether or not it has been deleted.
 * 5. Removing a parent hides its children in the same instant. A child belongs to the parent that was there when the
 *    child was put, never to a later one with the same key.
 * 6. What goes in is copied, and what comes out is a copy or frozen.
 * 7. A relaxed commit is acknowledged only when every durable commit that it may have read, of any process, is on disk.
 *
 * Two errors leave a backend: `ConditionFailed`, with the records whose expectation did not hold, and
 * `StorageUnavailable` for every fault. When an acknowledgement is lost, the backend finds out by itself whether the
 * commit happened, until its deadline; callers never send a commit twice. A commit that breaks a rule of this
 * interface is a `TypeError` and a defect of the caller.
 */

/** A value that survives JSON unchanged. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

export type JsonObject = { readonly [name: string]: JsonValue };

/** Names a record. */
export interface Ref {
  /** Lower-case words with hyphens, such as `access-token`: at most 40 characters. */
  readonly kind: string;
  /** 1 to 200 characters of visible ASCII. What people type is hashed or encoded before it gets here. */
  readonly key: string;
}

/** Where `list` finds a record: exactly under `at`, in the sequence of `order`. */
export interface IndexEntry {
  /** Name of the index, unique within the kind: lower-case words with hyphens. */
  readonly name: string;
  /** The partition, in the form of a key. */
  readonly at: string;
  /** The place in the partition: a safe integer. Records of one order come in a fixed sequence of the store's own. */
  readonly order: number;
}

/** A record as it is written. */
export interface RecordData extends Ref {
  /** Opaque to the store. */
  readonly value: JsonObject;
  /** All entries of the record: those that an earlier version had and this one has not are gone. At most one for each `at`. */
  readonly index?: readonly IndexEntry[];
  /** The record is found only while this one is there. A parent has no parent of its own. */
  readonly parent?: Ref;
  /** Milliseconds since the epoch: from then on the record is gone. Without it the record stays. */
  readonly expiresAt?: number;
}

/** A record as it is read. */
export interface Found extends Ref {
  readonly value: JsonObject;
  /** `id` of the commit that wrote it: the condition of the next write. */
  readonly version: string;
  readonly expiresAt?: number;
  /** Only from `get` with `withParents`. */
  readonly parent?: Found;
}

/** One page of an index, or the next one. */
export interface Query {
  readonly kind: string;
  readonly index: string;
  readonly at: string;
  /** The first and the last `order`, both included. Default: no bound. */
  readonly from?: number;
  readonly to?: number;
  /** `next` of the page before. */
  readonly after?: Position;
  /** How many records at most: 1 to 1,000. */
  readonly limit: number;
  /** The highest `order` first. */
  readonly descending?: boolean;
}

/** A place in an index or a scan. Opaque, and good for the same query in any process. */
export type Position = string;

export interface Page {
  readonly records: readonly Found[];
  /** Where the next page begins; missing at the end. A page that has one may hold fewer records than its limit. */
  readonly next?: Position;
}

/** A condition on one record. */
export interface Expectation {
  readonly ref: Ref;
  /** The version that it has; or `absent`: it is not there; or `present`: it is there, whatever its version. */
  readonly version: string;
}

/** What is written together: all of it, or nothing. A record is put or removed once at most. */
export interface Commit {
  /** Unique: 1 to 64 characters of visible ASCII, neither `absent` nor `present`. Becomes the version of what is put. */
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
  /** `absent` only for a record that this commit puts. */
  readonly expect?: readonly Expectation[];
  /** A parent has to be there already, or to be put by the same commit; else the condition of its child failed. */
  readonly put?: readonly RecordData[];
  /** Removing what is not there does nothing. */
  readonly remove?: readonly Ref[];
  /** May be forgotten when the machine of the store loses power. */
  readonly relaxed?: boolean;
}

export interface RecordStore {
  /** In the order asked for, in one round trip; `undefined` for what is missing, has expired, or has lost its parent. */
  get(refs: readonly Ref[], options?: { readonly withParents?: boolean }): Promise<(Found | undefined)[]>;
  /** One page of each query, in one round trip. */
  list(queries: readonly Query[]): Promise<Page[]>;
  /**
   * Every record of a kind, in no particular sequence: a record that is there from the first page to the last comes
   * at least once. For copies, checks and exports.
   */
  scan(kind: string, after: Position | undefined, limit: number): Promise<Page>;
  /** How many records each query finds without its limit: at least as many as there are. */
  count(queries: readonly Query[]): Promise<number[]>;
  /** @throws ConditionFailed when an expectation does not hold; nothing is written. */
  commit(change: Commit): Promise<void>;
  /**
   * The next number of a counter, from 1 on: larger than every one before, and never handed out twice.
   * @param atLeast the counter goes on from here if it has not come that far.
   */
  next(counter: string, atLeast?: number): Promise<number>;
  /** Deletes what has expired or lost its parent, at most `limit` records. @returns how many. */
  sweep(limit: number): Promise<number>;
  /**
   * Optional: calls `onChange` soon after another process has committed something of these kinds. A hint that may
   * come late, for nothing, or never. @returns a function that ends it.
   */
  watch?(kinds: readonly string[], onChange: () => void): () => void;
  /** One cheap round trip. @returns milliseconds since the epoch by the clock that all processes of this store share. */
  ping(): Promise<number>;
  /** Finishes what was begun and lets go of files and connections. Safe to call twice. */
  close(): Promise<void>;
}

/** The shape of a key, of `at` and of the id of a commit, for backends that check what they are given. */
const VISIBLE = /^[\x21-\x7e]{1,200}$/;
const WORDS = /^[a-z][a-z0-9-]{0,39}$/;

function checkRef({ kind, key }: Ref): void {
  if (!WORDS.test(kind)) throw new TypeError("a kind has 1 to 40 lower-case letters, digits and hyphens");
  if (!VISIBLE.test(key)) throw new TypeError(`a key of ${kind} has 1 to 200 characters of visible ASCII`);
}

function checkRecord({ kind, index = [], parent, expiresAt }: RecordData): void {
  if (parent !== undefined) checkRef(parent);
  if (expiresAt !== undefined && !Number.isFinite(expiresAt)) throw new TypeError(`expiresAt of ${kind}`);
  const places = new Set<string>();
  for (const { name, at, order } of index) {
    if (!WORDS.test(name)) throw new TypeError(`the name of an index of ${kind} has lower-case words`);
    if (!VISIBLE.test(at))
      throw new TypeError(`at of ${kind}.${name} has 1 to 200 characters of visible ASCII`);
    if (!Number.isSafeInteger(order)) throw new TypeError(`order of ${kind}.${name} is a safe integer`);
    if (places.has(`${name} ${at}`))
      throw new TypeError(`a record of ${kind} is twice under one key of an index`);
    places.add(`${name} ${at}`);
  }
}

/** For backends: refuses a commit that breaks a rule of the contract. @throws TypeError */
export function checkCommit({ id, deadline, expect = [], put = [], remove = [] }: Commit): void {
  if (!VISIBLE.test(id) || id.length > 64 || id === "absent" || id === "present")
    throw new TypeError("the id of a commit has 1 to 64 characters of visible ASCII");
  if (!Number.isFinite(deadline)) throw new TypeError("a commit has a deadline");
  const written = new Set<string>();
  for (const ref of [...put, ...remove]) {
    checkRef(ref);
    const name = `${ref.kind} ${ref.key}`;
    if (written.has(name)) throw new TypeError(`a commit writes a record of ${ref.kind} twice`);
    written.add(name);
  }
  for (const record of put) checkRecord(record);
  const puts = new Set(put.map(({ kind, key }) => `${kind} ${key}`));
  for (const { ref, version } of expect) {
    checkRef(ref);
    if (version === "absent" && !puts.has(`${ref.kind} ${ref.key}`))
      throw new TypeError(`a commit that expects no record of ${ref.kind} has to put it`);
  }
}
