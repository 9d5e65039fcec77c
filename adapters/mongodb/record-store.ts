/** The record store in MongoDB: any number of processes share it. */
import type { Clock } from "../clock.ts";
import { StorageUnavailable } from "../errors.ts";
import { checkCommit, type RecordStore } from "../record-store.ts";
import type { RateLimiterFactory } from "../rate-limits.ts";
import { closeClient, connect, type Connection, openClient } from "./connection.ts";
import { asFault, isDuplicate } from "./faults.ts";
import { mongoRateLimits } from "./rate-limits.ts";
import { CommitRun } from "./record-commit.ts";
import { claimDatabase } from "./v01.ts";
import { hasRecords, idOf, MongoRecords, prepareCollections, toFound } from "./record-reads.ts";

export interface MongoOptions {
  /** `mongodb://…` or `mongodb+srv://…`; the database is named after the hosts, default `sign-in`. */
  readonly url: string;
  /** Decides what has expired. */
  readonly clock: Clock;
  /**
   * Kinds with records that many commits expect at once and few change. A transaction conflicts with another one only
   * over what both write, so an expectation writes: for these kinds one of several guards, picked at random.
   */
  readonly shared?: readonly string[];
  /** Whether a database without a storage is a fault. Default: one is made there. */
  readonly mustExist?: boolean;
}

/**
 * The server refuses so many milliseconds before the caller is told that it was not done: what is known here of its
 * clock is not exact.
 */
const EARLIER = 100;

interface StoredCounter {
  readonly _id: string;
  /** The last number that was handed out. */
  readonly value: number;
}

/** Makes what is missing, and says whether version 0.1 has written there. An index on many documents takes its time, which no request would wait for. */
async function prepare({ url, mustExist = false }: MongoOptions): Promise<boolean> {
  const { client, db } = await openClient(url, { isPatient: true });
  try {
    if (mustExist && !(await hasRecords(db)))
      throw new StorageUnavailable("there is no storage in that database of MongoDB");
    await prepareCollections(db);
    return await claimDatabase(db);
  } catch (error) {
    throw asFault(error);
  } finally {
    await closeClient(client);
  }
}

/** The store, the limiters that all its processes share, and whether version 0.1 has written in the database. */
export interface OpenedMongo {
  readonly store: RecordStore;
  readonly rateLimits: RateLimiterFactory;
  readonly isV01: () => Promise<boolean>;
}

/**
 * Opens the store and makes its collections and indexes. Any number of processes may do so at once.
 * @throws StorageUnavailable when the server does not answer within 15 seconds.
 * @throws ConfigurationError when the address is wrong, the user is refused, or the server has no transactions.
 */
export async function openMongo(options: MongoOptions): Promise<OpenedMongo> {
  const { url, clock, shared = [] } = options;
  const wasV01 = await prepare(options);
  const connection = await connect(url, clock);
  return {
    store: createStore(connection, clock, shared),
    rateLimits: mongoRateLimits(connection),
    isV01: () => Promise.resolve(wasV01),
  };
}

function createStore(connection: Connection, clock: Clock, shared: readonly string[]): RecordStore {
  const store = new MongoRecords(connection, clock);
  const sharedKinds = new Set(shared);
  return {
    async get(refs, { withParents = false } = {}) {
      const live = await connection.run(() => store.live([...new Set(refs.map(idOf))]));
      return refs.map((ref) => {
        const found = live.get(idOf(ref));
        return found && toFound(found.record, withParents ? found.parent : undefined);
      });
    },
    list: (queries) => connection.run(() => Promise.all(queries.map((query) => store.page(query)))),
    scan: (kind, after, limit) => connection.run(() => store.scan(kind, after, limit)),
    count: (queries) => connection.run(() => Promise.all(queries.map((query) => store.count(query)))),
    async commit(change) {
      checkCommit(change);
      const wait = change.deadline - clock.now();
      if (wait <= 0) throw new StorageUnavailable("the deadline of this commit has passed");
      const run = new CommitRun(store, sharedKinds, structuredClone(change));
      const end = connection.serverTimeIn(wait - Math.min(wait / 10, EARLIER));
      await connection.inTransaction((session) => run.run(session, end), wait);
    },
    next: (counter, atLeast = 1) =>
      connection.run(async () => {
        const counters = connection.db.collection<StoredCounter>("record_counters");
        const value = { $max: [{ $add: ["$value", 1] }, atLeast] };
        for (;;) {
          const found = await counters.findOneAndUpdate({ _id: counter }, [{ $set: { value } }], {
            returnDocument: "after",
          });
          if (found !== null) return found.value;
          // Not by the update itself: two that begin a counter at once must not both be the first.
          await counters.insertOne({ _id: counter, value: 0 }).catch((error: unknown) => {
            if (!isDuplicate(error)) throw error;
          });
        }
      }),
    sweep: (limit) => connection.run(() => store.sweep(limit)),
    ping: () => connection.run(async () => Number((await connection.db.command({ hello: 1 }))["localTime"])),
    close: () => connection.close(),
  };
}
