/** Whether the lanes and the attempts fit the deliveries. */
import type { ClientSession } from "mongodb";
import type { Check } from "../check.ts";
import { createDocumentCheck } from "./check-documents.ts";
import type { Connection } from "./connection.ts";
import { byId, type StoredAttempt, type StoredDelivery, toDelivery } from "./delivery-documents.ts";
import { createLanes, type Head, type StoredLane } from "./delivery-lanes.ts";
import { createLaneRepair, type Numbers, readNumbers } from "./delivery-reconcile.ts";

/**
 * Whether the head of a lane would not be sent, or not in time, or its next place is taken. A lane may be looked at
 * too early: that is put right by the look.
 */
function isWrong(
  lane: StoredLane | undefined,
  head: Head | undefined,
  { last, delivered }: Numbers,
): boolean {
  if (lane === undefined || lane.last_sequence < last || (lane.last_delivered ?? 0) < delivered) return true;
  if (head === undefined) return false;
  const latest = Math.max(lane.lease_end ?? 0, head.next_attempt_at ?? 0);
  const isFound = lane.due?.receiver === head.receiver && lane.due.at <= latest;
  return !isFound || (lane.failed?.at ?? null) !== (head.failed_at ?? null);
}

function createLaneCheck(connection: Connection): Check {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  const lanes = createLanes(connection);
  const repair = createLaneRepair(connection, lanes);

  /** The last delivery of each lane stands for it. */
  async function wrongLanes(
    documents: readonly StoredDelivery[],
    session: ClientSession,
  ): Promise<StoredDelivery[]> {
    const ids = [...new Set(documents.map(({ lane }) => lane))];
    const stored = byId(await lanes.collection.find({ _id: { $in: ids } }, { session }).toArray());
    const heads = await lanes.heads(ids, session);
    const numbers = await readNumbers(deliveries, ids, session);
    return documents.filter(({ lane, sequence }) => {
      const own = numbers.get(lane);
      return own?.last === sequence && isWrong(stored.get(lane), heads.get(lane), own);
    });
  }

  return createDocumentCheck(connection, {
    part: "notifications",
    problem: "lanes that do not fit their deliveries",
    collection: deliveries,
    async wrong(documents, session) {
      return (await wrongLanes(documents, session)).map((document) => {
        const { receiver, sub } = toDelivery(document);
        return { document, shown: `${receiver} / ${sub}` };
      });
    },
    fix: repair,
  });
}

function createAttemptChecks(connection: Connection): Check[] {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  const attempts = connection.collection<StoredAttempt>("attempts");

  async function lastNumbers(
    documents: readonly StoredDelivery[],
    session: ClientSession,
  ): Promise<ReadonlyMap<string, number>> {
    const ids = documents.map(({ _id }) => _id);
    const group = { _id: "$delivery", last: { $max: "$number" } };
    const pipeline = [{ $match: { delivery: { $in: ids } } }, { $group: group }];
    const found = await attempts.aggregate<{ _id: string; last: number }>(pipeline, { session }).toArray();
    return new Map(found.map(({ _id, last }) => [_id, last]));
  }

  return [
    createDocumentCheck(connection, {
      part: "notifications",
      problem: "attempts of no delivery",
      collection: attempts,
      async wrong(documents, session) {
        const ids = documents.map(({ delivery }) => delivery);
        const there = byId(await deliveries.find({ _id: { $in: ids } }, { session }).toArray());
        return documents
          .filter(({ delivery }) => !there.has(delivery))
          .map((document) => ({ document, shown: `${document.delivery}/${document.number}` }));
      },
      async fix(documents, session) {
        await attempts.deleteMany({ _id: { $in: documents.map(({ _id }) => _id) } }, { session });
      },
    }),
    createDocumentCheck(connection, {
      part: "notifications",
      problem: "deliveries that count fewer attempts than they have",
      collection: deliveries,
      async wrong(documents, session) {
        const last = await lastNumbers(documents, session);
        return documents
          .filter(({ _id, attempts: counted }) => (last.get(_id) ?? 0) > counted)
          .map((document) => ({ document, shown: `delivery ${toDelivery(document).id}` }));
      },
      async fix(documents, session) {
        const last = await lastNumbers(documents, session);
        const writes = documents.map(({ _id }) => ({
          updateOne: { filter: { _id }, update: { $max: { attempts: last.get(_id) ?? 0 } } },
        }));
        await deliveries.bulkWrite(writes, { session });
      },
    }),
  ];
}

export function createDeliveryChecks(connection: Connection): Check[] {
  return [createLaneCheck(connection), ...createAttemptChecks(connection)];
}
