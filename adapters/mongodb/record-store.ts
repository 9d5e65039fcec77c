/** The record store in MongoDB: any number of processes share it. */
import type { AnyBulkWriteOperation, ClientSession, Collection, Document } from "mongodb";
import type { Clock } from "../../lib/clock.ts";
import { ConditionFailed, StorageUnavailable } from "../../lib/errors.ts";
import {
  checkCommit,
  type Commit,
  type Found,
  type IndexEntry,
  type Page,
  type Query,
  type RecordData,
  type RecordStore,
  type Ref,
} from "../record-store.ts";
import { connect, type Connection } from "./connection.ts";
import { isDuplicate } from "./faults.ts";

export interface MongoRecordOptions {
  /** `mongodb://…` or `mongodb+srv://…`; the database is named after the hosts, default `sign-in`. */
  readonly url: string;
  /** Decides what has expired. */
  readonly clock: Clock;
  /**
   * Kinds with records that many commits expect at once and few change. A transaction conflicts with another one only
   * over what both write, so an expectation writes: for these kinds one of several guards, picked at random.
   */
  readonly shared?: readonly string[];
}

/** A record. Its `_id` is the kind and the key. */
interface StoredRecord {
  readonly _id: string;
  readonly kind: string;
  readonly key: string;
  /** As JSON: names of members may have any characters. */
  readonly value: string;
  readonly version: string;
  /** `version` of the first: a child names it, so that it does not belong to a later record with the same key. */
  readonly born: string;
  readonly expires_at?: number;
  readonly parent?: { readonly _id: string; readonly born: string };
  readonly entries?: readonly IndexEntry[];
  /** Of a record that was removed: what its children name as their parent. */
  readonly buried?: { readonly _id: string; readonly born: string };
}

/** An index entry. `_id` is made of all the rest. */
interface StoredEntry {
  readonly _id: string;
  /** Kind, name and `at`. */
  readonly index: string;
  readonly order: number;
  readonly record: string;
}

/** A commit that has happened, and what commits write to meet each other. */
interface StoredMark {
  readonly _id: string;
  readonly at?: Date;
  readonly writes?: number;
}

/** How many guards a shared record has. */
const GUARDS = 16;
/** Seconds for which it is remembered that a commit has happened. */
const REMEMBERED = 60;
/**
 * The server refuses so many milliseconds before the caller is told that it was not done: what is known here of its
 * clock is not exact.
 */
const EARLIER = 100;

const idOf = ({ kind, key }: Ref): string => `${kind} ${key}`;
const indexOf = (kind: string, { name, at }: Pick<IndexEntry, "name" | "at">): string =>
  `${kind} ${name} ${at}`;

function toRef(id: string): Ref {
  const space = id.indexOf(" ");
  return { kind: id.slice(0, space), key: id.slice(space + 1) };
}

function toFound({ kind, key, value, version, expires_at }: StoredRecord, parent?: StoredRecord): Found {
  return {
    kind,
    key,
    value: JSON.parse(value),
    version,
    ...(expires_at === undefined ? {} : { expiresAt: expires_at }),
    ...(parent === undefined ? {} : { parent: toFound(parent) }),
  };
}

const isCurrent = (record: StoredRecord | undefined, now: number): record is StoredRecord =>
  record !== undefined && (record.expires_at === undefined || record.expires_at > now);

class MongoRecords {
  readonly connection: Connection;
  readonly records: Collection<StoredRecord>;
  readonly entries: Collection<StoredEntry>;
  readonly marks: Collection<StoredMark>;
  readonly #clock: Clock;

  constructor(connection: Connection, clock: Clock) {
    const { db } = connection;
    this.connection = connection;
    this.records = db.collection("records");
    this.entries = db.collection("record_entries");
    this.marks = db.collection("record_marks");
    this.#clock = clock;
  }

  async prepare(): Promise<void> {
    await this.connection.run(async () => {
      await this.records.createIndexes([
        { key: { kind: 1, key: 1 } },
        { key: { expires_at: 1 }, sparse: true },
        { key: { "parent._id": 1 }, sparse: true },
      ]);
      await this.entries.createIndexes([{ key: { index: 1, order: 1, record: 1 } }]);
      await this.marks.createIndexes([{ key: { at: 1 }, expireAfterSeconds: REMEMBERED }]);
    });
  }

