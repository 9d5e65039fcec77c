/** What happens to all that waits for a receiver: made due when it came back, parked when it was removed. */
import type { ClientSession } from "mongodb";
import type { DeliveryStore } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { MAKE_DUE, type StoredDelivery, UNSET_WAITING } from "./delivery-documents.ts";
import type { Lanes } from "./delivery-lanes.ts";
import type { Receivers } from "./delivery-receivers.ts";
import { toKey } from "./keys.ts";

type Calls = Pick<DeliveryStore, "releaseHeld" | "parkWaiting">;

export function createMoves(connection: Connection, lanes: Lanes, receivers: Receivers): Calls {
  const deliveries = connection.collection<StoredDelivery>("deliveries");

  async function makeDue({ _id }: StoredDelivery, session: ClientSession): Promise<void> {
    await deliveries.updateOne({ _id }, MAKE_DUE, { session });
  }

  return {
    releaseHeld: (receiver, limit) =>
      connection.inTransaction(async (session) => {
        if (limit < 1) return 0;
        const found = await receivers.read(receiver, session);
        const until = found.state.releaseUntil;
        if (until === null) return 0;
        const failed = { "failed.receiver": toKey(receiver), "failed.at": { $lte: until } };
        const options = { sort: { "failed.at": 1 }, limit, projection: { _id: 1 }, session } as const;
        const ids = (await lanes.collection.find(failed, options).toArray()).map(({ _id }) => _id);
        for (const id of ids) {
          const head = await lanes.head(id, session);
          if (head !== undefined) await makeDue(head, session);
        }
        await lanes.settle(ids, session);
        if (ids.length < limit)
          await receivers.replace(receiver, found, { ...found.state, releaseUntil: null }, session);
        return ids.length;
      }),
    parkWaiting: (receiver, reason, limit) =>
      connection.inTransaction(async (session) => {
        if (limit < 1) return 0;
        const waiting = { state: "waiting", receiver: toKey(receiver) } as const;
        const options = { sort: { order: 1 }, limit, projection: { _id: 1, lane: 1 }, session } as const;
        const found = await deliveries.find(waiting, options).toArray();
        if (found.length === 0) return 0;
        const parked = {
          state: "parked" as const,
          finished_at: connection.clock.now(),
          reason: JSON.stringify(reason),
        };
        const ids = { _id: { $in: found.map(({ _id }) => _id) } };
        await deliveries.updateMany(ids, { $set: parked, $unset: { ...UNSET_WAITING } }, { session });
        await lanes.settle(
          found.map(({ lane }) => lane),
          session,
        );
        return found.length;
      }),
  };
}
