/**
 * Collects the writes of one turn of the event loop into one transaction, waits for its lock, and for the disk. A write
 * that fails is undone alone. Nothing that has to last is told before it survives the loss of power; the disk is waited
 * for in another thread, once for all commits that wait.
 */
import { close, fdatasync, open, realpath } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { StorageUnavailable } from "../errors.ts";
import { asFault, isLocked, lockedFault, nextDelay } from "./faults.ts";

export interface Durability {
  /** Resolves when all that was committed before the call is on the disk. @throws StorageUnavailable */
  reached(): Promise<void>;
  /** @throws StorageUnavailable when the disk has failed: what it says afterwards is not to be believed. */
  check(): void;
  /** Lets go of the file, when nobody waits any more. */
  close(): Promise<void>;
}

const failed = (cause: unknown): StorageUnavailable =>
  new StorageUnavailable("the disk did not take what was written; restart when it is well again", { cause });

/** @param flush waits for the disk. One call covers everything that was committed before it. */
export function createDurability(flush: () => Promise<void>): Omit<Durability, "close"> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let failure: StorageUnavailable | undefined;

  async function run(): Promise<void> {
    try {
      await flush();
    } catch (error) {
      // After a failed flush the system may forget what it could not write, and the next one would succeed.
      failure ??= failed(error);
    } finally {
      running = undefined;
    }
    if (failure !== undefined) throw failure;
  }

  function start(): Promise<void> {
    next = undefined;
    return (running = run());
  }

  return {
    // The flush that is running may have begun before the commit: the next one covers it.
    reached: () => (running === undefined ? start() : (next ??= running.then(start, start))),
    check() {
      if (failure !== undefined) throw failure;
    },
  };
}

/** SQLite puts the log beside the file itself, not beside a link to it. */
async function openLog(databaseFile: string): Promise<number> {
  return promisify(open)(`${await promisify(realpath)(databaseFile)}-wal`, "r+");
}

/** The durability of a database in WAL mode: its log is what has to be on the disk. */
export function logDurability(databaseFile: string): Durability {
  let file: Promise<number> | undefined;
  const flush = async (): Promise<void> => {
    // No lock of SQLite is on the log, so a second descriptor can be closed without ending one.
    file ??= openLog(databaseFile);
    await promisify(fdatasync)(await file);
  };
  return {
    ...createDurability(flush),
    async close() {
      const descriptor = await file?.catch(() => undefined);
      if (descriptor !== undefined) await promisify(close)(descriptor);
    },
  };
}

/** Of a database in memory: there is nothing to wait for. */
export const inMemoryDurability: Durability = Object.freeze({
  reached: () => Promise.resolve(),
  check: () => undefined,
  close: () => Promise.resolve(),
});

/** How the caller of one write is told what became of it: only when the fate of the transaction is known. */
export interface Outcome {
  readonly settle: () => void;
  /** Whether what it wrote has to be on the disk first. What it may have read has to be in any case. */
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
  /**
   * Runs the writes, commits, and settles them; resolves then. Never throws. A loss of power must not take back what an
   * answer relies on: where one of them lasts, or they may have read what is not on the disk yet, all wait for it.
   */
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
  const foreignVersion = database.prepare("PRAGMA data_version");
  /** What other connections have written, as the running transaction sees it. */
  let seen: unknown;
  /** The same as of the last flush that was asked for. Nobody knows what there was before this connection. */
  let covered: unknown;
  /** The last flush that was asked for, while it is under way. It covers those before it. */
  let flush: Promise<void> | undefined;

  function askForDisk(): void {
    covered = seen;
    const asked = durability.reached();
    const forget = (): void => {
      if (flush === asked) flush = undefined;
    };
    flush = asked;
    asked.then(forget, forget);
  }

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
      return { settle: () => write.reject(asFault(error)), lasting: false };
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
      seen = foreignVersion.get()?.["data_version"];
    },
    async finish(writes) {
      const outcomes = commitTogether(writes);
      if (outcomes === undefined) return;
      if (seen !== covered || outcomes.some(({ lasting }) => lasting)) askForDisk();
      try {
        await flush;
      } catch (error) {
        for (const write of writes) write.reject(error);
        return;
      }
      for (const { settle } of outcomes) settle();
    },
  };
}

/** At most so many writes in one transaction, so that other requests get their turn in between. */
const GROUP_SIZE = 256;

interface WaitingWrite extends Write {
  /** On the scale of `performance.now()`. */
  readonly giveUpAt: number;
}

/** The writes of one connection. */
export class GroupCommit {
  readonly #transaction: Transaction;
  #queue: WaitingWrite[] = [];
  #scheduled = false;
  /** The pause before the next try while the lock is held. */
  #delay: number | undefined;
  /** Why the last try could not begin. */
  #obstacle: unknown;
  /** How many groups are committed, but not known to be on the disk. */
  #unsettled = 0;
  #whenIdle: (() => void)[] = [];

  constructor(transaction: Transaction) {
    this.#transaction = transaction;
  }

  /**
   * Runs `work` in a transaction soon. Rejects with what it throws, then nothing of it is written, or
   * with `StorageUnavailable`.
   * @param wait milliseconds after which it is refused if it has not begun.
   * @param lasting whether it has to be on the disk before it is told.
   */
  add<T>(work: () => T, wait: number, lasting = true): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const giveUpAt = performance.now() + wait;
    this.#queue.push({
      work() {
        const result = work();
        return { settle: () => resolve(result), lasting };
      },
      reject,
      giveUpAt,
    });
    this.#schedule();
    return promise;
  }

  /** Resolves when nothing waits any more. */
  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenIdle.push(resolve);
    return promise;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After all input of this turn is handled: what arrived together is written together.
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    this.#refuseLate();
    if (this.#queue.length > 0) this.#tryOnce();
    if (this.#queue.length > 0) return this.#schedule();
    this.#tellIdle();
  }

  #isIdle(): boolean {
    return this.#queue.length === 0 && this.#unsettled === 0;
  }

  #tellIdle(): void {
    if (this.#isIdle()) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  async #finish(writes: readonly Write[]): Promise<void> {
    this.#unsettled += 1;
    await this.#transaction.finish(writes);
    this.#unsettled -= 1;
    this.#tellIdle();
  }

  #tryOnce(): void {
    try {
      this.#transaction.begin();
    } catch (error) {
      if (isLocked(error)) this.#waitForLock(error);
      else for (const write of this.#queue.splice(0)) write.reject(asFault(error));
      return;
    }
    this.#delay = undefined;
    this.#obstacle = undefined;
    void this.#finish(this.#queue.splice(0, GROUP_SIZE));
  }

  #waitForLock(obstacle: unknown): void {
    this.#obstacle = obstacle;
    this.#delay = nextDelay(this.#delay);
    this.#scheduled = true;
    setTimeout(() => this.#flush(), this.#delay);
  }

  #refuseLate(): void {
    const now = performance.now();
    if (this.#queue.every((write) => write.giveUpAt > now)) return;
    for (const write of this.#queue) {
      if (write.giveUpAt <= now) write.reject(lockedFault(this.#obstacle));
    }
    this.#queue = this.#queue.filter((write) => write.giveUpAt > now);
  }
}
