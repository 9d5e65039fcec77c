/**
 * The storage contract: a store of records. A backend knows records, indexes, conditions and expiry. It knows nothing
 * about accounts, tokens or deliveries: those rules are written once, above it.
 *
 * Every backend makes these promises, and `describeStorage` tests them:
 *
 * 1. Of two commits that each rely on what the other one changes, at most one succeeds. Expectations are about
 *    records; they say nothing about indexes.
 * 2. A record is never seen half-written. Indexes and parents agree with it, in every process, from the moment its
 *    commit is acknowledged.
 * 3. A commit never begins after its deadline.
 * 4. An expired record is gone for every read from that millisecond on, whether or not it has been deleted.
 * 5. Removing a parent hides its children at the same instant. A child belongs to the parent that existed when the
 *    child was put, never to a later one with the same key.
 * 6. Values are copied on the way in, and are copies or frozen on the way out.
 * 7. A relaxed commit is acknowledged only when every durable commit that it may have read, from any process, is on
 *    disk.
 *
 * A backend throws two errors: `ConditionFailed`, with the records whose expectation did not hold, and
 * `StorageUnavailable` for every fault. When an acknowledgement is lost, the backend itself finds out until the
 * deadline whether the commit happened; callers never send a commit twice. A commit that breaks a rule of this
 * interface is a bug in the caller and throws a `TypeError`.
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
  /** 1 to 200 characters of visible ASCII. User input is hashed or encoded before it gets here. */
  readonly key: string;
}

/** Where `list` finds a record: under exactly `at`, sorted by `order`. */
export interface IndexEntry {
  /** Name of the index, unique within the kind: lower-case words with hyphens. */
  readonly name: string;
  /** The partition, in the form of a key. */
  readonly at: string;
  /** The sort key within the partition: a safe integer. Each store has its own fixed sequence for equal orders. */
  readonly order: number;
}

/** A record as it is written. */
export interface RecordData extends Ref {
  /** Opaque to the store. */
  readonly value: JsonObject;
  /** All entries of the record; entries of its earlier version are removed. At most one for each index and `at`. */
  readonly index?: readonly IndexEntry[] | undefined;
  /** The record is found only while its parent exists. A parent has no parent of its own. */
  readonly parent?: Ref | undefined;
  /** Milliseconds since the epoch. From then on the record is gone. Default: never. */
  readonly expiresAt?: number | undefined;
}

/** A record as it is read. */
export interface Found extends Ref {
  readonly value: JsonObject;
  /** The `id` of the commit that wrote it. The next write expects it. */
  readonly version: string;
  readonly expiresAt?: number | undefined;
  /** Only from `get` with `withParents`. */
  readonly parent?: Found;
}

export interface Query {
  readonly kind: string;
  readonly index: string;
  readonly at: string;
  /** The lowest and the highest `order`, both included. Default: no bound. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** `next` of the page before. */
  readonly after?: Position | undefined;
  /** The most records in a page: 1 to 1,000. */
  readonly limit: number;
  /** The highest `order` first. */
  readonly descending?: boolean;
}

/** A position in an index or a scan. Opaque; valid for the same query in any process. */
export type Position = string;

export interface Page {
  readonly records: readonly Found[];
  /** Where the next page begins; missing on the last page. A page before that may hold fewer records than its limit. */
  readonly next?: Position;
}

/** A condition on one record. */
export interface Expectation {
  readonly ref: Ref;
  /** The version of the record; `absent` if it must not exist; or `present` if it must exist in any version. */
  readonly version: string;
}

/** A set of writes: all of them happen, or none. A record is put or removed at most once. */
export interface Commit {
  /**
   * Unique: 1 to 64 characters of visible ASCII, neither `absent` nor `present`. Becomes the version of the records
   * that are put.
   */
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
  /** `absent` may be expected only of records that this commit puts. */
  readonly expect?: readonly Expectation[];
  /** A parent must exist already or be put by the same commit; otherwise the condition of its child fails. */
  readonly put?: readonly RecordData[];
  /** Removing a missing record does nothing. */
  readonly remove?: readonly Ref[];
  /** Whether the commit may be lost when the store's machine loses power. */
  readonly relaxed?: boolean;
  /** Whether nobody waits for it: `watch` need not tell it. */
  readonly quiet?: boolean;
}

