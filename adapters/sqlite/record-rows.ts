/** The tables of the record store, and its rows as they are read: parsed once, and remembered while the file is the same. */
import type { DatabaseSync } from "node:sqlite";
import { deepFreeze } from "../../config/deep-freeze.ts";
import type { Found, JsonObject, Ref } from "../record-store.ts";
import { type Connection, numberAt, optionalNumberAt, type Row, textAt } from "./connection.ts";

/**
 * A record keeps its `id` when it is replaced, and its children name that id: so they don't belong to a later record
 * with the same key. `entries` repeats the index entries of the record, so that a write knows which ones to take away.
 */
const SCHEMA = `
CREATE TABLE IF NOT EXISTS records (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  version TEXT NOT NULL,
  expires_at REAL,
  parent INTEGER,
  entries TEXT,
  UNIQUE (kind, key)
) STRICT;
CREATE INDEX IF NOT EXISTS records_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS records_parent ON records (parent) WHERE parent IS NOT NULL;
CREATE TABLE IF NOT EXISTS entries (
  kind TEXT,
  name TEXT,
  at TEXT,
  place INTEGER,
  record INTEGER,
  PRIMARY KEY (kind, name, at, place, record)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS record_counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`;

/** Creates the tables. */
export function createRecordTables(database: DatabaseSync): void {
  database.exec(SCHEMA);
}

/** A row of `records`. */
export interface StoredRecord extends Ref {
  readonly id: number;
  /** Frozen, for everybody gets the same one. */
  readonly value: JsonObject;
  readonly version: string;
  readonly expiresAt: number | null;
  /** `id` of the parent. */
  readonly parent: number | null;
}

/** The columns of `readRow`, in its order. */
export const RECORD_COLUMNS = "r.id, r.kind, r.key, r.value, r.version, r.expires_at, r.parent";

export function readRow(row: Row): StoredRecord {
  return {
    id: numberAt(row, 0),
    kind: textAt(row, 1),
    key: textAt(row, 2),
    value: deepFreeze(JSON.parse(textAt(row, 3)) as JsonObject),
    version: textAt(row, 4),
    expiresAt: optionalNumberAt(row, 5),
    parent: optionalNumberAt(row, 6),
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

/** How many records are remembered, at one or two kilobytes each. */
const CAPACITY = 1_000;

const nameOf = ({ kind, key }: Ref): string => `${kind} ${key}`;

/** Parsed records. They are forgotten when another connection has written to the file, or this one has written them. */
export class RememberedRecords {
  readonly #connection: Connection;
  readonly #byName = new Map<string, StoredRecord>();
  readonly #byId = new Map<number, StoredRecord>();
  #version = Number.NaN;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** To be called first in every read: forgets everything if somebody else has written. */
  refresh(): void {
    const version = this.#connection.foreignVersion();
    if (version === this.#version) return;
    this.#byName.clear();
    this.#byId.clear();
    this.#version = version;
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

  forget(id: number): void {
    const record = this.#byId.get(id);
    if (record === undefined) return;
    this.#byId.delete(id);
    this.#byName.delete(nameOf(record));
  }
}
