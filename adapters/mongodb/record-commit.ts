/** One commit of records, inside its transaction. */
import type { AnyBulkWriteOperation, ClientSession, Document } from "mongodb";
import { ConditionFailed } from "../../core/errors.ts";
import type { Commit, RecordData, Ref } from "../record-store.ts";
import {
  entriesOf,
  idOf,
  type MongoRecords,
  type StoredEntry,
  type StoredMark,
  type StoredRecord,
  toRef,
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

  async run(session: ClientSession, end: number): Promise<void> {
    const { id, expect = [], put = [], remove = [] } = this.#change;
    if (await this.#isDone(session, end)) return;
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

  /**
   * Fails after the deadline, and records the commit.
   * @returns whether an earlier attempt, whose response was lost, has already committed.
   */
  async #isDone(session: ClientSession, end: number): Promise<boolean> {
    const set = { $set: { at: "$$NOW", in_time: notAfter(end) } };
    const { upsertedCount } = await this.#store.marks.updateOne({ _id: `commit ${this.#change.id}` }, [set], {
      session,
      upsert: true,
    });
    return upsertedCount === 0;
  }

  /** Writes a guard of every record that the commit only expects: commits that change the record then conflict with it. */
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
