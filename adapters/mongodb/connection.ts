/** The connection to a MongoDB: how it is opened, and how the stores ask and write through it. */
import type { ClientSession, Db, MongoClient } from "mongodb";
import type { Clock } from "../clock.ts";
import { within } from "../within.ts";
import { asFault, closedFault, DEFAULT_WAIT, lateFault } from "./faults.ts";
import { type ClientTerms, openClient } from "./open-client.ts";
import { createTransactions } from "./transaction.ts";

export interface Connection {
  readonly clock: Clock;
  /** Reads go to the primary and see what a majority has; writes are acknowledged by a majority. */
  readonly db: Db;
  /** Milliseconds since the epoch on the primary's clock, so many milliseconds from now. */
  serverTimeIn(milliseconds: number): number;
  /**
   * One operation outside a transaction. The driver repeats it once after a fault of the network.
   * @param wait milliseconds after which it is given up; default 4500.
   * @throws StorageUnavailable for every error of the driver, and at the end of `wait`.
   */
  run<T>(work: () => Promise<T>, wait?: number): Promise<T>;
  /**
   * Runs `work` in a transaction, again and again while it meets others. It sees one moment of the database and its
   * own writes; what it throws undoes them, and so does its own `abortTransaction`. All its operations must be given
   * the session, one after the other.
   * @param wait milliseconds after which it is given up and not committed any more; default 4500.
   * @throws StorageUnavailable as `run`; then it may be committed only if that was under way.
   */
  inTransaction<T>(work: (session: ClientSession) => Promise<T>, wait?: number): Promise<T>;
  /** Lets what was begun finish, then closes; from the call on everything else is refused. */
  close(): Promise<void>;
}

/** Gives `work` up at the end of `wait`. */
async function answerOf<T>(wait: number, work: Promise<T>): Promise<T> {
  try {
    return await within(wait, work, lateFault);
  } catch (error) {
    throw asFault(error);
  }
}

/** Work that is under way, and the end of it all. */
function createGate(client: MongoClient): Pick<Connection, "close"> & {
  pass<T>(wait: number, begin: () => Promise<T>): Promise<T>;
} {
  const running = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  async function finish(): Promise<void> {
    await Promise.allSettled(running);
    await client.close();
  }

  return {
    pass(wait, begin) {
      if (closing !== undefined) return Promise.reject(closedFault());
      const answer = answerOf(wait, begin());
      const forget = (): void => void running.delete(answer);
      running.add(answer);
      answer.then(forget, forget);
      return answer;
    },
    close() {
      closing ??= finish();
      return closing;
    },
  };
}

/**
 * Opens the connection; does not make collections.
 * @throws StorageUnavailable when the server does not answer within 15 seconds.
 * @throws ConfigurationError when the address is wrong, the user is refused, or the server has no transactions.
 */
export async function connect(url: string, clock: Clock, terms: ClientTerms = {}): Promise<Connection> {
  const { client, db, serverClock } = await openClient(url, terms);
  const gate = createGate(client);
  const transactions = createTransactions(client);
  return {
    clock,
    db,
    serverTimeIn: (milliseconds) => serverClock.in(milliseconds),
    run: (work, wait = DEFAULT_WAIT) => gate.pass(wait, work),
    inTransaction: (work, wait = DEFAULT_WAIT) => gate.pass(wait, () => transactions.run(work, wait)),
    close() {
      transactions.stop();
      return gate.close();
    },
  };
}