  /** The records that are there, each with its parent. */
  async live(
    ids: readonly string[],
    session?: ClientSession,
  ): Promise<ReadonlyMap<string, { readonly record: StoredRecord; readonly parent?: StoredRecord }>> {
    const options = session === undefined ? {} : { session };
    const find = async (wanted: readonly string[]): Promise<ReadonlyMap<string, StoredRecord>> => {
      if (wanted.length === 0) return new Map();
      const found = await this.records.find({ _id: { $in: [...wanted] } }, options).toArray();
      return new Map(found.map((record) => [record._id, record] as const));
    };
    const records = await find(ids);
    const parents = await find([
      ...new Set([...records.values()].flatMap(({ parent }) => parent?._id ?? [])),
    ]);
    const now = this.#clock.now();
    const found = [...records].flatMap(([id, record]) => {
      if (!isCurrent(record, now)) return [];
      if (record.parent === undefined) return [[id, { record }] as const];
      const parent = parents.get(record.parent._id);
      const isThere = isCurrent(parent, now) && parent.born === record.parent.born;
      return isThere ? [[id, { record, parent }] as const] : [];
    });
    return new Map(found);
  }

  async page(query: Query): Promise<Page> {
    const { limit, descending = false } = query;
    const [place, ...rest] = query.after?.split(" ") ?? [];
    const after = rest.join(" ");
    const compare = descending ? "$lt" : "$gt";
    const order = between(query);
    const behind = {
      $or: [{ order: { [compare]: Number(place) } }, { order: Number(place), record: { [compare]: after } }],
    };
    const index = indexOf(query.kind, { name: query.index, at: query.at });
    const filter = { index, ...order, ...(query.after === undefined ? {} : behind) };
    const direction = descending ? -1 : 1;
    const entries = await this.entries
      .find(filter)
      .sort({ index: direction, order: direction, record: direction })
      .limit(limit + 1)
      .toArray();
    const shown = entries.slice(0, limit);
    const live = await this.live(shown.map(({ record }) => record));
    const records = shown.flatMap((entry) => {
      const found = live.get(entry.record)?.record;
      // It may have been written since its entry was read.
      const isStill = found?.entries?.some(
        (each) => each.order === entry.order && indexOf(found.kind, each) === entry.index,
      );
      return found !== undefined && isStill ? [toFound(found)] : [];
    });
    const last = entries.length > limit ? shown.at(-1) : undefined;
    return last === undefined ? { records } : { records, next: `${last.order} ${last.record}` };
  }

  async scan(kind: string, after: string | undefined, limit: number): Promise<Page> {
    const filter = after === undefined ? { kind } : { kind, key: { $gt: after } };
    const found = await this.records
      .find(filter, { projection: { key: 1 } })
      .sort({ kind: 1, key: 1 })
      .limit(limit)
      .toArray();
    const live = await this.live(found.map(({ _id }) => _id));
    const records = found.flatMap(({ _id }) => {
      const one = live.get(_id);
      return one === undefined ? [] : [toFound(one.record)];
    });
    const last = found.length < limit ? undefined : found.at(-1);
    return last === undefined ? { records } : { records, next: last.key };
  }

  count(query: Query): Promise<number> {
    const index = indexOf(query.kind, { name: query.index, at: query.at });
    return this.entries.countDocuments({ index, ...between(query) });
  }

  /** Deletes expired records with their children, at most so many. */
  async sweep(limit: number): Promise<number> {
    const now = this.#clock.now();
    const expired = await this.records
      .find({ expires_at: { $lte: now } })
      .sort({ expires_at: 1 })
      .limit(limit)
      .toArray();
    let deleted = 0;
    for (const record of expired) {
      const left = limit - deleted;
      if (left <= 0) break;
      const { _id, born } = record.buried ?? record;
      const children = await this.records
        .find({ "parent._id": _id, "parent.born": born })
        .limit(left)
        .toArray();
      const gone = children.length < left ? [...children, record] : children;
      deleted += await this.#delete(gone);
    }
    return deleted;
  }

  /** As they were read: what was written since then stays. */
  async #delete(gone: readonly StoredRecord[]): Promise<number> {
    return this.connection.inTransaction(async (session) => {
      const same = gone.map(({ _id, version }) => ({ _id, version }));
      const still = await this.records
        .find({ $or: same }, { session, projection: { entries: 1, kind: 1 } })
        .toArray();
      if (still.length === 0) return 0;
      await this.records.deleteMany({ _id: { $in: still.map(({ _id }) => _id) } }, { session });
      const ids = still.flatMap((record) =>
        entriesOf(record._id, record.kind, record.entries).map(({ _id }) => _id),
      );
      if (ids.length > 0) await this.entries.deleteMany({ _id: { $in: ids } }, { session });
      return still.length;
    });
  }
}

/**
 * The bounds of a query, where it has some. Orders are whole numbers, so the upper bound may be the next one: not every
 * server with this protocol includes the bound of `$lte` where an index goes on behind the field.
 */
function between({ from, to }: Query): {
  readonly order?: { readonly $gte?: number; readonly $lt?: number };
} {
  if (from === undefined && to === undefined) return {};
  return {
    order: { ...(from === undefined ? {} : { $gte: from }), ...(to === undefined ? {} : { $lt: to + 1 }) },
  };
}

