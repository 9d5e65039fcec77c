/** Transactions, repeated while they meet others, until their time is over. */
import { setTimeout as pause } from "node:timers/promises";
import type { ClientSession, MongoClient, TransactionOptions } from "mongodb";
import { Abandoned } from "./abandoned.ts";
import { hasLabel, isNetworkFault, lateFault } from "./faults.ts";
import { Turns } from "./turns.ts";

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
