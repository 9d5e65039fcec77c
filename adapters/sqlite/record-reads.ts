/**
 * Reads records by name, by index, or all of a kind, within a read of the connection. Parsed records are cached until
 * the file changes.
 */
import { deepFreeze } from "../../config/plain-data.ts";
import type { Clock } from "../../core/clock.ts";
import type { Found, JsonObject, Page, Position, Query, Ref } from "../record-store.ts";
import { type Connection, numberAt, optionalNumberAt, type Row, textAt } from "./connection.ts";

/** A row of `records`. */
export interface StoredRecord extends Ref {
  readonly id: number;
  /** Frozen, because all callers get the same object. */
  readonly value: JsonObject;
  readonly version: string;
  readonly expiresAt: number | null;
  /** `id` of the parent. */
  readonly parent: number | null;
  /** The index entries as JSON, for the next write. */
  readonly entries: string | null;
}

/** The columns of `readRow`, in its order. */
export const RECORD_COLUMNS = "r.id, r.kind, r.key, r.value, r.version, r.expires_at, r.parent, r.entries";

export function readRow(row: Row): StoredRecord {
  return {
    id: numberAt(row, 0),
    kind: textAt(row, 1),
    key: textAt(row, 2),
    value: deepFreeze(JSON.parse(textAt(row, 3)) as JsonObject),
    version: textAt(row, 4),
    expiresAt: optionalNumberAt(row, 5),
    parent: optionalNumberAt(row, 6),
    entries: row[7] === null ? null : textAt(row, 7),
  };
}

/** A record as it was just written. Most are not read again, so its value is parsed by the first read. */
export function writtenRecord(columns: Omit<StoredRecord, "value">, json: string): StoredRecord {
  let value: JsonObject | undefined;
  return {
    ...columns,
    get value() {
      return (value ??= deepFreeze(JSON.parse(json) as JsonObject));
    },
  };
}

/** The record as callers see it. */
export function toFound(record: StoredRecord, parent?: StoredRecord): Found {
  const { kind, key, value, version, expiresAt } = record;
  return {
    kind,
    key,
    value,
    version,
    ...(expiresAt === null ? {} : { expiresAt }),
    ...(parent === undefined ? {} : { parent: toFound(parent) }),
  };
}

/** How many records are cached, at one to two kilobytes each. */
const CAPACITY = 1_000;
/** Larger pages are not cached: they would displace everything else. */
const KEPT_OF_A_PAGE = 100;

const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/**
 * A cache of parsed records. It is emptied when another connection has written to the file, and when a write of
 * this one is rolled back: a record that is inserted is in the cache, and one that is in it stays when it is replaced.
 */
export class RecordCache {
  readonly #connection: Connection;
  readonly #byName = new Map<string, StoredRecord>();
  readonly #byId = new Map<number, StoredRecord>();
  #version = Number.NaN;

