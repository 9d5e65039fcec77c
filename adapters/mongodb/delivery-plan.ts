/** Deliveries are stored with the change that causes them, each at the end of its lane. */
import type { ClientSession } from "mongodb";
import { AlreadyExists } from "../../lib/errors.ts";
import type { NewDelivery } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { isDuplicate } from "./faults.ts";
import { toKey } from "./keys.ts";

/** A lane, with what its deliveries are counted by. */
interface StoredLane {
  readonly _id: string;
  readonly receiver: string;
  readonly sub: string;
  readonly last_sequence: number;
}

interface StoredDelivery {
  readonly _id: string;
  /** The keys of the receiver and the sub, and of both together. */
  readonly receiver: string;
  readonly sub: string;
  readonly lane: string;
  readonly sequence: number;
  readonly state: "waiting";
  readonly stored_at: number;
  /** {@link NewDelivery} as JSON. */
  readonly json: string;
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

  async function nextSequence(receiver: string, sub: string, session: ClientSession): Promise<number> {
    const lane = await lanes.findOneAndUpdate(
      { _id: toKey(receiver, sub) },
      { $inc: { last_sequence: 1 }, $setOnInsert: { receiver: toKey(receiver), sub: toKey(sub) } },
      { upsert: true, returnDocument: "after", session },
    );
    return lane?.last_sequence ?? 1;
  }

  return function plan(deliveries) {
    const planned = deliveries.map((delivery) => ({
      lane: [delivery.receiver, delivery.sub] as const,
      document: {
        _id: toKey(delivery.id),
        receiver: toKey(delivery.receiver),
        sub: toKey(delivery.sub),
        lane: toKey(delivery.receiver, delivery.sub),
        state: "waiting" as const,
        json: JSON.stringify(delivery),
      },
    }));
    return async (session) => {
      if (planned.length === 0) return;
      const stored_at = connection.clock.now();
      const documents: StoredDelivery[] = [];
      for (const { lane, document } of planned) {
        documents.push({ ...document, stored_at, sequence: await nextSequence(...lane, session) });
      }
      try {
        await stored.insertMany(documents, { session });
      } catch (error) {
        throw isDuplicate(error) ? new AlreadyExists("a delivery with this id") : error;
      }
    };
  };
}
