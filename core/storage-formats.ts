/**
 * The formats of a storage, oldest first: the only place that says which one this version writes, which one it reads besides, and how a
 * storage gets from one to the next. `docs/operate/day-to-day/upgrading.md` and `docs/formats.json` are made of it.
 */

/** The value of a record: JSON, and never changed in place. */
export type StoredValue = { readonly [name: string]: unknown };

/** An index entry of a format before: as `index` of a kind declares it. */
export interface FormerEntry {
  readonly name: string;
  readonly at: string;
  readonly order: number;
}

/** How the records of one kind change. */
export interface KindChange {
  /** The name of the kind. */
  readonly kind: string;
  /** The value in this format. It returns a value that has this format already as it is, because a storage has both for a while. */
  readonly upgrade: (value: StoredValue) => StoredValue;
  /** The value as the format before has it, for servers of the version before. It loses nothing that they need. */
  readonly downgrade: (value: StoredValue) => StoredValue;
  /** The index entries that only servers of the version before look for, from a value of their format. Default: none. */
  readonly formerIndex?: (value: StoredValue) => readonly FormerEntry[];
}

/**
 * How a storage gets to a format from the one before.
 *
 * `expand and contract`: servers of both versions use the storage at the same time. Starting the new version expands it: tables, columns,
 * indexes and functions that are new are created, and the new version reads both formats and writes the one before. Once no server of the
 * old version is left, `storage migrate` contracts it: the new version writes its own format, all records are rewritten, and what only
 * the old version needed is dropped.
 *
 * `in one step`: all servers are stopped, and `storage migrate` rewrites the storage.
 */
export type FormatPath = "expand and contract" | "in one step";

export interface StorageFormat {
  readonly format: number;
  /** The first version that writes it. */
  readonly since: string;
  /** What is new in it, for operators: a phrase. */
  readonly what: string;
  /** How a storage of the format before gets here. The first row has none: no version reads what was before it. */
  readonly path?: FormatPath;
  readonly changes: readonly KindChange[];
  /**
   * The tables and indexes that only the format before has, and columns as `table.column`, in any database. `storage migrate` drops
   * those that are there. Default: none.
   */
  readonly drops?: readonly string[];
}

/** To change the format, add a row: see docs/internals/changing-the-format.md. Rows are never changed once a version with them is published. */
export const STORAGE_FORMATS: readonly StorageFormat[] = [
  { format: 10, since: "0.3.0", what: "the first format that later versions read", changes: [] },
];

/** The format that this version writes. */
export function currentFormat(): StorageFormat {
  const last = STORAGE_FORMATS.at(-1);
  if (last === undefined) throw new TypeError("there is no format");
  return last;
}

/** The format before, which this version reads as well; `undefined` for the first one. */
export function formerFormat(): StorageFormat | undefined {
  return STORAGE_FORMATS.at(-2);
}
