/**
 * Group commit: all writes of one tick share a transaction, and all commits that wait for the disk share one sync,
 * which runs in another thread. A write that fails is rolled back alone. A durable write is acknowledged when it
 * survives a power failure.
 */
import { close, fdatasync, open, realpath } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { StorageUnavailable } from "../../core/errors.ts";
import { asFault, isLocked, lockedFault, nextDelay } from "./faults.ts";

export interface Durability {
  /**
   * Resolves when everything that was committed before the call is on disk.
   * @throws StorageUnavailable
   */
  reached(): Promise<void>;
  /** @throws StorageUnavailable after the disk has failed, because later results can't be trusted. */
  check(): void;
  /** Closes the file once no call waits for it. */
  close(): Promise<void>;
}

const failed = (cause: unknown): StorageUnavailable =>
  new StorageUnavailable("writing to the disk failed; repair the disk and restart", {
    cause,
    reason: String(Reflect.get(Object(cause), "code") ?? "disk"),
  });

/** @param flush syncs to the disk. One call covers everything that was committed before it. */
export function createDurability(flush: () => Promise<void>): Omit<Durability, "close"> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let failure: StorageUnavailable | undefined;

  async function run(): Promise<void> {
    try {
      await flush();
    } catch (error) {
      // After a failed sync the system may drop the unwritten data, and the next sync would succeed.
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
    // The running sync may have begun before the commit; the next one covers it.
    reached: () => (running === undefined ? start() : (next ??= running.then(start, start))),
    check() {
      if (failure !== undefined) throw failure;
    },
  };
}

/** SQLite creates the log next to the file itself, not next to a link to it. */
async function openLog(databaseFile: string): Promise<number> {
  return promisify(open)(`${await promisify(realpath)(databaseFile)}-wal`, "r+");
}

/** The durability of a database in WAL mode: its log must be on disk. */
export function logDurability(databaseFile: string): Durability {
  let file: Promise<number> | undefined;
  const flush = async (): Promise<void> => {
    // SQLite holds no lock on the log, so closing a second descriptor does not release one.
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

/** For a database in memory, which needs no disk. */
export const inMemoryDurability: Durability = Object.freeze({
  reached: () => Promise.resolve(),
  check: () => undefined,
  close: () => Promise.resolve(),
});

/** Settles the caller of one write, once the outcome of the transaction is known. */
export interface Outcome {
  readonly settle: () => void;
  /** Whether the write must be on disk first. What it may have read must always be. */
  readonly lasting: boolean;
}

/** One write of the transaction. */
export interface Write {
  /** Makes the changes, and returns how to settle the caller. An exception rolls them back. */
  readonly work: () => Outcome;
  readonly reject: (reason: unknown) => void;
}

export interface Transaction {
  /** Takes the write lock. Throws SQLite's error if another process holds it. */
  begin(): void;
  /**
   * Runs the writes, commits and settles them. Never rejects. If one of the writes is durable, or they may have read
   * something that is not on disk yet, all of them wait for the disk.
   */
  finish(writes: readonly Write[]): Promise<void>;
}

function createRollback(database: DatabaseSync): () => void {
  const rollback = database.prepare("ROLLBACK");
  return () => {
    if (database.isTransaction) rollback.run();
  };
}

/**
 * The transactions of one connection, run sequentially. The next may begin before the last is on disk.
 * @param onRollback is called when a write, or all of them, are rolled back.
 */
export function createTransaction(
  database: DatabaseSync,
  durability: Pick<Durability, "reached" | "check">,
  onRollback: () => void = () => undefined,
): Transaction {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const rollbackIfOpen = createRollback(database);
  const savepoint = database.prepare("SAVEPOINT one");
  const release = database.prepare("RELEASE one");
  const undo = database.prepare("ROLLBACK TO one");
  const foreignVersion = database.prepare("PRAGMA data_version");
  /** What other connections have written, as the running transaction sees it. */
  let foreign: unknown;
  /** The same at the time of the last sync. Unknown before the first one. */
  let covered: unknown;
  /** The last sync that was requested, while it runs. It covers those before it. */
  let flush: Promise<void> | undefined;

  function requestFlush(): void {
    covered = foreign;
    const requested = durability.reached();
    const forget = (): void => {
      if (flush === requested) flush = undefined;
    };
    flush = requested;
    requested.then(forget, forget);
  }

  /**
   * A single write needs no savepoint. SQLite copies every page that changes after one, and each statement with several rows walks
   * through all of the copies: a large commit takes twice as long.
   */
  function attemptAlone(write: Write): Outcome {
    try {
      return write.work();
    } catch (error) {
      onRollback();
      rollbackIfOpen();
      return { settle: () => write.reject(asFault(error)), lasting: false };
    }
  }

  function attempt(write: Write): Outcome {
    savepoint.run();
    try {
      const outcome = write.work();
      release.run();
      return outcome;
    } catch (error) {
      // Some faults, such as a full disk, end the whole transaction. Then the other writes are lost as well.
      if (!database.isTransaction) throw error;
      onRollback();
      undo.run();
      release.run();
      return { settle: () => write.reject(asFault(error)), lasting: false };
    }
  }

  /** The outcomes; `undefined` if nothing was committed and all callers were rejected. */
  function commitTogether(writes: readonly Write[]): Outcome[] | undefined {
    try {
      const outcomes = writes.map(writes.length === 1 ? attemptAlone : attempt);
      if (database.isTransaction) commit.run();
      return outcomes;
    } catch (error) {
      onRollback();
      try {
        rollbackIfOpen();
      } catch {
        // The transaction stays open. Reads roll it back first; the next write tries again and reports the fault.
      }
      // A condition may have failed because of a write that is now rolled back, so no outcome is valid.
      const fault = asFault(error);
      for (const write of writes) write.reject(fault);
      return undefined;
    }
  }

  return {
    begin() {
      durability.check();
      rollbackIfOpen();
      begin.run();
      foreign = foreignVersion.get()?.["data_version"];
    },
    async finish(writes) {
      const outcomes = commitTogether(writes);
      if (outcomes === undefined) return;
      if (foreign !== covered || outcomes.some(({ lasting }) => lasting)) requestFlush();
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

/** The most writes in one transaction, so that other work can run in between. */
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
  /** Milliseconds before the next attempt while the lock is held. */
  #delay: number | undefined;
  /** Why the last attempt could not begin. */
  #obstacle: unknown;
  /** Groups that are committed but not known to be on disk. */
  #unsettled = 0;
  #whenIdle: (() => void)[] = [];

  constructor(transaction: Transaction) {
    this.#transaction = transaction;
  }

  /**
   * Runs `work` in a transaction soon. Rejects with the error of `work`, whose writes are then rolled back, or with
   * `StorageUnavailable`.
   * @param wait milliseconds after which work that has not begun is refused.
   * @param lasting whether it must be on disk before it is acknowledged.
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

  /** Resolves when nothing waits. */
  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenIdle.push(resolve);
    return promise;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After all input of this tick, so that writes that arrive together are committed together.
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    this.#refuseLate();
    if (this.#queue.length > 0) this.#tryOnce();
    if (this.#queue.length > 0) return this.#schedule();
    this.#resolveIdle();
  }

  #isIdle(): boolean {
    return this.#queue.length === 0 && this.#unsettled === 0;
  }

  #resolveIdle(): void {
    if (this.#isIdle()) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  async #finish(writes: readonly Write[]): Promise<void> {
    this.#unsettled += 1;
    await this.#transaction.finish(writes);
    this.#unsettled -= 1;
    this.#resolveIdle();
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
