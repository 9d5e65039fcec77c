/** Stores records as documents, finds them, and deletes expired ones. */
import type { ClientSession, Collection, Db } from "mongodb";
import type { Clock } from "../../core/clock.ts";
import type { DataCopy, Found, IndexEntry, Page, Query, Ref } from "../record-store.ts";
import { ConfigurationError } from "../../core/errors.ts";
import type { Connection } from "./connection.ts";
import { isRefused } from "./faults.ts";

/** A record. Its `_id` is the kind and the key. */
export interface StoredRecord {
  readonly _id: string;
  readonly kind: string;
  readonly key: string;
  /** As JSON, because names of members may contain any character. */
  readonly value: string;
  readonly version: string;
  /** `version` of its first write. Children refer to it, so they never belong to a later record with the same key. */
  readonly born: string;
  readonly expires_at?: number;
  readonly parent?: { readonly _id: string; readonly born: string };
  readonly entries?: readonly IndexEntry[];
  /** Of a removed record: the parent as its children refer to it. */
  readonly buried?: { readonly _id: string; readonly born: string };
}

/** A record that was read, with its parent or a later record with the same key, if there is one. */
export interface WithParent extends StoredRecord {
  readonly above: readonly StoredRecord[];
}

/** The live records by their `_id`, each with its parent. */
export type Live = ReadonlyMap<string, { readonly record: StoredRecord; readonly parent?: StoredRecord }>;

/** An index entry. Its `_id` is composed of the other members. */
export interface StoredEntry {
  readonly _id: string;
  /** Kind, name and `at`. */
  readonly index: string;
  readonly order: number;
  readonly record: string;
}

/** A commit that has happened, or a guard that commits write to conflict with each other. */
export interface StoredMark {
  readonly _id: string;
  readonly at?: Date;
  readonly writes?: number;
}

const RECORDS = "records";
const ENTRIES = "record_entries";
const MARKS = "record_marks";

/** How often a page is read at most while its records keep changing their positions. */
const TRIES = 10;
/** Records that a sweep deletes in one transaction. */
const SWEPT_TOGETHER = 200;
/** How long the id of a commit is stored. */
const COMMIT_ID_KEPT_SECONDS = 60;
export const idOf = ({ kind, key }: Ref): string => `${kind} ${key}`;
const indexOf = (kind: string, { name, at }: Pick<IndexEntry, "name" | "at">): string =>
  `${kind} ${name} ${at}`;

export function toRef(id: string): Ref {
  const space = id.indexOf(" ");
  return { kind: id.slice(0, space), key: id.slice(space + 1) };
}

export function toFound(
  { kind, key, value, version, expires_at }: StoredRecord,
  parent?: StoredRecord,
): Found {
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

/** @throws ConfigurationError when the user lacks the rights, which connecting does not check: `hello` needs none. */
async function asAllowed<T>(db: Db, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isRefused(error)) throw error;
    throw new ConfigurationError([
      `config.storage: MongoDB refuses access to the database ${db.databaseName}; ` +
        "the address must name a user who has the role readWrite on it",
    ]);
  }
}

/**
 * Whether a service has ever stored something in this database.
 * @throws ConfigurationError when the user lacks the rights.
 */
export function hasRecords(db: Db): Promise<boolean> {
  return asAllowed(db, async () => {
    const found = await db.listCollections({ name: RECORDS }, { nameOnly: true }).toArray();
    return found.length > 0;
  });
}

/**
 * Creates the collections and their indexes.
 * @throws ConfigurationError when the user lacks the rights.
 */
export function prepareCollections(db: Db): Promise<void> {
  return asAllowed(db, async () => {
    await db
      .collection(RECORDS)
      .createIndexes([
        { key: { kind: 1, key: 1 } },
        { key: { expires_at: 1 }, sparse: true },
        { key: { "parent._id": 1 }, sparse: true },
      ]);
    await db.collection(ENTRIES).createIndexes([{ key: { index: 1, order: 1, record: 1 } }]);
    await db
      .collection(MARKS)
      .createIndexes([{ key: { at: 1 }, expireAfterSeconds: COMMIT_ID_KEPT_SECONDS }]);
  });
}

/** Reads records, and deletes expired ones. */
export class MongoRecords {
  readonly connection: Connection;
  readonly #clock: Clock;

  constructor(connection: Connection, clock: Clock) {
    this.connection = connection;
    this.#clock = clock;
  }

  /** A restored or copied collection has another UUID. */
  async copy(): Promise<DataCopy> {
    const [found] = await this.connection.db
      .listCollections({ name: RECORDS }, { nameOnly: false })
      .toArray();
    return { id: String(found?.info?.uuid) };
  }

  // Read from the connection each time, because it may have replaced its client.
  get records(): Collection<StoredRecord> {
    return this.connection.db.collection(RECORDS);
  }

  get entries(): Collection<StoredEntry> {
    return this.connection.db.collection(ENTRIES);
  }

