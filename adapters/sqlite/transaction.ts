/** Several writes in one transaction; one that fails is undone alone. */
import type { DatabaseSync } from "node:sqlite";
import type { Durability } from "./durability.ts";
import { asFault } from "./faults.ts";

/** How the caller of one write is told what became of it: only when the fate of the transaction is known. */
export interface Outcome {
  readonly settle: () => void;
  /** Whether it has to be on the disk first. */
  readonly lasting: boolean;
}

/** One write of the transaction. */
export interface Write {
  /** Makes the changes and says how to tell the good news. What it throws undoes them. */
  readonly work: () => Outcome;
  readonly reject: (reason: unknown) => void;
}

export interface Transaction {
  /** Takes the write lock. Throws what SQLite throws, at once, when another process holds it. */
  begin(): void;
  /** Runs the writes, commits, and settles each, the lasting ones when they are on the disk; resolves then. Never throws. */
  finish(writes: readonly Write[]): Promise<void>;
}

function createEnd(database: DatabaseSync): () => void {
  const rollback = database.prepare("ROLLBACK");
  return () => {
    if (database.isTransaction) rollback.run();
  };
}

/** The transactions of one connection, one after the other; the next may begin before the last is on the disk. */
export function createTransaction(
  database: DatabaseSync,
  durability: Pick<Durability, "reached" | "check">,
): Transaction {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const endWhatIsOpen = createEnd(database);
  const savepoint = database.prepare("SAVEPOINT one");
  const release = database.prepare("RELEASE one");
  const undo = database.prepare("ROLLBACK TO one");

  function attempt(write: Write): Outcome {
    savepoint.run();
    try {
      const outcome = write.work();
      release.run();
      return outcome;
    } catch (error) {
      // Some faults (a full disk) end the whole transaction: then the other writes are lost as well.
      if (!database.isTransaction) throw error;
      undo.run();
      release.run();
      return { settle: () => write.reject(asFault(error)), lasting: true };
    }
  }

  /** Everybody's verdict, or `undefined` when nothing was committed and everybody has been told. */
  function commitTogether(writes: readonly Write[]): Outcome[] | undefined {
    try {
      const outcomes = writes.map(attempt);
      commit.run();
      return outcomes;
    } catch (error) {
      try {
        endWhatIsOpen();
      } catch {
        // It stays open, and nobody reads in it. Whoever writes next tries again, and is told.
      }
      // A condition may have failed because of a write that is undone now: nobody's verdict counts.
      const fault = asFault(error);
      for (const write of writes) write.reject(fault);
      return undefined;
    }
  }

  return {
    begin() {
      durability.check();
      endWhatIsOpen();
      begin.run();
    },
    async finish(writes) {
      const outcomes = commitTogether(writes);
      if (outcomes === undefined) return;
      for (const { settle, lasting } of outcomes) if (!lasting) settle();
      if (outcomes.every(({ lasting }) => !lasting)) return;
      try {
        await durability.reached();
      } catch (error) {
        // Those that were settled before stay as they are.
        for (const write of writes) write.reject(error);
        return;
      }
      for (const { settle, lasting } of outcomes) if (lasting) settle();
    },
  };
}
