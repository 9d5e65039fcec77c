/** One look at the database for all requests that arrived together: a lock and a version check for each costs more than the reads. */
import type { DatabaseSync } from "node:sqlite";

export interface Snapshot {
  /**
   * A request has arrived: until this turn of the event loop ends, reads may share one read transaction. All that
   * is handled in the turn had arrived before it began, so nobody sees less than what was acknowledged to them.
   */
  allow(): void;
  /** Before a read: begins the shared transaction if it is allowed. */
  enter(): void;
  /** Before a write, and after a read that failed: ends the shared transaction if it is open. */
  leave(): void;
  /** Whether reads share a transaction right now. */
  isOpen(): boolean;
  /** Called whenever reads may see something newer than before. */
  onEnd(listener: () => void): void;
}

/** Outside of a turn that was allowed every read looks for itself. */
export function createSnapshot(database: DatabaseSync): Snapshot {
  const begin = database.prepare("BEGIN");
  const commit = database.prepare("COMMIT");
  const listeners: (() => void)[] = [];
  let isAllowed = false;
  let isOpen = false;

  function leave(): void {
    isAllowed = false;
    if (!isOpen) return;
    isOpen = false;
    // A fault may have ended it already.
    if (database.isTransaction) commit.run();
    for (const listener of listeners) listener();
  }

  // After the input of the turn: whatever comes next may have arrived later than the look.
  const endTurn = (): void => {
    if (database.isOpen) leave();
  };

  return {
    allow() {
      if (isAllowed || isOpen) return;
      isAllowed = true;
      setImmediate(endTurn);
    },
    enter() {
      if (!isAllowed || isOpen) return;
      begin.run();
      isOpen = true;
    },
    leave,
    isOpen: () => isOpen,
    onEnd: (listener) => void listeners.push(listener),
  };
}
