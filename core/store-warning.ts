/** What a store has to say that stops nothing, while it is opened or later. */

/** The kind of a warning, for the log and for `doctor`. */
export type StoreWarning =
  /** A Redis may delete what is still valid. */
  | "redis_evicts"
  /** Other roles may create functions where those of the service are. */
  | "postgresql_shared"
  /** Another of several hosts is used from now on, or none, or one again. */
  | "postgresql_host"
  /** The folder of a database file was not there. */
  | "folder_created"
  /** The clock of a store and that of the process differ. */
  | "clock";

/** @param text a sentence without its end. It contains no secret. */
export type OnStoreWarning = (text: string, warning: StoreWarning) => void;
