/** What is measured by default. */
export const BACKENDS = ["SQLite", "PostgreSQL"] as const;
export type Backend = (typeof BACKENDS)[number];

/** Number of accounts of the storages that are compared. */
export const SIZES: readonly number[] = [10_000, 100_000, 1_000_000];

/** What a storage has done so far. */
export interface Work {
  /** Pages or blocks that were used, whether they were in memory or not; of SQLite, only the others are known. */
  readonly used: number;
  /** Those of them that were read from files, because they were not in the memory of SQLite or PostgreSQL. */
  readonly reads: number;
  /** Bytes that SQLite wrote to its files, or PostgreSQL to its log. */
  readonly written: number;
  /** Milliseconds of CPU of the database server; SQLite has none. */
  readonly serverCpu: number;
}
