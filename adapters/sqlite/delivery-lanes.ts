/** The lane records, kept in step with what waits in them: parts that run inside the callers' transactions. */
import type { Claim, LeaseTerms } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { DELIVERY_COLUMNS, HEAD, toDelivery } from "./delivery-rows.ts";
import { numberAt, type Row, stringAt, textAt } from "./rows.ts";
import { toText } from "./text.ts";

/** A lane by the stored form of its key. */
export type LaneText = readonly [receiver: string, sub: string];

export interface Lanes {
  /** Brings the lane up to date with its deliveries. A lease goes on. */
  settle(lane: LaneText): void;
  /** Ends the lease, and brings the lane up to date. */
  release(lane: LaneText): void;
  /** The head of a lane, whenever it is due. */
  head(lane: LaneText): Row | undefined;
  /** The heads of the lanes of a receiver that are due; lanes that turn out not to be are brought up to date. */
  due(receiver: string, now: number, limit: number): Row[];
  /** The head of the lane if it may be claimed now. */
  dueHead(lane: LaneText, now: number): Row | undefined;
  /** Claims the lane for its head. */
  claim(lane: LaneText, head: Row, terms: LeaseTerms): Omit<Claim, "probe">;
  /** Whether the claim is the last one of its lane and has not ended. */
  isHeld(lane: LaneText, claim: Claim): boolean;
  /** The highest sequence that was delivered; 0 when there is none. */
  lastDelivered(lane: LaneText): number;
  /** Notes that a sequence was delivered. */
  delivered(lane: LaneText, sequence: number): void;
}

/** The lane of a delivery's row. */
export function laneOf(row: Row): LaneText {
  return [toText(stringAt(row, 1)), toText(stringAt(row, 2))];
}

const HEAD_COLUMNS = DELIVERY_COLUMNS.split(", ")
  .map((column) => `head.${column}`)
  .join(", ");
/** The column after those of the head. */
const SUB_OF_LANE = DELIVERY_COLUMNS.split(", ").length;

function isDue(head: Row, now: number): boolean {
  return head[11] !== null && numberAt(head, 11) <= now;
}

export function createLanes(connection: Connection): Lanes {
  const ofLane = "receiver = ?1 AND sub = ?2";
  const settle = connection.change(`
    UPDATE lanes SET (due_at, failed_at) =
      (SELECT coalesce(lease_end, next_attempt_at), failed_at FROM deliveries WHERE position = ${HEAD})
    WHERE ${ofLane}`);
  const endLease = connection.change(
    `UPDATE lanes SET owner = NULL, lease_end = NULL, claimed = NULL WHERE ${ofLane}`,
  );
  const first = connection.first(
    `SELECT ${DELIVERY_COLUMNS} FROM deliveries WHERE ${ofLane} AND state = 'waiting' ORDER BY sequence LIMIT 1`,
  );
  const lane = connection.first(
    `SELECT fence, claimed, lease_end, last_delivered FROM lanes WHERE ${ofLane}`,
  );
  const due = connection.all(`
    SELECT ${HEAD_COLUMNS}, lanes.sub FROM lanes LEFT JOIN deliveries AS head ON head.position = ${HEAD}
    WHERE lanes.receiver = ?1 AND lanes.due_at <= ?2 ORDER BY lanes.due_at LIMIT ?3`);
  const take = connection.first(`
    UPDATE lanes SET fence = fence + 1, owner = ?3, lease_end = ?4, claimed = ?5, due_at = ?4
    WHERE ${ofLane} RETURNING fence`);
  const delivered = connection.change(
    `UPDATE lanes SET last_delivered = max(last_delivered, ?3) WHERE ${ofLane}`,
  );

  return {
    settle: (key) => void settle(...key),
    release(key) {
      endLease(...key);
      settle(...key);
    },
    head: (key) => first(...key),
    due: (receiver, now, limit) =>
      due(receiver, now, limit).filter((row) => {
        const ready = row[0] !== null && isDue(row, now);
        if (!ready) settle(receiver, textAt(row, SUB_OF_LANE));
        return ready;
      }),
    dueHead(key, now) {
      const leaseEnd = lane(...key)?.[2] ?? 0;
      if (typeof leaseEnd === "number" && leaseEnd > now) return undefined;
      const head = first(...key);
      return head !== undefined && isDue(head, now) ? head : undefined;
    },
    claim(key, head, { owner, span }) {
      const delivery = toDelivery(head);
      const leaseEnd = connection.clock.now() + span;
      const fence = numberAt(take(...key, toText(owner), leaseEnd, toText(delivery.id)) ?? {}, 0);
      return { delivery, fence, leaseEnd };
    },
    isHeld(key, { fence, delivery }) {
      const row = lane(...key);
      return row !== undefined && row[0] === fence && row[1] === toText(delivery.id);
    },
    lastDelivered: (key) => numberAt(lane(...key) ?? [0, 0, 0, 0], 3),
    delivered: (key, sequence) => void delivered(...key, sequence),
  };
}

/** Makes the function that works a lane out from its deliveries: its counts never go down, and a lease goes on. */
export function createLaneRepair(connection: Connection, lanes: Lanes): (lane: LaneText) => void {
  const write = connection.change(`
    INSERT INTO lanes (receiver, sub, last_sequence, last_delivered)
    SELECT receiver, sub, max(sequence), coalesce(max(sequence) FILTER (WHERE state = 'delivered'), 0)
    FROM deliveries WHERE receiver = ?1 AND sub = ?2 GROUP BY receiver, sub
    ON CONFLICT (receiver, sub) DO UPDATE SET
      last_sequence = max(last_sequence, excluded.last_sequence),
      last_delivered = max(last_delivered, excluded.last_delivered)`);
  return (lane) => {
    write(...lane);
    lanes.settle(lane);
  };
}
