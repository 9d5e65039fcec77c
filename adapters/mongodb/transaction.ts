/** Transactions, repeated while they meet others, until their time is over. */
import { setTimeout as pause } from "node:timers/promises";
import type { ClientSession, MongoClient, ServerSessionId, TransactionOptions } from "mongodb";
import { hasLabel, isNetworkFault, lateFault } from "./faults.ts";

/** Lets a few through at once; the others wait, and come in the order in which they asked. */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(parallel: number) {
    this.#free = parallel;
  }

  async take(): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Hands the turn over, so that nobody who comes in between can take it. */
  pass(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}

/** Milliseconds before the first try and between two. */
const PAUSE = 500;
/** Milliseconds after which the server ends such transactions by itself. */
const LIFETIME = 60_000;
/** The first one that succeeds may have come before what was to be ended. */
const SUCCESSES = 2;

/** The abandoned transactions of one client. */
export class Abandoned {
  readonly #client: MongoClient;
  readonly #sessions = new Map<ServerSessionId, { readonly since: number; left: number }>();
  #isRunning = false;
  #isStopped = false;

  constructor(client: MongoClient) {
    this.#client = client;
  }

  /** @param session that is used no more. */
  add({ id }: ClientSession): void {
    if (id === undefined || this.#isStopped) return;
    this.#sessions.set(id, { since: performance.now(), left: SUCCESSES });
    if (!this.#isRunning) void this.#run();
  }

  /** Lets go of all. */
  stop(): void {
    this.#isStopped = true;
    this.#sessions.clear();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#sessions.size > 0) {
      await pause(PAUSE, undefined, { ref: false });
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
      if (session.left === 0 || now - session.since > LIFETIME) this.#sessions.delete(id);
    }
  }
}

/** Milliseconds before the second try, on average; each further pause is twice as long, up to the longest. */
const FIRST_PAUSE = 4;
const LONGEST_PAUSE = 64;

/** So many transactions of a process are repeated at once, those that meet each other and those that don't. */
const REPEATED_AT_ONCE = 2;

/** Nothing was written: the same transaction may succeed a moment later. */
const TRANSIENT = "TransientTransactionError";
/** It is not known whether it is committed; asking again is safe, and tells. */
const UNKNOWN = "UnknownTransactionCommitResult";

export interface Transactions {
  /** Runs `work`, as `Connection` says. */
  run<T>(work: (session: ClientSession) => Promise<T>, wait: number): Promise<T>;
  /** Does nothing more in the background. */
  stop(): void;
}

const OPTIONS: TransactionOptions = {
  readConcern: { level: "snapshot" },
  writeConcern: { w: "majority" },
  readPreference: "primary",
};

/** Between nothing and twice the mean, so that those that met don't meet again. */
function jitter(tries: number): number {
  return Math.random() * 2 * Math.min(FIRST_PAUSE * 2 ** tries, LONGEST_PAUSE);
}

/** The driver puts no label on some of the errors of connections that break. */
function mayPass(error: unknown, label: string): boolean {
  return hasLabel(error, label) || isNetworkFault(error);
}

async function commit(session: ClientSession, isLate: () => boolean): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await session.commitTransaction();
    } catch (error) {
      if (!mayPass(error, UNKNOWN) || isLate()) throw error;
      await pause(jitter(tries));
    }
  }
}

/** @throws lateFault when it is late already; nothing is sent then. */
async function attempt<T>(
  { client, abandoned }: { readonly client: MongoClient; readonly abandoned: Abandoned },
  work: (session: ClientSession) => Promise<T>,
  isLate: () => boolean,
): Promise<T> {
  if (isLate()) throw lateFault();
  const session = client.startSession();
  try {
    session.startTransaction(OPTIONS);
    const result = await work(session);
    // Whoever waits for it has been told that it was not done.
    if (isLate()) throw lateFault();
    if (session.inTransaction()) await commit(session, isLate);
    return result;
  } catch (error) {
    if (isNetworkFault(error)) abandoned.add(session);
    throw error;
  } finally {
    if (session.inTransaction()) await session.abortTransaction().catch(() => undefined);
    await session.endSession();
  }
}

/** The transactions of one client. */
export function createTransactions(client: MongoClient): Transactions {
  const abandoned = new Abandoned(client);
  const repeats = new Turns(REPEATED_AT_ONCE);
  return {
    async run(work, wait) {
      const end = performance.now() + wait;
      const isLate = (): boolean => performance.now() >= end;
      const once = () => attempt({ client, abandoned }, work, isLate);
      const isOver = (error: unknown): boolean => !mayPass(error, TRANSIENT) || isLate();
      try {
        return await once();
      } catch (error) {
        if (isOver(error)) throw error;
      }
      await repeats.take();
      try {
        for (let tries = 0; ; tries += 1) {
          await pause(jitter(tries));
          try {
            return await once();
          } catch (error) {
            if (isOver(error)) throw error;
          }
        }
      } finally {
        repeats.pass();
      }
    },
    stop: () => abandoned.stop(),
  };
}
