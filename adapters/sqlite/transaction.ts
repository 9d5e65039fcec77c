/** Several writes in one transaction, and so with one fsync; one that fails is undone alone. */
import type { DatabaseSync } from "node:sqlite";
import { asFault } from "./faults.ts";

/** Tells the caller of one write what became of it: called only when the fate of the transaction is known. */
export type Settle = () => void;

/** One write of the transaction. */
export interface Write {
  /** Makes the changes and says how to tell the good news. What it throws undoes them. */
  readonly work: () => Settle;
  readonly reject: (reason: unknown) => void;
}

export interface Transaction {
  /** Takes the write lock. Throws what SQLite throws, at once, when another process holds it. */
  begin(): void;
  /** Runs the writes, commits, and settles each. Never throws. */
  finish(writes: readonly Write[]): void;
}

/**
 * The transactions of one connection, one after the other.
 * @param beforeBegin ends what reads have open.
 */
export function createTransaction(database: DatabaseSync, beforeBegin: () => void = () => {}): Transaction {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const rollback = database.prepare("ROLLBACK");
  const savepoint = database.prepare("SAVEPOINT one");
  const release = database.prepare("RELEASE one");
  const undo = database.prepare("ROLLBACK TO one");

  function attempt(write: Write): Settle {
    savepoint.run();
    try {
      const settle = write.work();
      release.run();
      return settle;
    } catch (error) {
      // Some faults (a full disk) end the whole transaction: then the other writes are lost as well.
      if (!database.isTransaction) throw error;
      undo.run();
      release.run();
      return () => write.reject(asFault(error));
    }
  }

  function commitTogether(writes: readonly Write[]): Settle[] {
    try {
      const outcomes = writes.map(attempt);
      commit.run();
      return outcomes;
    } catch (error) {
      if (database.isTransaction) rollback.run();
      // A condition may have failed because of a write that is undone now: nobody's verdict counts.
      const fault = asFault(error);
      return writes.map((write) => () => write.reject(fault));
    }
  }

  return {
    begin() {
      beforeBegin();
      begin.run();
    },
    finish(writes) {
      for (const settle of commitTogether(writes)) settle();
    },
  };
}