function entriesOf(record: string, kind: string, entries: readonly IndexEntry[] = []): StoredEntry[] {
  return entries.map((entry) => {
    const index = indexOf(kind, entry);
    return { _id: `${index} ${entry.order} ${record}`, index, order: entry.order, record };
  });
}

/** A number; or a division by zero when the server's clock has come to `end`, and with it no commit. */
function notAfter(end: number): Document {
  // Compared as numbers: not every server can compare its time as a date.
  return { $divide: [1, { $cond: [{ $lt: [{ $toLong: "$$NOW" }, end] }, 1, 0] }] };
}

/** A record that was removed and may have children: found by nobody, and swept away with them. */
function tombstone({ _id, version, born }: StoredRecord): StoredRecord {
  const buried = { _id, born };
  return { _id: `~ ${born} ${_id}`, kind: "~", key: _id, value: "{}", version, born, expires_at: 0, buried };
}

/** Runs one commit inside its transaction. */
class CommitRun {
  readonly #store: MongoRecords;
  readonly #shared: ReadonlySet<string>;
  readonly #change: Commit;

  constructor(store: MongoRecords, shared: ReadonlySet<string>, change: Commit) {
    this.#store = store;
    this.#shared = shared;
    this.#change = change;
  }

  async run(session: ClientSession, end: number): Promise<void> {
    const { id, expect = [], put = [], remove = [] } = this.#change;
    await this.#mark(session, end);
    const parents = put.flatMap(({ parent }) => (parent === undefined ? [] : [parent]));
    const refs = [...expect.map(({ ref }) => ref), ...put, ...remove, ...parents];
    const ids = [...new Set(refs.map(idOf))];
    const live = await this.#store.live(ids, session);
    const failed = this.#failures(live);
    if (failed.length > 0) throw new ConditionFailed("an expectation does not hold", failed);
    const there = await this.#store.records.find({ _id: { $in: ids } }, { session }).toArray();
    await this.#guard(session, new Set([...put, ...remove].map(idOf)), live, parents);
    const before = new Map(there.map((record) => [record._id, record] as const));
    const records: AnyBulkWriteOperation<StoredRecord>[] = [];
    const gone: string[] = [];
    const added: StoredEntry[] = [];
    const drop = (record: StoredRecord): void => {
      gone.push(...entriesOf(record._id, record.kind, record.entries).map(({ _id }) => _id));
    };
    for (const ref of remove) {
      const record = before.get(idOf(ref));
      if (record === undefined) continue;
      drop(record);
      records.push({ deleteOne: { filter: { _id: record._id } } });
      if (record.parent === undefined) records.push({ insertOne: { document: tombstone(record) } });
    }
    const born = new Map([...live].map(([_id, { record }]) => [_id, record.born] as const));
    for (const record of put) if (!born.has(idOf(record))) born.set(idOf(record), id);
    for (const data of put) {
      const record = toStored(data, id, born);
      const old = before.get(record._id);
      if (old !== undefined) {
        drop(old);
        if (old.born !== record.born && old.parent === undefined)
          records.push({ insertOne: { document: tombstone(old) } });
      }
      added.push(...entriesOf(record._id, record.kind, record.entries));
      records.push({ replaceOne: { filter: { _id: record._id }, replacement: record, upsert: true } });
    }
    const kept = new Set(added.map(({ _id }) => _id));
    const lost = gone.filter((one) => !kept.has(one));
    if (records.length > 0) await this.#store.records.bulkWrite(records, { session });
    if (lost.length > 0) await this.#store.entries.deleteMany({ _id: { $in: lost } }, { session });
    const had = new Set(gone);
    const fresh = added.filter(({ _id }) => !had.has(_id));
    if (fresh.length > 0) await this.#store.entries.insertMany(fresh, { session });
  }