/** A copy of the data of a store. Opaque, and at most 200 characters. */
export interface DataCopy {
  /** Changes when the data was restored, or copied to another place. */
  readonly id: string;
  /** Changes when a standby takes over, or the store was restored to an earlier moment. */
  readonly timeline?: string;
}

export interface RecordStore {
  /** In one round trip and in the order of `refs`; `undefined` for a record that is missing, expired, or an orphan. */
  get(refs: readonly Ref[], options?: { readonly withParents?: boolean }): Promise<(Found | undefined)[]>;
  /** One page of each query, in one round trip. */
  list(queries: readonly Query[]): Promise<Page[]>;
  /**
   * Every record of a kind, in any order. A record that exists from the first page to the last is returned at least
   * once. For copies, checks and exports.
   */
  scan(kind: string, after: Position | undefined, limit: number): Promise<Page>;
  /**
   * How many records each query finds, at most its limit, which may be any number here. Reads no more index entries than that, and
   * counts expired records that have not been deleted yet.
   */
  count(queries: readonly Query[]): Promise<number[]>;
  /** @throws ConditionFailed when an expectation does not hold; nothing is written. */
  commit(change: Commit): Promise<void>;
  /**
   * The next number of a counter, which starts at 1: larger than all before, and never returned twice. When the store can have lost
   * the last numbers, because a standby was promoted, it is larger by {@link COUNTERS_AHEAD}.
   * @param atLeast moves the counter forward to this number.
   */
  next(counter: string, atLeast?: number): Promise<number>;
  /**
   * Deletes at most `limit` expired records and orphans.
   * @param now the time by the clock of the store, in milliseconds since the epoch: a process with a wrong clock must not
   *   delete what others still read.
   * @returns how many.
   */
  sweep(limit: number, now: number): Promise<number>;
  /**
   * Optional: calls `onChange` soon after another process has committed a change to these kinds. It is a hint: it may
   * come late, needlessly, or never. @returns a function that ends the watch.
   */
  watch?(kinds: readonly string[], onChange: () => void): () => void;
  /** Optional: the connections of its pool that are used, and the calls that wait for one. */
  pool?(): { readonly used: number; readonly waiting: number };
  /** Optional: which copy of the data this is, to notice when it was restored from a backup, or a standby took over. */
  copy?(): Promise<DataCopy>;
  /**
   * Optional: what the database has for other versions of this program only: their functions, and tables, indexes and columns.
   * @param former the tables and indexes that this version has no longer, and columns as `table.column`.
   * @returns those that are there, by name.
   */
  leftovers?(former: readonly string[]): Promise<readonly string[]>;
  /** Optional: drops what `leftovers` returns. A process of another version that still needs a function creates it again. */
  dropLeftovers?(former: readonly string[]): Promise<void>;
  /** One cheap round trip. @returns the time of the store, which all processes share, in milliseconds since the epoch. */
  ping(): Promise<number>;
  /** Finishes the running calls and closes files and connections. Safe to call twice. */
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
  const known = new Set<string>();
  let last: string | undefined;
  for (const { name, at, order } of index) {
    // Most entries are in the same index as the one before.
    if (name !== last && !WORDS.test(name))
      throw new TypeError(
        `the name of an index of ${kind} has 1 to 40 lower-case letters, digits and hyphens`,
      );
    if (!VISIBLE.test(at))
      throw new TypeError(`at of ${kind}.${name} has 1 to 200 characters of visible ASCII`);
    if (!Number.isSafeInteger(order)) throw new TypeError(`order of ${kind}.${name} is a safe integer`);
    if (known.has(`${name} ${at}`))
      throw new TypeError(`a record of ${kind} has two entries under one key of an index`);
    known.add(`${name} ${at}`);
    last = name;
  }
}

/** How far a counter moves when numbers may have been given out that its storage does not have. */
export const COUNTERS_AHEAD = 1_000_000;

/** For backends: checks a commit against the rules of the contract. @throws TypeError */
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
      throw new TypeError(`a commit that expects a record of ${ref.kind} to be absent has to put it`);
  }
}