  constructor(connection: Connection) {
    this.#connection = connection;
    connection.onRollback(() => this.#clear());
  }

  /** Call it first in every read and commit: empties the cache if another connection has written. */
  refresh(): void {
    const version = this.#connection.foreignVersion();
    if (version === this.#version) return;
    this.#clear();
    this.#version = version;
  }

  #clear(): void {
    this.#byName.clear();
    this.#byId.clear();
  }

  byName(ref: Ref): StoredRecord | undefined {
    return this.#byName.get(nameOf(ref));
  }

  byId(id: number): StoredRecord | undefined {
    return this.#byId.get(id);
  }

  add(record: StoredRecord): StoredRecord {
    const [oldest] = this.#byName.values();
    if (oldest !== undefined && this.#byName.size >= CAPACITY) this.forget(oldest.id);
    this.#byName.set(nameOf(record), record);
    this.#byId.set(record.id, record);
    return record;
  }

  /** Keeps what was written, if the record was cached. */
  replace(columns: Omit<StoredRecord, "value">, json: string): void {
    if (!this.#byId.has(columns.id)) return;
    const record = writtenRecord(columns, json);
    this.#byName.set(nameOf(record), record);
    this.#byId.set(record.id, record);
  }

  forget(id: number): void {
    const record = this.#byId.get(id);
    if (record === undefined) return;
    this.#byId.delete(id);
    this.#byName.delete(nameOf(record));
  }
}

export interface RecordReads {
  get(refs: readonly Ref[], withParents: boolean): (Found | undefined)[];
  list(queries: readonly Query[]): Page[];
  scan(kind: string, after: Position | undefined, limit: number): Page;
  count(queries: readonly Query[]): number[];
}

/** The bounds of `order`. */
const LOWEST = Number.MIN_SAFE_INTEGER;
const HIGHEST = Number.MAX_SAFE_INTEGER;

/** The order and the record after which a page begins. */
function readPosition(position: Position): [order: number, record: number] {
  const [order = Number.NaN, record = Number.NaN] = position.split(" ").map(Number);
  if (!Number.isSafeInteger(order) || !Number.isSafeInteger(record))
    throw new TypeError("this position comes from another store");
  return [order, record];
}

const isLive = ({ expiresAt }: StoredRecord, now: number): boolean => expiresAt === null || expiresAt > now;

export function createRecordReads(connection: Connection, clock: Clock, cache: RecordCache): RecordReads {
  const byName = connection.first(`SELECT ${RECORD_COLUMNS} FROM records AS r WHERE kind = ? AND key = ?`);
  // In one statement. The names come first, whatever the planner knows about the table.
  const byNames = connection.all(
    `SELECT ${RECORD_COLUMNS} FROM json_each(?) AS q
     CROSS JOIN records AS r ON r.kind = q.value ->> 0 AND r.key = q.value ->> 1`,
  );
  const byId = connection.first(`SELECT ${RECORD_COLUMNS} FROM records AS r WHERE id = ?`);
  const byKey = connection.all(
    `SELECT ${RECORD_COLUMNS} FROM records AS r WHERE kind = ? AND key > ? ORDER BY key LIMIT ?`,
  );
  const indexed = (behind: ">" | "<", within: "<=" | ">=", direction: "ASC" | "DESC") =>
    connection.all(
      `SELECT ${RECORD_COLUMNS}, e.place
       FROM entries AS e JOIN records AS r ON r.id = e.record LEFT JOIN records AS p ON p.id = r.parent
       WHERE e.kind = ?1 AND e.name = ?2 AND e.at = ?3
         AND (e.place, e.record) ${behind} (?4, ?5) AND e.place ${within} ?6
         AND (r.expires_at IS NULL OR r.expires_at > ?7)
         AND (r.parent IS NULL OR (p.id IS NOT NULL AND (p.expires_at IS NULL OR p.expires_at > ?7)))
       ORDER BY e.place ${direction}, e.record ${direction} LIMIT ?8`,
    );
  const upwards = indexed(">", "<=", "ASC");
  const downwards = indexed("<", ">=", "DESC");
  const entries = connection.first(
    `SELECT count(*) FROM
       (SELECT 1 FROM entries WHERE kind = ? AND name = ? AND at = ? AND place BETWEEN ? AND ? LIMIT ?)`,
  );

  const load = (row: Row | undefined): StoredRecord | undefined => row && cache.add(readRow(row));

  /** The live parent; `null` for a record without one, `undefined` for an orphan. */
  function parentOf({ parent }: StoredRecord, now: number): StoredRecord | null | undefined {
    if (parent === null) return null;
    const found = cache.byId(parent) ?? load(byId(parent));
    return found && isLive(found, now) ? found : undefined;
  }

  /** The records with these names, by their names, whether they are live or not. */
  function findAll(refs: readonly Ref[]): Map<string, StoredRecord> {
    const found = new Map<string, StoredRecord>();
    const missing: Ref[] = [];
    for (const ref of refs) {
      const record = cache.byName(ref);
      if (record === undefined) missing.push(ref);
      else found.set(nameOf(ref), record);
    }
    const [first] = missing;
    const rows =
      missing.length > 1
        ? byNames(JSON.stringify(missing.map(({ kind, key }) => [kind, key])))
        : [first && byName(first.kind, first.key)];
    for (const row of rows) {
      const record = load(row);
      if (record !== undefined) found.set(nameOf(record), record);
    }
    return found;
  }

  function toLive(found: StoredRecord | undefined, withParents: boolean, now: number): Found | undefined {
    if (found === undefined || !isLive(found, now)) return undefined;
    const parent = parentOf(found, now);
    if (parent === undefined) return undefined;
    return toFound(found, withParents && parent !== null ? parent : undefined);
  }

  /** @param keep whether to cache the record: a caller that lists a few records often reads or writes them next. */
  function listed(row: Row, keep: boolean): StoredRecord {
    const cached = cache.byId(numberAt(row, 0));
    if (cached !== undefined && cached.version === row[4]) return cached;
    const record = readRow(row);
    if (keep && cached === undefined) cache.add(record);
    return record;
  }

  function page(query: Query): Page {
    const { kind, index, at, from = LOWEST, to = HIGHEST, after, limit, descending = false } = query;
    const last = after === undefined ? undefined : readPosition(after);
    const now = clock.now();
    const rows = descending
      ? downwards(kind, index, at, ...(last ?? [to, HIGHEST]), from, now, limit + 1)
      : upwards(kind, index, at, ...(last ?? [from, LOWEST]), to, now, limit + 1);
    const shown = rows.slice(0, limit);
    const end = rows.length > limit ? shown.at(-1) : undefined;
    const records = shown.map((row) => toFound(listed(row, limit <= KEPT_OF_A_PAGE)));
    return end === undefined ? { records } : { records, next: `${numberAt(end, 8)} ${numberAt(end, 0)}` };
  }

  return {
    get(refs, withParents) {
      cache.refresh();
      const now = clock.now();
      const found = findAll(refs);
      return refs.map((ref) => toLive(found.get(nameOf(ref)), withParents, now));
    },
    list(queries) {
      cache.refresh();
      return queries.map(page);
    },
    scan(kind, after, limit) {
      cache.refresh();
      const now = clock.now();
      const rows = byKey(kind, after ?? "", limit);
      const all = rows.map((row) => listed(row, rows.length <= KEPT_OF_A_PAGE));
      const live = all.filter((record) => isLive(record, now) && parentOf(record, now) !== undefined);
      const records = live.map((record) => toFound(record));
      const last = all.length < limit ? undefined : all.at(-1);
      return last === undefined ? { records } : { records, next: last.key };
    },
    count: (queries) =>
      queries.map(({ kind, index, at, from = LOWEST, to = HIGHEST, limit }) =>
        numberAt(entries(kind, index, at, from, to, limit) ?? {}, 0),
      ),
  };
}