  get marks(): Collection<StoredMark> {
    return this.connection.db.collection(MARKS);
  }

  /** The live records, each with its parent. */
  async live(ids: readonly string[]): Promise<Live> {
    return this.liveOf(await this.stored(ids));
  }

  /** The records as they are stored, each with what is stored under the key of its parent. */
  stored(ids: readonly string[], session?: ClientSession): Promise<WithParent[]> {
    const parents = { from: RECORDS, localField: "parent._id", foreignField: "_id", as: "above" };
    const options = session === undefined ? {} : { session };
    return this.records
      .aggregate<WithParent>([{ $match: { _id: { $in: [...ids] } } }, { $lookup: parents }], options)
      .toArray();
  }

  /** Those that have not expired and are no orphans. */
  liveOf(stored: readonly WithParent[]): Live {
    const now = this.#clock.now();
    const found = stored.flatMap(({ above: [parent], ...record }) => {
      if (!isCurrent(record, now)) return [];
      if (record.parent === undefined) return [[record._id, { record }] as const];
      const isThere = isCurrent(parent, now) && parent.born === record.parent.born;
      return isThere ? [[record._id, { record, parent }] as const] : [];
    });
    return new Map(found);
  }

  /**
   * Reads the entries and then the records. A record that changes its position in between would be missed, so the
   * page is read again.
   */
  async page(query: Query): Promise<Page> {
    for (let tries = 1; ; tries += 1) {
      const { page, isWhole } = await this.#pageOnce(query);
      if (isWhole || tries === TRIES) return page;
    }
  }

  async #pageOnce(query: Query): Promise<{ readonly page: Page; readonly isWhole: boolean }> {
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
    const there = shown.flatMap((entry) => {
      const found = live.get(entry.record)?.record;
      return found === undefined ? [] : [{ entry, found }];
    });
    const records = there.filter(({ entry, found }) =>
      found.entries?.some((each) => each.order === entry.order && indexOf(found.kind, each) === entry.index),
    );
    const last = entries.length > limit ? shown.at(-1) : undefined;
    const page = { records: records.map(({ found }) => toFound(found)) };
    return {
      page: last === undefined ? page : { ...page, next: `${last.order} ${last.record}` },
      isWhole: records.length === there.length,
    };
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
    return this.entries.countDocuments({ index, ...between(query) }, { limit: query.limit });
  }

  /** Deletes expired records and their children, at most `limit`. */
  async sweep(limit: number, now: number): Promise<number> {
    const expired = await this.connection.run(() =>
      this.records
        .find({ expires_at: { $lte: now } })
        .sort({ expires_at: 1 })
        .limit(limit)
        .toArray(),
    );
    if (expired.length === 0) return 0;
    const families = expired.map((record) => record.buried ?? record);
    const names = new Set(families.map(({ _id, born }) => `${_id} ${born}`));
    const children = await this.connection.run(() =>
      this.records
        .find({
          "parent._id": { $in: families.map(({ _id }) => _id) },
          "parent.born": { $in: families.map(({ born }) => born) },
        })
        .limit(limit)
        .toArray(),
    );
    const orphans = children.filter(({ parent }) => parent && names.has(`${parent._id} ${parent.born}`));
    // A parent is deleted after all its children, which refer to it. An expired child is in both lists.
    const parents = children.length < limit ? expired : [];
    const gone = [...new Map([...orphans, ...parents].map((one) => [one._id, one])).values()].slice(0, limit);
    let deleted = 0;
    for (let from = 0; from < gone.length; from += SWEPT_TOGETHER)
      deleted += await this.#delete(gone.slice(from, from + SWEPT_TOGETHER));
    return deleted;
  }

  /** Deletes only unchanged records. */
  async #delete(gone: readonly StoredRecord[]): Promise<number> {
    const versions = new Map(gone.map(({ _id, version }) => [_id, version] as const));
    return this.connection.inTransaction(async (session) => {
      const found = await this.records
        .find(
          { _id: { $in: [...versions.keys()] } },
          { session, projection: { version: 1, entries: 1, kind: 1 } },
        )
        .toArray();
      const still = found.filter(({ _id, version }) => versions.get(_id) === version);
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
 * The bounds of a query. Orders are integers, so the upper bound can be written as `$lt` the next one: some servers
 * with this protocol exclude the bound of `$lte` if the index has further fields.
 */
function between({ from, to }: Query): {
  readonly order?: { readonly $gte?: number; readonly $lt?: number };
} {
  if (from === undefined && to === undefined) return {};
  return {
    order: { ...(from === undefined ? {} : { $gte: from }), ...(to === undefined ? {} : { $lt: to + 1 }) },
  };
}

export function entriesOf(record: string, kind: string, entries: readonly IndexEntry[] = []): StoredEntry[] {
  return entries.map((entry) => {
    const index = indexOf(kind, entry);
    return { _id: `${index} ${entry.order} ${record}`, index, order: entry.order, record };
  });
}
