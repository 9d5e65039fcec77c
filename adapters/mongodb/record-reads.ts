/** Records as documents: how they are kept, found, and swept away when they are over. */
import type { ClientSession, Collection, Db } from "mongodb";
import type { Clock } from "../clock.ts";
import type { Found, IndexEntry, Page, Query, Ref } from "../record-store.ts";
import { ConfigurationError } from "../errors.ts";
import type { Connection } from "./connection.ts";
import { isRefused } from "./faults.ts";

/** A record. Its `_id` is the kind and the key. */
export interface StoredRecord {
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
export interface StoredEntry {
  readonly _id: string;
  /** Kind, name and `at`. */
  readonly index: string;
  readonly order: number;
  readonly record: string;
}

/** A commit that has happened, and what commits write to meet each other. */
export interface StoredMark {
  readonly _id: string;
  readonly at?: Date;
  readonly writes?: number;
}

const RECORDS = "records";
const ENTRIES = "record_entries";
const MARKS = "record_marks";
/** Of rate limits. */
export const POINTS = "record_points";

/** How often a page is read at most, while records move in it. */
const TRIES = 10;
/** Seconds for which it is remembered that a commit has happened. */
const REMEMBERED = 60;
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

/** @throws ConfigurationError when the user may not do this: the server says hello to everybody. */
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

/** Whether a service, of this version or of 0.1, has ever kept something in this database. @throws ConfigurationError when the user may not look. */
export function hasRecords(db: Db): Promise<boolean> {
  return asAllowed(db, async () => {
    const names = { name: { $in: [RECORDS, "counters"] } };
    const found = await db.listCollections(names, { nameOnly: true }).toArray();
    return found.length > 0;
  });
}

/**
 * Makes the collections and what they are found by.
 * @throws ConfigurationError when the user may not.
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
    await db.collection(MARKS).createIndexes([{ key: { at: 1 }, expireAfterSeconds: REMEMBERED }]);
    await db.collection(POINTS).createIndexes([{ key: { forget_at: 1 }, expireAfterSeconds: 0 }]);
  });
}

/** Reading records, and sweeping away what is over. */
export class MongoRecords {
  readonly connection: Connection;
  readonly #clock: Clock;

  constructor(connection: Connection, clock: Clock) {
    this.connection = connection;
    this.#clock = clock;
  }

  // Each time from the connection, which may have replaced its client.
  get records(): Collection<StoredRecord> {
    return this.connection.db.collection(RECORDS);
  }

  get entries(): Collection<StoredEntry> {
    return this.connection.db.collection(ENTRIES);
  }

  get marks(): Collection<StoredMark> {
    return this.connection.db.collection(MARKS);
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

  /** Entries and records are read one after the other: a record that moves in between would be missed. */
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

export function entriesOf(record: string, kind: string, entries: readonly IndexEntry[] = []): StoredEntry[] {
  return entries.map((entry) => {
    const index = indexOf(kind, entry);
    return { _id: `${index} ${entry.order} ${record}`, index, order: entry.order, record };
  });
}
