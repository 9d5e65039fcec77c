/** Writes records, within a write of the connection. */
import type { Clock } from "../../core/clock.ts";
import { ConditionFailed } from "../../core/errors.ts";
import type { Commit, Expectation, IndexEntry, RecordData, Ref } from "../record-store.ts";
import {
  type Connection,
  numberAt,
  optionalNumberAt,
  type Parameter,
  type Row,
  textAt,
} from "./connection.ts";
import { type RecordCache, writtenRecord } from "./record-reads.ts";

export interface RecordWrites {
  /** Copies the commit, because the caller may change it before the transaction begins. */
  prepare(change: Commit): PreparedCommit;
  /** @throws ConditionFailed */
  commit(prepared: PreparedCommit): void;
  /** @returns how many records were deleted. */
  sweep(limit: number, now: number): number;
  next(counter: string, atLeast: number): number;
}

/** A record as columns. */
interface PreparedRecord extends Ref {
  readonly value: string;
  readonly parent: Ref | undefined;
  readonly expiresAt: number | null;
  readonly index: readonly IndexEntry[];
  /** The same as JSON. */
  readonly entries: string | null;
}

interface PreparedCommit {
  readonly id: string;
  readonly expect: readonly Expectation[];
  readonly put: readonly PreparedRecord[];
  readonly remove: readonly Ref[];
}

function prepare({ id, expect = [], put = [], remove = [] }: Commit): PreparedCommit {
  return {
    id,
    expect: expect.map(({ ref, version }) => ({ ref: { ...ref }, version })),
    // Parents first: their children need their ids.
    put: put
      .map(prepareRecord)
      .toSorted((one, other) => Number(one.parent !== undefined) - Number(other.parent !== undefined)),
    remove: remove.map(({ kind, key }) => ({ kind, key })),
  };
}

export function prepareRecord({
  kind,
  key,
  value,
  index = [],
  parent,
  expiresAt,
}: RecordData): PreparedRecord {
  return {
    kind,
    key,
    value: JSON.stringify(value),
    parent: parent && { ...parent },
    expiresAt: expiresAt ?? null,
    index: index.map(({ name, at, order }) => ({ name, at, order })),
    entries: index.length === 0 ? null : JSON.stringify(index),
  };
}

/** A row of `entries`. */
type EntryRow = readonly [kind: string, name: string, at: string, place: number, record: number];

const entryRows = (index: readonly IndexEntry[], kind: string, id: number): EntryRow[] =>
  index.map(({ name, at, order }) => [kind, name, at, order, id]);

/** How many rows one statement takes: more than a sign-in writes. */
const ROWS = 8;

/**
 * A statement about several rows.
 * @param row the placeholders of a row.
 * @param sqlOf the statement for a list of rows.
 */
function forRows(
  { change }: Pick<Connection, "change">,
  row: string,
  sqlOf: (rows: string) => string,
): (rows: readonly (readonly Parameter[])[]) => number {
  const byCount = Array.from({ length: ROWS }, (_each, index) =>
    change(
      sqlOf(
        Array<string>(index + 1)
          .fill(row)
          .join(", "),
      ),
    ),
  );
  return (rows) => {
    let changed = 0;
    for (let from = 0; from < rows.length; from += ROWS) {
      const some = rows.slice(from, from + ROWS);
      changed += byCount[some.length - 1]?.(...some.flat()) ?? 0;
    }
    return changed;
  };
}

/**
 * `OR FAIL`, because every caller rolls back after an error. By default, SQLite prepares to undo each statement about several rows, which
 * walks through all pages that are in memory.
 */
const createAddEntries = (connection: Pick<Connection, "change">): ((rows: readonly EntryRow[]) => number) =>
  forRows(
    connection,
    "(?, ?, ?, ?, ?)",
    (rows) => `INSERT OR FAIL INTO entries (kind, name, at, place, record) VALUES ${rows}`,
  );

/** @returns a function that returns the id of the new row; `undefined` if the record had a row, which stays. */
function createInsertRecord({
  insert,
}: Pick<Connection, "insert">): (
  record: PreparedRecord,
  version: string,
  parentId: number | null,
) => number | undefined {
  const insertRecord = insert(
    `INSERT INTO records (value, version, expires_at, parent, entries, kind, key) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (kind, key) DO NOTHING`,
  );
  return ({ kind, key, value, expiresAt, entries }, version, parentId) =>
    insertRecord(value, version, expiresAt, parentId, entries, kind, key);
}

/** Inserts records with their entries. One that has a row stays as it is. */
export function createInsert(
  connection: Pick<Connection, "insert" | "change">,
): (record: PreparedRecord, version: string, parentId: number | null) => void {
  const insert = createInsertRecord(connection);
  const addEntries = createAddEntries(connection);
  return (record, version, parentId) => {
    const id = insert(record, version, parentId);
    if (id !== undefined) addEntries(entryRows(record.index, record.kind, id));
  };
}

const readEntries = (entries: string | null): IndexEntry[] =>
  entries === null ? [] : (JSON.parse(entries) as IndexEntry[]);

