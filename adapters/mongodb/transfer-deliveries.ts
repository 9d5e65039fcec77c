/** Deliveries, their attempts, the lanes with their leases, and how the receivers are. */
import type { DeliveryTransfer, LaneTransfer, TransferParts } from "../transfer.ts";
import type { LaneKey } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import {
  byId,
  fromAttempt,
  planDelivery,
  type StoredAttempt,
  type StoredDelivery,
  toAttempt,
  toDelivery,
} from "./delivery-documents.ts";
import { createLanes, laneId, laneJson, type StoredLane } from "./delivery-lanes.ts";
import {
  receiverDocument,
  receiverName,
  type StoredReceiver,
  toReceiverState,
} from "./delivery-receivers.ts";
import { toKey } from "./keys.ts";
import { createCollectionPart, PAGE_TIME, put } from "./transfer-collections.ts";
import type { NumberedIds } from "./transfer-directory.ts";

/** What is left out while there is none of it. */
function present<Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: NonNullable<Fields[Name]> } {
  const found = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(found) as { [Name in keyof Fields]?: NonNullable<Fields[Name]> };
}

function toDocument(delivery: DeliveryTransfer, ids: NumberedIds, position: number): StoredDelivery {
  const { payload, state, finishedAt, reason } = delivery;
  const { payload: text, ...fixed } = planDelivery({ ...delivery, payload: payload ?? "" });
  const isSpent = payload !== null && (state === "delivered" || state === "discarded");
  return {
    ...fixed,
    state,
    sequence: delivery.sequence,
    attempts: delivery.attempts,
    failures: delivery.failures,
    stored_at: delivery.storedAt,
    order: ids.at(position),
    ...present({
      payload: payload === null ? null : text,
      next_attempt_at: delivery.nextAttemptAt,
      failed_at: delivery.failedAt,
      finished_at: finishedAt,
      spent_at: isSpent ? finishedAt : null,
      reason: reason === null ? null : JSON.stringify(reason),
    }),
  };
}

function createDeliveries(connection: Connection, ids: NumberedIds): TransferParts["deliveries"] {
  return createCollectionPart(connection, {
    collection: connection.collection<StoredDelivery>("deliveries"),
    by: "order",
    places: { toPlace: String, toValue: (place) => ids.toId(place) },
    toItems: (documents) =>
      documents.map((document) => ({ ...toDelivery(document), failedAt: document.failed_at ?? null })),
    toWrites: (delivery, position) => [put(toDocument(delivery, ids, position))],
  });
}

function createAttempts(connection: Connection): TransferParts["attempts"] {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  return createCollectionPart(connection, {
    collection: connection.collection<StoredAttempt>("attempts"),
    by: "_id",
    async toItems(documents) {
      const wanted = { _id: { $in: documents.map(({ delivery }) => delivery) } };
      const found = byId(await deliveries.find(wanted).toArray());
      return documents.flatMap((document) => {
        const delivery = found.get(document.delivery);
        return delivery === undefined ? [] : [{ ...toAttempt(document), delivery: toDelivery(delivery).id }];
      });
    },
    toWrites: ({ delivery, number, ...attempt }) => [put(fromAttempt(toKey(delivery), number, attempt))],
  });
}

function toLease({ owner, lease_end: end, claimed }: StoredLane): LaneTransfer["lease"] {
  if (end === undefined) return null;
  return { owner: String(JSON.parse(owner ?? '""')), end, claimed: String(JSON.parse(claimed ?? '""')) };
}

function toLane(stored: StoredLane): LaneTransfer {
  const { receiver, sub } = JSON.parse(stored.json) as LaneKey;
  const { last_sequence: lastSequence, last_delivered: lastDelivered = 0, fence = 0 } = stored;
  return { receiver, sub, lastSequence, lastDelivered, fence, lease: toLease(stored) };
}

function toLaneDocument(lane: LaneTransfer): StoredLane {
  const { lastSequence, lastDelivered, fence, lease } = lane;
  return {
    _id: laneId(lane),
    json: laneJson(lane),
    version: 1,
    last_sequence: lastSequence,
    ...(lastDelivered > 0 && { last_delivered: lastDelivered }),
    ...(fence > 0 && { fence }),
    ...(lease !== null && {
      owner: JSON.stringify(lease.owner),
      lease_end: lease.end,
      claimed: JSON.stringify(lease.claimed),
    }),
  };
}

function createLaneRecords(connection: Connection): TransferParts["lanes"] {
  const lanes = createLanes(connection);
  return createCollectionPart(connection, {
    collection: lanes.collection,
    by: "_id",
    toItems: (documents) => documents.map(toLane),
    toWrites: (lane) => [put(toLaneDocument(lane))],
    // When each is due follows from its deliveries.
    afterwards: (items) =>
      connection.inTransaction((session) => lanes.settle(items.map(laneId), session), PAGE_TIME),
  });
}

function createReceivers(connection: Connection): TransferParts["receivers"] {
  return createCollectionPart(connection, {
    collection: connection.collection<StoredReceiver>("receivers"),
    by: "_id",
    toItems: (documents) =>
      documents.map((document) => ({ receiver: receiverName(document), ...toReceiverState(document) })),
    toWrites: ({ receiver, ...state }) => [put(receiverDocument(receiver, state, connection.newId()))],
  });
}

export function createDeliveryParts(
  connection: Connection,
  ids: NumberedIds,
): Pick<TransferParts, "deliveries" | "attempts" | "lanes" | "receivers"> {
  return {
    deliveries: createDeliveries(connection, ids),
    attempts: createAttempts(connection),
    lanes: createLaneRecords(connection),
    receivers: createReceivers(connection),
  };
}
