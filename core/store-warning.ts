/** Warnings of a store: something an operator should know, while it is opened or later. */

/** The kind of a warning, for the log and for `doctor`. */
export type StoreWarning =
  /** Redis may evict keys that are still in use. */
  | "redis_evicts"
  /** Other roles may create functions in the schema of the service. */
  | "postgresql_shared"
  /** PostgreSQL is reached at another host from now on, at none, or at one again. */
  | "postgresql_host"
  /** The folder of a database file was missing, and was created. */
  | "folder_created"
  /** The clock of a store and that of the process differ. */
  | "clock";

/** @param text a sentence without its end. It contains no secret. */
export type OnStoreWarning = (text: string, warning: StoreWarning) => void;
