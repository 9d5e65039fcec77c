/** Collects the writes of one turn of the event loop into one transaction, and waits for its lock. */
import { asFault, isLocked, lockedFault, nextDelay } from "./faults.ts";
import type { Transaction, Write } from "./transaction.ts";

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
