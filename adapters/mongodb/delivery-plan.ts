/** Deliveries are stored with the change that causes them, each at the end of its lane. */
import type { ClientSession, Document } from "mongodb";
import { AlreadyExists } from "../../lib/errors.ts";
import type { NewDelivery } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { planDelivery, type PlannedDelivery, type StoredDelivery } from "./delivery-documents.ts";
import { laneJson, type StoredLane } from "./delivery-lanes.ts";
import { isDuplicate } from "./faults.ts";

/** One more than a field says. */
function nextUp(field: string): Document {
  return { $add: [{ $ifNull: [`$${field}`, 0] }, 1] };
}

/**
 * Turns deliveries into documents at once; what it returns stores them in the caller's transaction, which may run
 * several times. A repeated `id` is `AlreadyExists`.
 */
export type DeliveryPlanner = (
  deliveries: readonly NewDelivery[],
) => (session: ClientSession) => Promise<void>;

/** The part that the account store uses. */
export function createDeliveryPlanner(connection: Connection): DeliveryPlanner {
  const lanes = connection.collection<StoredLane>("lanes");
  const stored = connection.collection<StoredDelivery>("deliveries");

  /** A lane that has a head keeps its time; one that is leased without a head waits for the lease. */
  async function nextSequence(
    { lane, receiver }: PlannedDelivery,
    json: string,
    now: number,
    session: ClientSession,
  ): Promise<number> {
    const due = { receiver: { $literal: receiver }, at: { $ifNull: ["$lease_end", now] } };
    const update = {
      json: { $literal: json },
      version: nextUp("version"),
      last_sequence: nextUp("last_sequence"),
      due: { $ifNull: ["$due", due] },
    };
    const options = { upsert: true, returnDocument: "after", session } as const;
    const after = await lanes.findOneAndUpdate({ _id: lane }, [{ $set: update }], options);
    return after?.last_sequence ?? 1;
  }

  return function plan(deliveries) {
    const planned = deliveries.map((delivery) => [planDelivery(delivery), laneJson(delivery)] as const);
    return async (session) => {
      if (planned.length === 0) return;
      const now = connection.clock.now();
      const documents: StoredDelivery[] = [];
      for (const [delivery, json] of planned) {
        const sequence = await nextSequence(delivery, json, now, session);
        const order = connection.newId();
        documents.push({ ...delivery, sequence, stored_at: now, next_attempt_at: now, order });
      }
      try {
        await stored.insertMany(documents, { session });
      } catch (error) {
        throw isDuplicate(error) ? new AlreadyExists("a delivery with this id") : error;
      }
    };
  };
}
