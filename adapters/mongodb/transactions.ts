/** Runs transactions, and repeats them while they conflict with others, until their time-out. */
import { setTimeout as pause } from "node:timers/promises";
import type { ClientSession, MongoClient, ServerSessionId, TransactionOptions } from "mongodb";
import { ConditionFailed } from "../../core/errors.ts";
import { hasLabel, isNetworkFault, lateFault } from "./faults.ts";

/** Pause before each attempt to end abandoned transactions. */
const RETRY_DELAY_MS = 500;
/** After this, the server ends an abandoned transaction itself. */
const SERVER_LIFETIME_MS = 60_000;
/** Two successes, because the first may reach the server before the transaction does. */
const SUCCESSES = 2;

/**
 * Transactions that a network fault cut off. The server would hold their locks for a minute, and all writes to the
 * same records would fail until then. This ends them as soon as the server can be reached.
 */
class AbandonedTransactions {
  readonly #client: MongoClient;
  readonly #sessions = new Map<ServerSessionId, { readonly since: number; left: number }>();
  #isRunning = false;
  #isStopped = false;

  constructor(client: MongoClient) {
    this.#client = client;
  }

  /** @param session must not be used again. */
  add({ id }: ClientSession): void {
    if (id === undefined || this.#isStopped) return;
    this.#sessions.set(id, { since: performance.now(), left: SUCCESSES });
    if (!this.#isRunning) void this.#run();
  }

  stop(): void {
    this.#isStopped = true;
    this.#sessions.clear();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#sessions.size > 0) {
      await pause(RETRY_DELAY_MS, undefined, { ref: false });
      await this.#tryOnce([...this.#sessions.keys()]);
    }
    this.#isRunning = false;
  }

  async #tryOnce(ids: readonly ServerSessionId[]): Promise<void> {
    if (ids.length === 0) return;
    const isEnded = await this.#client
      .db("admin")
      .command({ killSessions: ids })
      .then(
        () => true,
        () => false,
      );
    const now = performance.now();
    for (const id of ids) {
      const session = this.#sessions.get(id);
      if (session === undefined) continue;
      if (isEnded) session.left -= 1;
      if (session.left === 0 || now - session.since > SERVER_LIFETIME_MS) this.#sessions.delete(id);
    }
  }
}

/** A semaphore whose waiters are served in order. */
class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(parallel: number) {
    this.#free = parallel;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      // The slot goes to the next in line, so that newer work can't take it.
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/**
 * How many transactions of a process are repeated at the same time. Without a limit they keep conflicting: 40 that
 * write one document take five times as long, and some miss their deadline.
 */
const REPEATED_AT_ONCE = 2;

/**
 * The average pause before the second attempt, in milliseconds. Each further pause is twice as long, up to the
 * longest.
 */
const FIRST_PAUSE_MS = 4;
const MAX_PAUSE_MS = 64;

/** Nothing was written; a new attempt may succeed. */
const TRANSIENT = "TransientTransactionError";
/** The transaction may have been committed. Committing again is safe and gives the answer. */
const UNKNOWN = "UnknownTransactionCommitResult";

/** The rest is inherited from the client. */
const OPTIONS: TransactionOptions = { readConcern: { level: "snapshot" } };

/** A random pause of zero to twice the average, so that conflicting transactions don't conflict again. */
function jitter(tries: number): number {
  return Math.random() * 2 * Math.min(FIRST_PAUSE_MS * 2 ** tries, MAX_PAUSE_MS);
}

/** The driver does not label all errors of broken connections. */
function isRetryable(error: unknown, label: string): boolean {
  return hasLabel(error, label) || isNetworkFault(error);
}

async function commit(session: ClientSession, isLate: () => boolean): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await session.commitTransaction();
    } catch (error) {
      if (!isRetryable(error, UNKNOWN) || isLate()) throw error;
      await pause(jitter(tries));
    }
  }
}

/** The transactions of one client. */
export class Transactions {
  readonly #client: MongoClient;
  readonly #abandoned: AbandonedTransactions;
  readonly #repeats = new Semaphore(REPEATED_AT_ONCE);

  constructor(client: MongoClient) {
    this.#client = client;
    this.#abandoned = new AbandonedTransactions(client);
  }

  /** See `Connection.inTransaction`. */
  async run<T>(
    work: (session: ClientSession) => Promise<T>,
    wait: number,
    look: () => Promise<unknown> = () => Promise.resolve(),
  ): Promise<T> {
    const end = performance.now() + wait;
    const isLate = (): boolean => performance.now() >= end;
    const throwUnlessTransient = (error: unknown): void => {
      if (!isRetryable(error, TRANSIENT) || isLate()) throw error;
    };
    try {
      return await this.#attempt(work, isLate);
    } catch (error) {
      throwUnlessTransient(error);
    }
    await pause(jitter(0));
    // Of many that rely on one version, all but one have lost by now. They need no turn to find out: their line would be long.
    await look().catch((error: unknown) => {
      if (error instanceof ConditionFailed) throw error;
    });
    return this.#repeats.run(async () => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await this.#attempt(work, isLate);
        } catch (error) {
          throwUnlessTransient(error);
        }
        await pause(jitter(tries));
      }
    });
  }

  /** Stops the background work. */
  stop(): void {
    this.#abandoned.stop();
  }

  /** @throws lateFault at the time-out; then nothing is committed. */
  async #attempt<T>(work: (session: ClientSession) => Promise<T>, isLate: () => boolean): Promise<T> {
    if (isLate()) throw lateFault();
    const session = this.#client.startSession();
    try {
      session.startTransaction(OPTIONS);
      const result = await work(session);
      // The caller has already got the error that nothing was written.
      if (isLate()) throw lateFault();
      if (session.inTransaction()) await commit(session, isLate);
      return result;
    } catch (error) {
      if (isNetworkFault(error)) this.#abandoned.add(session);
      throw error;
    } finally {
      if (session.inTransaction()) await session.abortTransaction().catch(() => undefined);
      await session.endSession();
    }
  }
}
