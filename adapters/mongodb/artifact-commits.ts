/** How a batch is written: in one transaction of two round trips, or with one update where it is about one artifact. */
import type { AnyBulkWriteOperation, Document, Filter } from "mongodb";
import { ConditionFailed, StorageUnavailable } from "../../lib/errors.ts";
import type { ArtifactBatch, ArtifactStore } from "../artifacts.ts";
import { MARGIN, type StoredArtifact } from "./artifact-documents.ts";
import { type PlannedUpdate, planWrite, SERVER_TIME, toOperation } from "./artifact-writes.ts";
import type { Connection } from "./connection.ts";
import { isDuplicate, lateFault, writeErrorIndex } from "./faults.ts";
import { toKey } from "./keys.ts";

/**
 * The server refuses so many milliseconds before the caller is told that it was not done: what is known here of its
 * clock is not exact.
 */
const EARLIER = 100;

function failed({ label }: Pick<PlannedUpdate, "label">): ConditionFailed {
  return new ConditionFailed(`the condition of ${label} does not hold`);
}

/** A number; or a division by zero when the server's clock has come to `end`, and with it no update. */
function notAfter(end: number): Document {
  return { $divide: [1, { $cond: [{ $lt: [SERVER_TIME, end] }, 1, 0] }] };
}

function markerId(id: string): string {
  return toKey("commit", id, "marker");
}

/** Remembers a batch, so that the same one sent again is known; inserts, or fails on what is there or when it is late. */
function marker(id: string, end: number): AnyBulkWriteOperation<StoredArtifact> {
  const filter = { _id: markerId(id), expires_at: { $exists: false } };
  const forget_at = new Date(Date.now() + MARGIN);
  return {
    updateOne: {
      filter,
      update: [{ $set: { forget_at, expires_at: 0, in_time: notAfter(end) } }],
      upsert: true,
    },
  };
}

/** Writes what was planned for one batch; not after `end` on the server's clock. */
type Write<Planned> = (planned: Planned, batch: { id: string; wait: number; end: number }) => Promise<void>;

/** What the server answered to the marker and the updates after it. */
function judge(error: unknown, planned: readonly PlannedUpdate[]): unknown {
  const index = writeErrorIndex(error);
  if (index === 0) return lateFault();
  const update = index === undefined ? undefined : planned[index - 1];
  return update?.kind === "condition" && isDuplicate(error) ? failed(update) : error;
}

/** The conditions of a batch that its own earlier writes have no part in. */
function ownConditions(planned: readonly PlannedUpdate[]): PlannedUpdate[] {
  const isFirst = ({ id }: PlannedUpdate, index: number) =>
    planned.findIndex((other) => other.id === id) === index;
  const isAfterFamily = (index: number) => planned.slice(0, index).some(({ kind }) => kind === "family");
  return planned.filter(
    (update, index) => update.kind === "condition" && isFirst(update, index) && !isAfterFamily(index),
  );
}

/** Several artifacts: all in one update command, and the commit of the transaction. */
function createSeveral(connection: Connection): Write<readonly PlannedUpdate[]> {
  const artifacts = connection.collection<StoredArtifact>("artifacts");

  const isThere = async (filter: Filter<StoredArtifact>): Promise<boolean> =>
    (await artifacts.findOne(filter, { projection: { _id: 1 } })) !== null;

  /** Whoever has met the winner need not try again: that would cost a transaction of each of those that lost. */
  async function refuseLosers(id: string, planned: readonly PlannedUpdate[]): Promise<void> {
    for (const update of ownConditions(planned)) {
      if (await isThere(update.filter)) continue;
      // Unless the winner is this batch itself, sent before.
      if (!(await isThere({ _id: markerId(id) }))) throw failed(update);
      return;
    }
  }

  return (planned, { id, wait, end }) => {
    const operations = [marker(id, end), ...planned.map(toOperation)];
    return connection.inTransaction(
      async (session) => {
        try {
          const { upsertedIds } = await artifacts.bulkWrite(operations, { session, ordered: true });
          const inserted = Object.keys(upsertedIds).map((index) => planned[Number(index) - 1]);
          const missed = inserted.find((update) => update?.kind === "condition");
          if (missed !== undefined) throw failed(missed);
        } catch (error) {
          const isDone = writeErrorIndex(error) === 0 && isDuplicate(error);
          if (!isDone) throw judge(error, planned);
          await session.abortTransaction();
        }
      },
      wait,
      () => refuseLosers(id, planned),
    );
  };
}

/** One artifact: one update, which is atomic in itself. Sent again it finds its own mark. */
function createSingle(connection: Connection): Write<PlannedUpdate> {
  const artifacts = connection.collection<StoredArtifact>("artifacts");

  /** Puts have no condition that could be late, so the time is a part of what they write. */
  async function put({ filter, update }: PlannedUpdate, end: number): Promise<void> {
    const inTime = { $set: { in_time: notAfter(end) } };
    await artifacts.updateOne(filter, [update, inTime].flat(), { upsert: true });
  }

  async function change(
    { filter, update, ...planned }: PlannedUpdate,
    id: string,
    end: number,
  ): Promise<void> {
    const inTime = { $expr: { $lt: [SERVER_TIME, end] } };
    const { matchedCount } = await artifacts.updateOne({ ...filter, ...inTime }, update);
    if (matchedCount > 0 || planned.kind !== "condition") return;
    const stored = await artifacts.findOne({ _id: planned.id });
    if (stored?.commit === id) return;
    // If the condition holds, it was the time that did not.
    throw (await artifacts.findOne(filter)) === null ? failed(planned) : lateFault();
  }

  return (planned, { id, wait, end }) =>
    connection.run(() => (planned.kind === "put" ? put(planned, end) : change(planned, id, end)), wait);
}

export function createCommit(connection: Connection): ArtifactStore["commit"] {
  const writeSeveral = createSeveral(connection);
  const writeSingle = createSingle(connection);
  return async ({ id, deadline, writes }: ArtifactBatch) => {
    const now = connection.clock.now();
    const wait = deadline - now;
    if (wait <= 0) throw new StorageUnavailable("the deadline of this batch has passed");
    // Made into updates now: the caller may change its objects before the transaction begins.
    const planned = writes.flatMap((write) => planWrite(write, { commit: id, now, newId: connection.newId }));
    const batch = { id, wait, end: connection.serverTimeIn(wait - Math.min(wait / 10, EARLIER)) };
    const [first, second] = planned;
    if (first === undefined) return connection.run(() => Promise.resolve(), wait);
    return second === undefined ? writeSingle(first, batch) : writeSeveral(planned, batch);
  };
}