/** The entries that others lack. */
const without = (entries: readonly IndexEntry[], others: readonly IndexEntry[]): IndexEntry[] =>
  entries.filter(
    ({ name, at, order }) =>
      !others.some((each) => each.name === name && each.at === at && each.order === order),
  );

const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/** Commits with more records than this are imports and copies, whose records nobody reads next. */
const CACHED_PUTS = 100;

/** A record that has a row. */
interface Written {
  readonly id: number;
  readonly kind: string;
}

/** What a write needs to know about the stored record. */
interface Existing {
  readonly id: number;
  readonly version: string;
  readonly isLive: boolean;
  /** As JSON. */
  readonly entries: string | null;
}

/** How a record is put. */
interface PutOptions {
  readonly version: string;
  readonly now: number;
  readonly mustBeNew: boolean;
  /** Whether the cache takes a record that is new. */
  readonly isCached: boolean;
}

/** Whether a put record hides its children, whose conditions must be checked first. */
function endsParents({ put }: PreparedCommit, now: number): boolean {
  return put.some(({ expiresAt }) => expiresAt !== null && expiresAt <= now);
}

function failure(failed: readonly Ref[]): ConditionFailed {
  const kinds = [...new Set(failed.map(({ kind }) => kind))].join(", ");
  const refs = failed.map(({ kind, key }) => ({ kind, key }));
  return new ConditionFailed(`an expectation about ${kinds} does not hold`, refs);
}

