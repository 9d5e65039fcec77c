/** One look at the database for all requests that arrived together: a lock and a version check for each costs more than the reads. */
import type { DatabaseSync } from "node:sqlite";

export interface Snapshot {
  /**
   * Resolves when all input of this turn of the event loop is handled. What reads then, without waiting for
   * anything in between, shares one read transaction: all of it had arrived before that began, so nobody sees less
   * than what was acknowledged to them. Answers leave together too, and a peer is woken once for many of them.
   */
  arrived(): Promise<void>;
  /**
   * Runs a read: in the shared transaction if that is allowed, else in one of its own, for all that one read looks
   * at must be of one moment. Throws what it throws.
   */
  read<T>(work: () => T): T;
  /** Before a write: ends the shared transaction if it is open. */
  leave(): void;
  /** Whether reads share a transaction right now. */
  isOpen(): boolean;
  /** Called whenever reads may see something newer than before. */
  onEnd(listener: () => void): void;
}

export function createSnapshot(database: DatabaseSync): Snapshot {
  const begin = database.prepare("BEGIN");
  const commit = database.prepare("COMMIT");
  const listeners: (() => void)[] = [];
  let isAllowed = false;
  let isOpen = false;
  let turn: Promise<void> | undefined;

  function leave(): void {
    isAllowed = false;
    if (!isOpen) return;
    // A fault may have ended it already. If this fails it stays open, and whoever comes next tries again.
    if (database.isTransaction) commit.run();
    isOpen = false;
    for (const listener of listeners) listener();
  }

  /** Two immediates in a row: whoever waits for the first one runs between them. */
  function endOfInput(): Promise<void> {
    return new Promise((resolve) => {
      setImmediate(() => {
        turn = undefined;
        isAllowed = true;
        resolve();
      });
      setImmediate(() => {
        try {
          if (database.isOpen) leave();
        } catch {
          // The next read or write tries again, and is told.
        }
      });
    });
  }

  return {
    arrived: () => (turn ??= endOfInput()),
    read(work) {
      if (isOpen && !isAllowed) leave();
      try {
        if (isOpen && database.isTransaction) return work();
        // Refused while a write is open that could not be undone: nobody is to see what is in it.
        begin.run();
        isOpen = true;
        return work();
      } catch (error) {
        leave();
        throw error;
      } finally {
        if (!isAllowed) leave();
      }
    },
    leave,
    isOpen: () => isOpen,
    onEnd: (listener) => void listeners.push(listener),
  };
}
