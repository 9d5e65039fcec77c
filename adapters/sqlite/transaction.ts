/** Several writes in one transaction; one that fails is undone alone. */
import type { DatabaseSync } from "node:sqlite";
import type { Durability } from "./durability.ts";
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
  /** Runs the writes, commits, and settles each when it is on the disk; resolves then. Never throws. */
  finish(writes: readonly Write[]): Promise<void>;
}

/** What the transactions of a connection need beside its database. */
export interface Surroundings {
  /** Says when a commit survives the loss of power. */
  readonly durability: Pick<Durability, "reached" | "check">;
  /** Ends what reads have open. */
  readonly beforeBegin: () => void;
}

/** The transactions of one connection, one after the other; the next may begin before the last is on the disk. */
export function createTransaction(
  database: DatabaseSync,
  { durability, beforeBegin }: Surroundings,
): Transaction {
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

  /** Everybody's verdict, or `undefined` when nothing was committed and everybody has been told. */
  function commitTogether(writes: readonly Write[]): Settle[] | undefined {
    try {
      const outcomes = writes.map(attempt);
      commit.run();
      return outcomes;
    } catch (error) {
      if (database.isTransaction) rollback.run();
      // A condition may have failed because of a write that is undone now: nobody's verdict counts.
      const fault = asFault(error);
      for (const write of writes) write.reject(fault);
      return undefined;
    }
  }

  return {
    begin() {
      durability.check();
      beforeBegin();
      begin.run();
    },
    async finish(writes) {
      const outcomes = commitTogether(writes);
      if (outcomes === undefined) return;
      try {
        await durability.reached();
      } catch (error) {
        for (const write of writes) write.reject(error);
        return;
      }
      for (const settle of outcomes) settle();
    },
  };
}