export function createRecordWrites(connection: Connection, clock: Clock, cache: RecordCache): RecordWrites {
  const find = connection.first(
    `SELECT r.id, r.version, r.expires_at, r.entries, r.parent, p.id, p.expires_at
     FROM records AS r LEFT JOIN records AS p ON p.id = r.parent WHERE r.kind = ? AND r.key = ?`,
  );
  const replace = connection.change(
    "UPDATE records SET value = ?, version = ?, expires_at = ?, parent = ?, entries = ? WHERE id = ?",
  );
  const removeChildless = forRows(
    connection,
    "?",
    (ids) =>
      `DELETE FROM records WHERE id IN (${ids})
       AND NOT EXISTS (SELECT 1 FROM records AS child WHERE child.parent = records.id)`,
  );
  const removeAll = connection.change("DELETE FROM records WHERE id IN (SELECT value FROM json_each(?))");
  // Never found, because no kind is empty. Its children are orphans and are deleted with it.
  const bury = connection.change(
    `UPDATE records SET kind = '', key = id, value = '{}', version = '', expires_at = 0, entries = NULL WHERE id = ?`,
  );
  const addEntries = createAddEntries(connection);
  const moveEntry = connection.change(
    "UPDATE entries SET name = ?, at = ?, place = ? WHERE kind = ? AND name = ? AND at = ? AND place = ? AND record = ?",
  );
  const insert = createInsertRecord(connection);
  const dropEntry = connection.change(
    "DELETE FROM entries WHERE kind = ? AND name = ? AND at = ? AND place = ? AND record = ?",
  );
  const expired = connection.all(
    "SELECT id, kind, entries, parent FROM records WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
  );
  const children = connection.all("SELECT id, kind, entries, parent FROM records WHERE parent = ? LIMIT ?");
  const count = connection.first(
    `INSERT INTO record_counters (name, value) VALUES (?1, ?2)
     ON CONFLICT (name) DO UPDATE SET value = max(value + 1, ?2) RETURNING value`,
  );

  /** The records that this commit has read, with its own changes. */
  const known = new Map<string, Existing | undefined>();
  /** The entries that this commit adds, at its end: nothing that it reads depends on them. */
  const added: EntryRow[] = [];

  function existing(ref: Ref, now: number): Existing | undefined {
    const name = nameOf(ref);
    if (!known.has(name)) known.set(name, look(ref, now));
    return known.get(name);
  }

  /** Most records that a commit is about were read shortly before, and are in the cache. */
  function look(ref: Ref, now: number): Existing | undefined {
    const isOver = (expiresAt: number | null): boolean => expiresAt !== null && expiresAt <= now;
    const cached = cache.byName(ref);
    const parent = cached?.parent ? cache.byId(cached.parent) : undefined;
    if (cached !== undefined && (cached.parent === null || parent !== undefined)) {
      const { id, version, expiresAt, entries } = cached;
      return { id, version, isLive: !isOver(expiresAt) && !isOver(parent?.expiresAt ?? null), entries };
    }
    const row = find(ref.kind, ref.key);
    if (row === undefined) return undefined;
    const isOrphan = row[4] !== null && (row[5] === null || isOver(optionalNumberAt(row, 6)));
    return {
      id: numberAt(row, 0),
      version: textAt(row, 1),
      isLive: !isOrphan && !isOver(optionalNumberAt(row, 2)),
      entries: row[3] === null ? null : textAt(row, 3),
    };
  }

  /** Most changes move a record in one index and leave the others. */
  function changeEntries(
    { id, kind }: Written,
    were: readonly IndexEntry[],
    are: readonly IndexEntry[],
  ): void {
    const missing = without(are, were);
    for (const { name, at, order } of without(were, are)) {
      const next = missing.pop();
      if (next === undefined) dropEntry(kind, name, at, order, id);
      else moveEntry(next.name, next.at, next.order, kind, name, at, order, id);
    }
    added.push(...entryRows(missing, kind, id));
  }

  /**
   * Removes records. One with children stays as a tombstone, because a commit must not delete thousands of children.
   */
  function erase(records: readonly (Written & Pick<Existing, "entries">)[]): void {
    for (const { id, kind, entries } of records) {
      changeEntries({ id, kind }, readEntries(entries), []);
      cache.forget(id);
    }
    const ids = records.map(({ id }) => [id] as const);
    if (removeChildless(ids) < ids.length) for (const [id] of ids) bury(id);
  }

  /** @returns whether the record was written: `false` if it must be new but already exists. */
  function put(record: PreparedRecord, { version, now, mustBeNew, isCached }: PutOptions): boolean {
    const { kind, key, value, parent, expiresAt, index, entries } = record;
    const parentId = parent === undefined ? null : (existing(parent, now)?.id ?? null);
    const add = (): boolean => {
      const id = insert(record, version, parentId);
      if (id === undefined) return false;
      known.set(nameOf(record), { id, version, isLive: true, entries });
      added.push(...entryRows(index, kind, id));
      if (isCached)
        cache.add(writtenRecord({ id, kind, key, version, expiresAt, parent: parentId, entries }, value));
      return true;
    };
    // Inserted without a look-up, because the record rarely exists.
    if (mustBeNew && add()) return true;
    const before = existing(record, now);
    if (mustBeNew && before?.isLive) return false;
    const fields = [value, version, expiresAt, parentId, entries] as const;
    if (before?.isLive) {
      replace(...fields, before.id);
      cache.replace({ id: before.id, kind, key, version, expiresAt, parent: parentId, entries }, value);
      known.set(nameOf(record), { ...before, version, entries });
      if (before.entries === entries) return true;
      changeEntries({ id: before.id, kind }, readEntries(before.entries), index);
      return true;
    }
    if (before !== undefined) erase([{ ...before, kind }]);
    return add();
  }

  /**
   * The records whose expectation does not hold, and children without a parent.
   * @param withNew includes those that must be new. Otherwise `put` finds them.
   */
  function failures(
    { expect, put: puts, remove: removals }: PreparedCommit,
    now: number,
    withNew: boolean,
  ): Ref[] {
    const failed = expect
      .filter(({ ref, version }) => {
        if (version === "absent") return withNew && existing(ref, now)?.isLive === true;
        const found = existing(ref, now);
        return !found?.isLive || (version !== "present" && version !== found.version);
      })
      .map(({ ref }) => ref);
    const dependent = puts.filter(({ parent }) => parent !== undefined);
    if (failed.length + dependent.length === 0) return [];
    const written = new Set(puts.map(nameOf));
    const removed = new Set(removals.map(nameOf));
    const orphans = dependent.filter(
      ({ parent }) =>
        parent !== undefined &&
        !written.has(nameOf(parent)) &&
        (removed.has(nameOf(parent)) || !existing(parent, now)?.isLive),
    );
    return [...failed, ...orphans].map(({ kind, key }) => ({ kind, key }));
  }

  /** The expired records and their children, each child before its parent, up to the limit. */
  function expiredFamilies(now: number, limit: number): Map<number, Row> {
    const found = new Map<number, Row>();
    for (const row of expired(now, limit)) {
      // A child has no children.
      const orphans = row[3] === null ? children(numberAt(row, 0), limit - found.size + 1) : [];
      for (const one of [...orphans, row]) {
        if (found.size === limit) return found;
        found.set(numberAt(one, 0), one);
      }
    }
    return found;
  }

  return {
    prepare,
    commit(change) {
      const now = clock.now();
      known.clear();
      added.length = 0;
      cache.refresh();
      if (failures(change, now, endsParents(change, now)).length > 0)
        throw failure(failures(change, now, true));
      const isNew = change.expect.filter(({ version }) => version === "absent");
      const names = new Set(isNew.map(({ ref }) => nameOf(ref)));
      const isCached = change.put.length <= CACHED_PUTS;
      const clashes = change.put.filter(
        (record) => !put(record, { version: change.id, now, mustBeNew: names.has(nameOf(record)), isCached }),
      );
      if (clashes.length > 0) throw failure(clashes);
      // Last, because it hides children, about which there may be conditions.
      erase(
        change.remove.flatMap((ref) => {
          const before = existing(ref, now);
          return before === undefined ? [] : [{ ...before, kind: ref.kind }];
        }),
      );
      addEntries(added);
    },
    sweep(limit, now) {
      const found = expiredFamilies(now, limit);
      for (const [id, row] of found) {
        const kind = textAt(row, 1);
        changeEntries({ id, kind }, readEntries(row[2] === null ? null : textAt(row, 2)), []);
        cache.forget(id);
      }
      if (found.size > 0) removeAll(JSON.stringify([...found.keys()]));
      return found.size;
    },
    next: (counter, atLeast) => numberAt(count(counter, atLeast) ?? {}, 0),
  };
}
