/** Deliveries, their attempts, the lanes with their leases, and how the receivers are. */
import type { LaneTransfer, TransferParts } from "../transfer.ts";
import type { Connection } from "./connection.ts";
import { createLanes } from "./delivery-lanes.ts";
import { RECEIVER_COLUMNS, toReceiverState } from "./delivery-receivers.ts";
import { ATTEMPT_COLUMNS, attemptValues, DELIVERY_COLUMNS, toAttempt, toDelivery } from "./delivery-rows.ts";
import { numberAt, optionalNumberAt, type Row, stringAt } from "./rows.ts";
import { toOptionalText, toText } from "./text.ts";
import { createTablePart } from "./transfer-tables.ts";

/** Columns with numbers that only this file knows. */
const OWN: ReadonlySet<string> = new Set(["position", "lane"]);

function createDeliveries(connection: Connection): TransferParts["deliveries"] {
  const columns = [...DELIVERY_COLUMNS.split(", ").filter((name) => !OWN.has(name)), "failed_at"];
  const addLane = connection.change(
    "INSERT INTO lanes (receiver, sub, last_sequence) VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
  );
  const put = connection.change(`
    INSERT OR REPLACE INTO deliveries (position, ${columns.join(", ")}, lane)
    SELECT ?1, ${columns.map((_name, index) => `?${index + 2}`).join(", ")}, id FROM lanes WHERE sub = ?4 AND receiver = ?3`);
  return createTablePart(connection, {
    from: "deliveries",
    columns,
    key: ["position"],
    toItem: (row) => ({ ...toDelivery(row), failedAt: optionalNumberAt(row, columns.length - 1) }),
    write(delivery, position) {
      const { id, receiver, sub, type, payload, at, sequence, state, attempts, failures } = delivery;
      const { storedAt, nextAttemptAt, finishedAt, reason, failedAt } = delivery;
      const texts = [toText(id), toText(receiver), toText(sub), toText(type), toOptionalText(payload)];
      addLane(toText(receiver), toText(sub));
      const counts = [at, sequence, state, attempts, failures];
      put(
        position,
        ...texts,
        ...counts,
        storedAt,
        nextAttemptAt,
        finishedAt,
        toOptionalText(reason),
        failedAt,
      );
    },
  });
}

function createAttempts(connection: Connection): TransferParts["attempts"] {
  const names = ATTEMPT_COLUMNS.split(", ");
  const put = connection.change(`
    INSERT OR REPLACE INTO attempts (delivery, ${ATTEMPT_COLUMNS})
    SELECT position, ?, ?, ?, ?, ?, ? FROM deliveries WHERE id = ?`);
  return createTablePart(connection, {
    from: "attempts JOIN deliveries ON deliveries.position = attempts.delivery",
    columns: [...names.map((name) => `attempts.${name}`), "deliveries.id"],
    key: ["attempts.delivery", "attempts.number"],
    toItem: (row) => ({ ...toAttempt(row), delivery: stringAt(row, names.length) }),
    write(attempt) {
      put(attempt.number, ...attemptValues(attempt), toText(attempt.delivery));
    },
  });
}

function toLease(row: Row): LaneTransfer["lease"] {
  const end = optionalNumberAt(row, 6);
  return end === null ? null : { owner: stringAt(row, 5), end, claimed: stringAt(row, 7) };
}

function createLaneRecords(connection: Connection): TransferParts["lanes"] {
  const put = connection.change(`
    INSERT INTO lanes (receiver, sub, last_sequence, last_delivered, fence, owner, lease_end, claimed)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sub, receiver) DO UPDATE SET
      last_sequence = excluded.last_sequence, last_delivered = excluded.last_delivered, fence = excluded.fence,
      owner = excluded.owner, lease_end = excluded.lease_end, claimed = excluded.claimed`);
  const lanes = createLanes(connection);
  return createTablePart(connection, {
    from: "lanes",
    columns: ["receiver", "sub", "last_sequence", "last_delivered", "fence", "owner", "lease_end", "claimed"],
    key: ["id"],
    toItem: (row) => ({
      receiver: stringAt(row, 0),
      sub: stringAt(row, 1),
      lastSequence: numberAt(row, 2),
      lastDelivered: numberAt(row, 3),
      fence: numberAt(row, 4),
      lease: toLease(row),
    }),
    write({ receiver, sub, lastSequence, lastDelivered, fence, lease }) {
      const key = [toText(receiver), toText(sub)] as const;
      const { owner, end, claimed } = lease ?? { owner: null, end: null, claimed: null };
      put(...key, lastSequence, lastDelivered, fence, toOptionalText(owner), end, toOptionalText(claimed));
      const lane = lanes.find(...key);
      if (lane !== undefined) lanes.settle(lane);
    },
  });
}

function createReceivers(connection: Connection): TransferParts["receivers"] {
  const columns = RECEIVER_COLUMNS.split(", ");
  const put = connection.change(
    `INSERT OR REPLACE INTO receivers (receiver, ${RECEIVER_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  return createTablePart(connection, {
    from: "receivers",
    columns,
    key: ["receiver"],
    toItem: (row) => ({ receiver: stringAt(row, columns.length), ...toReceiverState(row) }),
    write({ receiver, paused, reason, failures, heldUntil, holdSpan, releaseUntil }) {
      const hold = [heldUntil, holdSpan, releaseUntil];
      put(toText(receiver), Number(paused), toOptionalText(reason), failures, ...hold);
    },
  });
}

export function createDeliveryParts(
  connection: Connection,
): Pick<TransferParts, "deliveries" | "attempts" | "lanes" | "receivers"> {
  return {
    deliveries: createDeliveries(connection),
    attempts: createAttempts(connection),
    lanes: createLaneRecords(connection),
    receivers: createReceivers(connection),
  };
}
