/** What the campaign does to a server. */
/** A server, and how many connections one process may have to it. */
export interface Connected {
  readonly port: number;
  readonly most: number;
}

/** A server that never loses what it has acknowledged, apart from {@link Loss}. */
export interface StorageServer extends Connected {
  /** SIGKILL. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** SIGSTOP, and SIGCONT. */
  pause(): void;
  resume(): void;
  /** Moves what it holds to another server while requests run. */
  move?(): Promise<void>;
}

/** What was acknowledged while the standby received nothing, and was lost with the primary. In milliseconds since the epoch. */
export interface Loss {
  readonly from: number;
  readonly to: number;
  /** When the standby was promoted, and when `storage promoted` had ended what may have come back. */
  readonly promoted: number;
  readonly renewed: number;
}