  #failures(live: Awaited<ReturnType<MongoRecords["live"]>>): Ref[] {
    const { expect = [], put = [], remove = [] } = this.#change;
    const failed = expect
      .filter(({ ref, version }) => {
        const found = live.get(idOf(ref));
        if (version === "absent") return found !== undefined;
        return found === undefined || (version !== "present" && found.record.version !== version);
      })
      .map(({ ref }) => ref);
    const puts = new Set(put.map(idOf));
    const removals = new Set(remove.map(idOf));
    const orphans = put.filter(({ parent }) => {
      if (parent === undefined || puts.has(idOf(parent))) return false;
      return removals.has(idOf(parent)) || !live.has(idOf(parent));
    });
    return [...failed, ...orphans].map(({ kind, key }) => ({ kind, key }));
  }

  /** Fails when it is late, and remembers the commit. */
  async #mark(session: ClientSession, end: number): Promise<void> {
    const set = { $set: { at: "$$NOW", in_time: notAfter(end) } };
    await this.#store.marks.updateOne({ _id: `commit ${this.#change.id}` }, [set], { session, upsert: true });
  }

  /** Writes something of every record on which the commit only relies, so that it meets who changes it. */
  async #guard(
    session: ClientSession,
    written: ReadonlySet<string>,
    live: Awaited<ReturnType<MongoRecords["live"]>>,
    parents: readonly Ref[],
  ): Promise<void> {
    const { expect = [] } = this.#change;
    const relied = [
      ...expect.flatMap(({ ref }) => [idOf(ref), live.get(idOf(ref))?.parent?._id ?? ""]),
      ...parents.map(idOf),
    ];
    const operations: AnyBulkWriteOperation<StoredMark>[] = [];
    const touch = (_id: string): void => {
      operations.push({ updateOne: { filter: { _id }, update: { $inc: { writes: 1 } }, upsert: true } });
    };
    for (const one of new Set(relied)) {
      if (one === "" || written.has(one)) continue;
      const isShared = this.#shared.has(toRef(one).kind);
      touch(isShared ? `guard ${one} ${Math.floor(Math.random() * GUARDS)}` : `guard ${one}`);
    }
    for (const one of written) {
      if (this.#shared.has(toRef(one).kind))
        for (let guard = 0; guard < GUARDS; guard += 1) touch(`guard ${one} ${guard}`);
      else touch(`guard ${one}`);
    }
    if (operations.length > 0) await this.#store.marks.bulkWrite(operations, { session, ordered: false });
  }
}

function toStored(data: RecordData, version: string, born: ReadonlyMap<string, string>): StoredRecord {
  const { kind, key, value, parent, expiresAt, index = [] } = data;
  return {
    _id: idOf(data),
    kind,
    key,
    value: JSON.stringify(value),
    version,
    born: born.get(idOf(data)) ?? version,
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    ...(parent === undefined
      ? {}
      : { parent: { _id: idOf(parent), born: born.get(idOf(parent)) ?? version } }),
    ...(index.length === 0 ? {} : { entries: index.map(({ name, at, order }) => ({ name, at, order })) }),
  };
}

/**
 * Opens the store and makes its collections and indexes.
 * @throws StorageUnavailable when the server does not answer within 15 seconds.
 * @throws ConfigurationError when the address is wrong, the user is refused, or the server has no transactions.
 */
export async function openMongoRecords({
  url,
  clock,
  shared = [],
}: MongoRecordOptions): Promise<RecordStore> {
  const connection = await connect(url, clock);
  const store = new MongoRecords(connection, clock);
  try {
    await store.prepare();
  } catch (error) {
    await connection.close();
    throw error;
  }
  const sharedKinds = new Set(shared);
  return {
    async get(refs, { withParents = false } = {}) {
      const live = await connection.run(() => store.live([...new Set(refs.map(idOf))]));
      return refs.map((ref) => {
        const found = live.get(idOf(ref));
        return found && toFound(found.record, withParents ? found.parent : undefined);
      });
    },
    list: (queries) => connection.run(() => Promise.all(queries.map((query) => store.page(query)))),
    scan: (kind, after, limit) => connection.run(() => store.scan(kind, after, limit)),
    count: (queries) => connection.run(() => Promise.all(queries.map((query) => store.count(query)))),
    async commit(change) {
      checkCommit(change);
      const wait = change.deadline - clock.now();
      if (wait <= 0) throw new StorageUnavailable("the deadline of this commit has passed");
      const run = new CommitRun(store, sharedKinds, structuredClone(change));
      const end = connection.serverTimeIn(wait - Math.min(wait / 10, EARLIER));
      await connection.inTransaction((session) => run.run(session, end), wait);
    },
    next: (counter, atLeast = 1) =>
      connection.run(async () => {
        const counters = connection.db.collection<{ readonly _id: string; readonly value: number }>(
          "record_counters",
        );
        const value = { $max: [{ $add: [{ $ifNull: ["$value", 0] }, 1] }, atLeast] };
        for (;;) {
          try {
            const found = await counters.findOneAndUpdate({ _id: counter }, [{ $set: { value } }], {
              upsert: true,
              returnDocument: "after",
            });
            return found?.value ?? atLeast;
          } catch (error) {
            // Two that begin a counter at once: one of them may be told so.
            if (!isDuplicate(error)) throw error;
          }
        }
      }),
    sweep: (limit) => connection.run(() => store.sweep(limit)),
    ping: () => connection.run(async () => Number((await connection.db.command({ hello: 1 }))["localTime"])),
    close: () => connection.close(),
  };
}
