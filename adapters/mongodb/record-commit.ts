/** One commit of records, inside its transaction. */
import type { AnyBulkWriteOperation, ClientSession, Document } from "mongodb";
import { ConditionFailed } from "../../core/errors.ts";
import type { Commit, RecordData, Ref } from "../record-store.ts";
import {
  entriesOf,
  idOf,
  type Live,
  type MongoRecords,
  type StoredEntry,
  type StoredRecord,
  toRef,
  type WithParent,
} from "./record-reads.ts";

/** How many guards a shared record has: more guards mean fewer conflicts between commits that only expect it. */
const GUARDS = 16;
/** An expression that divides by zero, and so fails the commit, once the server's clock has reached `end`. */
function notAfter(end: number): Document {
  // Compared as numbers, because some servers can't compare their time as a date.
  return { $divide: [1, { $cond: [{ $lt: [{ $toLong: "$$NOW" }, end] }, 1, 0] }] };
}

/** A removed record that may have children. It is never found, and is deleted with them. */
function tombstone({ _id, version, born }: StoredRecord): StoredRecord {
  const buried = { _id, born };
  return { _id: `~ ${born} ${_id}`, kind: "~", key: _id, value: "{}", version, born, expires_at: 0, buried };
}

const parentsOf = (put: readonly RecordData[]): Ref[] =>
  put.flatMap(({ parent }) => (parent === undefined ? [] : [parent]));

/** Runs one commit inside its transaction. */
export class CommitRun {
  readonly #store: MongoRecords;
  readonly #shared: ReadonlySet<string>;
  readonly #change: Commit;

  constructor(store: MongoRecords, shared: ReadonlySet<string>, change: Commit) {
    this.#store = store;
    this.#shared = shared;
    this.#change = change;
  }

  /**
   * Reads what the commit is about. @returns `undefined` if an earlier attempt has committed.
   * @throws ConditionFailed when an expectation does not hold.
   */
  async look(
    session?: ClientSession,
  ): Promise<{ readonly there: readonly WithParent[]; readonly live: Live } | undefined> {
    const { expect = [], put = [], remove = [] } = this.#change;
    const refs = [...expect.map(({ ref }) => ref), ...put, ...remove, ...parentsOf(put)];
    const there = await this.#store.stored([...new Set(refs.map(idOf))], session);
    const live = this.#store.liveOf(there);
    const failed = this.#failures(live);
    if (failed.length === 0) return { there, live };
    // What it expected is gone if an earlier attempt has committed.
    const options = session === undefined ? {} : { session };
    if ((await this.#store.marks.findOne({ _id: this.#markId }, options)) !== null) return undefined;
    throw new ConditionFailed("an expectation does not hold", failed);
  }

  async run(session: ClientSession, end: number): Promise<void> {
    const { id, put = [], remove = [] } = this.#change;
    const seen = await this.look(session);
    if (seen === undefined) return;
    const { there, live } = seen;
    const parents = parentsOf(put);
    if (!(await this.#mark(session, end, this.#guards(live, parents)))) return session.abortTransaction();
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

  #failures(live: Live): Ref[] {
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

  get #markId(): string {
    return `commit ${this.#change.id}`;
  }

  /**
   * Records the commit and writes the guards. Fails after the deadline.
   * @returns false if an earlier attempt, whose response was lost, has already committed.
   */
  async #mark(session: ClientSession, end: number, guards: Iterable<string>): Promise<boolean> {
    const set = { $set: { at: "$$NOW", in_time: notAfter(end) } };
    const touches = [...guards].map((_id) => ({
      updateOne: { filter: { _id }, update: { $inc: { writes: 1 } }, upsert: true },
    }));
    const mark = { updateOne: { filter: { _id: this.#markId }, update: [set], upsert: true } };
    const { upsertedIds } = await this.#store.marks.bulkWrite([mark, ...touches], {
      session,
      ordered: false,
    });
    return upsertedIds[0] !== undefined;
  }

  /** Writes a guard for each record that the commit only expects, so that a commit that changes the record conflicts with it. */
  #guards(live: Live, parents: readonly Ref[]): Set<string> {
    const { expect = [], put = [], remove = [] } = this.#change;
    const written = new Set([...put, ...remove].map(idOf));
    const relied = [
      ...expect.flatMap(({ ref }) => [idOf(ref), live.get(idOf(ref))?.parent?._id ?? ""]),
      ...parents.map(idOf),
    ];
    const guards = new Set<string>();
    for (const one of relied) {
      if (one === "" || written.has(one)) continue;
      const isShared = this.#shared.has(toRef(one).kind);
      guards.add(isShared ? `guard ${one} ${Math.floor(Math.random() * GUARDS)}` : `guard ${one}`);
    }
    for (const one of written) {
      if (this.#shared.has(toRef(one).kind))
        for (let guard = 0; guard < GUARDS; guard += 1) guards.add(`guard ${one} ${guard}`);
      else guards.add(`guard ${one}`);
    }
    return guards;
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
