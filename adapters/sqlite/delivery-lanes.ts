/** The lane records, kept in step with what waits in them: parts that run inside the callers' transactions. */
import type { Claim, LeaseTerms } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import type { Claimed } from "./delivery-disk.ts";
import { DELIVERY_COLUMNS, HEAD, type Lane, laneOf, positionAt, toDelivery } from "./delivery-rows.ts";
import { numberAt, optionalNumberAt, type Row, textAt } from "./rows.ts";
import { toText } from "./text.ts";

export interface Lanes {
  /** The lane of a receiver and a user, in their stored forms. */
  find(receiver: string, sub: string): Lane | undefined;
  /** Brings the lane up to date with its deliveries. A lease goes on. */
  settle(lane: Lane): void;
  /**
   * Ends the lease, and brings the lane up to date.
   * @param delivered the sequence that was delivered; 0 for none.
   * @returns when its head is due; `null` when it has none.
   */
  letGo(lane: Lane, delivered: number): number | null;
  /** The head of a lane, whenever it is due. */
  head(lane: Lane): Row | undefined;
  /** The heads of the lanes of a receiver that are due; lanes that turn out not to be are brought up to date. */
  due(receiver: string, now: number, limit: number): Row[];
  /** The head of the lane if it may be claimed now. */
  dueHead(lane: Lane, now: number): Row | undefined;
  /** Claims the lane of a head for it, and notes it. */
  claim(head: Row, terms: LeaseTerms, note: (claimed: Claimed) => void): Omit<Claim, "probe">;
  /**
   * Position, attempts, state and lane of the delivery if the claim is the last one of its lane and has not ended.
   * @param id the stored form.
   */
  held(fence: number, id: string): Row | undefined;
  /** The highest sequence that was delivered or is being sent; 0 when there is none. */
  passed(lane: Lane, now: number): number;
}

const NO_HEAD: Row = [null];

function isDue(head: Row, now: number): boolean {
  return head[11] !== null && numberAt(head, 11) <= now;
}

/** The numbers of the lanes of a receiver that are due, first due first. */
function createDueLanes(
  connection: Connection,
): (receiver: string, now: number, limit: number) => readonly Row[] {
  // Their heads are looked up one by one: together, with a join, it takes twice as long.
  const due = connection.all(
    "SELECT id FROM lanes WHERE receiver = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3",
  );
  // Going on asks for one after the other: with the limit written out that takes a fifth.
  const nextDue = connection.first(
    "SELECT id FROM lanes WHERE receiver = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT 1",
  );
  return (receiver, now, limit) => {
    if (limit !== 1) return due(receiver, now, limit);
    const row = nextDue(receiver, now);
    return row === undefined ? [] : [row];
  };
}

export function createLanes(connection: Connection): Lanes {
  const find = connection.first("SELECT id FROM lanes WHERE sub = ?2 AND receiver = ?1");
  const settle = connection.change(`
    UPDATE lanes SET (due_at, failed_at) =
      (SELECT coalesce(lease_end, next_attempt_at), failed_at FROM deliveries WHERE position = ${HEAD})
    WHERE id = ?`);
  const letGo = connection.first(`
    UPDATE lanes SET owner = NULL, lease_end = NULL, claimed = NULL, last_delivered = max(last_delivered, ?2),
      (due_at, failed_at) = (SELECT next_attempt_at, failed_at FROM deliveries WHERE position = ${HEAD})
    WHERE id = ?1 RETURNING due_at`);
  const held = connection.first(`
    SELECT position, attempts, state, lane FROM deliveries JOIN lanes ON lanes.id = deliveries.lane
    WHERE deliveries.id = ?2 AND fence = ?1 AND claimed = ?2`);
  const first = connection.first(
    `SELECT ${DELIVERY_COLUMNS} FROM deliveries WHERE receiver = ? AND lane = ? AND state = 'waiting' ORDER BY sequence LIMIT 1`,
  );
  const leaseEndOf = connection.first("SELECT lease_end FROM lanes WHERE id = ?");
  const passed = connection.first(`
    SELECT max(last_delivered, coalesce(sent.sequence, 0))
    FROM lanes LEFT JOIN deliveries AS sent ON sent.id = lanes.claimed AND lanes.lease_end > ?2
    WHERE lanes.id = ?1`);
  const dueLanes = createDueLanes(connection);
  const take = connection.first(`
    UPDATE lanes SET fence = fence + 1, owner = ?2, lease_end = ?3, claimed = ?4, due_at = ?3
    WHERE id = ?1 RETURNING fence, last_delivered`);

  return {
    find(receiver, sub) {
      const row = find(receiver, sub);
      return row && [receiver, numberAt(row, 0)];
    },
    settle: ([, id]) => void settle(id),
    letGo: ([, id], delivered) => optionalNumberAt(letGo(id, delivered) ?? NO_HEAD, 0),
    head: (lane) => first(...lane),
    due: (receiver, now, limit) =>
      dueLanes(receiver, now, limit).flatMap((row) => {
        const id = numberAt(row, 0);
        const head = first(receiver, id);
        if (head !== undefined && isDue(head, now)) return [head];
        settle(id);
        return [];
      }),
    dueHead(lane, now) {
      const leaseEnd = leaseEndOf(lane[1])?.[0] ?? 0;
      if (typeof leaseEnd === "number" && leaseEnd > now) return undefined;
      const head = first(...lane);
      return head !== undefined && isDue(head, now) ? head : undefined;
    },
    claim(head, { owner, span }, note) {
      const delivery = toDelivery(head);
      const leaseEnd = connection.clock.now() + span;
      const [, id] = laneOf(head);
      const taken = take(id, toText(owner), leaseEnd, textAt(head, 0)) ?? {};
      note({ position: positionAt(head), follows: numberAt(taken, 1) >= delivery.sequence - 1 });
      return { delivery, fence: numberAt(taken, 0), leaseEnd };
    },
    held: (fence, id) => held(fence, id),
    passed: ([, id], now) => numberAt(passed(id, now) ?? [0], 0),
  };
}
