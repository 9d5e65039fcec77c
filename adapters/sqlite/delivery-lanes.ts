/** The lane records, kept in step with what waits in them: parts that run inside the callers' transactions. */
import type { Claim, LeaseTerms } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import type { Claimed } from "./delivery-disk.ts";
import { DELIVERY_COLUMNS, HEAD, positionAt, toDelivery } from "./delivery-rows.ts";
import { numberAt, optionalNumberAt, type Row, stringAt, textAt } from "./rows.ts";
import { toText } from "./text.ts";

/** A lane by the stored form of its key. */
export type LaneText = readonly [receiver: string, sub: string];

export interface Lanes {
  /** Brings the lane up to date with its deliveries. A lease goes on. */
  settle(lane: LaneText): void;
  /**
   * Ends the lease, and brings the lane up to date.
   * @param delivered the sequence that was delivered; 0 for none.
   * @returns when its head is due; `null` when it has none.
   */
  letGo(lane: LaneText, delivered: number): number | null;
  /** The head of a lane, whenever it is due. */
  head(lane: LaneText): Row | undefined;
  /** The heads of the lanes of a receiver that are due; lanes that turn out not to be are brought up to date. */
  due(receiver: string, now: number, limit: number): Row[];
  /** The head of the lane if it may be claimed now. */
  dueHead(lane: LaneText, now: number): Row | undefined;
  /** Claims the lane for its head, and notes it. */
  claim(lane: LaneText, head: Row, terms: LeaseTerms, note: (claimed: Claimed) => void): Omit<Claim, "probe">;
  /**
   * Position, attempts and state of the delivery if the claim is the last one of its lane and has not ended.
   * @param id the stored form.
   */
  held(lane: LaneText, fence: number, id: string): Row | undefined;
  /** The highest sequence that was delivered; 0 when there is none. */
  lastDelivered(lane: LaneText): number;
}

/** The lane of a delivery's row. */
export function laneOf(row: Row): LaneText {
  return [toText(stringAt(row, 1)), toText(stringAt(row, 2))];
}

const NO_HEAD: Row = [null];

function isDue(head: Row, now: number): boolean {
  return head[11] !== null && numberAt(head, 11) <= now;
}

export function createLanes(connection: Connection): Lanes {
  const ofLane = "receiver = ?1 AND sub = ?2";
  const settle = connection.change(`
    UPDATE lanes SET (due_at, failed_at) =
      (SELECT coalesce(lease_end, next_attempt_at), failed_at FROM deliveries WHERE position = ${HEAD})
    WHERE ${ofLane}`);
  const letGo = connection.first(`
    UPDATE lanes SET owner = NULL, lease_end = NULL, claimed = NULL, last_delivered = max(last_delivered, ?3),
      (due_at, failed_at) = (SELECT next_attempt_at, failed_at FROM deliveries WHERE position = ${HEAD})
    WHERE ${ofLane} RETURNING due_at`);
  const held = connection.first(`
    SELECT position, attempts, state FROM deliveries
    WHERE id = ?4 AND EXISTS (SELECT 1 FROM lanes WHERE ${ofLane} AND fence = ?3 AND claimed = ?4)`);
  const first = connection.first(
    `SELECT ${DELIVERY_COLUMNS} FROM deliveries WHERE ${ofLane} AND state = 'waiting' ORDER BY sequence LIMIT 1`,
  );
  const lane = connection.first(`SELECT lease_end, last_delivered FROM lanes WHERE ${ofLane}`);
  // Their heads are looked up one by one: together, with a join, it takes twice as long.
  const due = connection.all(
    "SELECT sub FROM lanes WHERE receiver = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3",
  );
  // Going on asks for one after the other: with the limit written out that takes a fifth.
  const nextDue = connection.first(
    "SELECT sub FROM lanes WHERE receiver = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT 1",
  );
  const dueLanes = (receiver: string, now: number, limit: number): readonly Row[] => {
    if (limit !== 1) return due(receiver, now, limit);
    const row = nextDue(receiver, now);
    return row === undefined ? [] : [row];
  };
  const take = connection.first(`
    UPDATE lanes SET fence = fence + 1, owner = ?3, lease_end = ?4, claimed = ?5, due_at = ?4
    WHERE ${ofLane} RETURNING fence, last_delivered`);

  return {
    settle: (key) => void settle(...key),
    letGo: (key, delivered) => optionalNumberAt(letGo(...key, delivered) ?? NO_HEAD, 0),
    head: (key) => first(...key),
    due: (receiver, now, limit) =>
      dueLanes(receiver, now, limit).flatMap((row) => {
        const key: LaneText = [receiver, textAt(row, 0)];
        const head = first(...key);
        if (head !== undefined && isDue(head, now)) return [head];
        settle(...key);
        return [];
      }),
    dueHead(key, now) {
      const leaseEnd = lane(...key)?.[0] ?? 0;
      if (typeof leaseEnd === "number" && leaseEnd > now) return undefined;
      const head = first(...key);
      return head !== undefined && isDue(head, now) ? head : undefined;
    },
    claim(key, head, { owner, span }, note) {
      const delivery = toDelivery(head);
      const leaseEnd = connection.clock.now() + span;
      const taken = take(...key, toText(owner), leaseEnd, textAt(head, 0)) ?? {};
      note({ position: positionAt(head), follows: numberAt(taken, 1) >= delivery.sequence - 1 });
      return { delivery, fence: numberAt(taken, 0), leaseEnd };
    },
    held: (key, fence, id) => held(...key, fence, id),
    lastDelivered: (key) => numberAt(lane(...key) ?? [0, 0], 1),
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
