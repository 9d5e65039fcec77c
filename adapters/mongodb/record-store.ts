/** The record store in MongoDB, shared by any number of processes. */
import type { Clock } from "../../core/clock.ts";
import { StorageMissing, StorageUnavailable } from "../../core/errors.ts";
import { batchReads } from "../read-batches.ts";
import { checkCommit, type RecordStore } from "../record-store.ts";
import { closeClient, connect, type Connection, openClient } from "./connection.ts";
import { asFault, isDuplicate } from "./faults.ts";
import { CommitRun } from "./record-commit.ts";
import { hasRecords, idOf, MongoRecords, prepareCollections, toFound } from "./record-reads.ts";

export interface MongoOptions {
  /** `mongodb://…` or `mongodb+srv://…`, with the name of the database after the hosts; default `sign-in`. */
  readonly url: string;
  /** Decides which records have expired. */
  readonly clock: Clock;
  /**
   * Kinds with records that many concurrent commits expect and few change. A transaction conflicts only over
   * documents that both write, so an expectation is a write too. For these kinds it writes one of several guards,
   * chosen at random.
   */
  readonly shared?: readonly string[];
  /** Whether the storage must exist; opening it then writes nothing. Default `false`: missing parts are created. */
  readonly mustExist?: boolean;
}

/**
 * Milliseconds by which the server's deadline is earlier than the caller's, because the estimate of its clock is not
 * exact.
 */
const EARLIER = 100;

interface StoredCounter {
  readonly _id: string;
  /** The last number that was returned. */
  readonly value: number;
}

/**
 * Creates what is missing, unless it must exist. Creating an index on many documents takes longer than a request may, so this uses a
 * connection of its own.
 */
async function prepare({ url, mustExist = false }: MongoOptions): Promise<void> {
  const { client, db } = await openClient(url, { isPatient: true });
  try {
    if (!mustExist) await prepareCollections(db);
    else if (!(await hasRecords(db)))
      throw new StorageMissing("there is no storage in that database of MongoDB");
  } catch (error) {
    throw asFault(error);
  } finally {
    await closeClient(client);
  }
}

/**
 * Opens the store and creates its collections and indexes. Any number of processes may do so at the same time.
 * @throws StorageUnavailable when the server does not answer within five seconds.
 * @throws ConfigurationError when the address is wrong, the user is refused, or the server has no transactions.
 */
export async function openMongo(options: MongoOptions): Promise<RecordStore> {
  const { url, clock, shared = [] } = options;
  await prepare(options);
  return createStore(await connect(url, clock), clock, shared);
}

function createStore(connection: Connection, clock: Clock, shared: readonly string[]): RecordStore {
  const store = new MongoRecords(connection, clock);
  const sharedKinds = new Set(shared);
  return {
    get: batchReads(async (refs, { withParents = false } = {}) => {
      const live = await connection.run(() => store.live([...new Set(refs.map(idOf))]));
      return refs.map((ref) => {
        const found = live.get(idOf(ref));
        return found && toFound(found.record, withParents ? found.parent : undefined);
      });
    }),
    list: (queries) => connection.run(() => Promise.all(queries.map((query) => store.page(query)))),
    scan: (kind, after, limit) => connection.run(() => store.scan(kind, after, limit)),
    count: (queries) => connection.run(() => Promise.all(queries.map((query) => store.count(query)))),
    async commit(change) {
      checkCommit(change);
      const wait = change.deadline - clock.now();
      if (wait <= 0)
        throw new StorageUnavailable("the deadline of this commit has passed", { reason: "deadline" });
      const run = new CommitRun(store, sharedKinds, structuredClone(change));
      const end = connection.serverTimeIn(wait - Math.min(wait / 10, EARLIER));
      await connection.inTransaction(
        (session) => run.run(session, end),
        wait,
        () => run.look(),
      );
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
          // Not an upsert: two processes that start a counter at the same time must not both get its first number.
          await counters.insertOne({ _id: counter, value: 0 }).catch((error: unknown) => {
            if (!isDuplicate(error)) throw error;
          });
        }
      }),
    sweep: (limit, now) => store.sweep(limit, now),
    copy: () => connection.run(() => store.copy()),
    ping: () => connection.run(async () => Number((await connection.db.command({ hello: 1 }))["localTime"])),
    close: () => connection.close(),
  };
}
