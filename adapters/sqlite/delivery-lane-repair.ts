/** Lanes that are worked out from their deliveries, whatever became of their records. */
import type { Connection } from "./connection.ts";
import type { Lanes } from "./delivery-lanes.ts";
import { numberAt } from "./rows.ts";

/** What deliveries say of the lane in which they are: the stored forms of receiver and user, and its number. */
export type LaneNames = readonly [receiver: string, sub: string, lane: number];

/**
 * Makes the function that puts a lane right, inside a transaction: its counts never go down, and a lease goes on. If
 * receiver and user have another lane by now, the deliveries come into that one, in the order of their positions.
 */
export function createLaneRepair(connection: Connection, lanes: Lanes): (names: LaneNames) => void {
  const isTaken = connection.first("SELECT 1 FROM lanes WHERE id = ?");
  const add = connection.first(
    "INSERT INTO lanes (id, receiver, sub, last_sequence) VALUES (?, ?, ?, 0) RETURNING id",
  );
  const move = connection.change(`
    UPDATE deliveries SET lane = ?4, sequence = -position WHERE lane IN (?3, ?4) AND receiver = ?1 AND sub = ?2`);
  const number = connection.change(`
    UPDATE deliveries SET sequence =
      (SELECT count(*) FROM deliveries AS d WHERE d.lane = ?1 AND d.position <= deliveries.position)
    WHERE lane = ?1`);
  const count = connection.change(`
    UPDATE lanes SET (last_sequence, last_delivered) = (
      SELECT max(lanes.last_sequence, max(sequence)),
        max(lanes.last_delivered, coalesce(max(sequence) FILTER (WHERE state = 'delivered'), 0))
      FROM deliveries WHERE lane = ?1)
    WHERE id = ?1`);

  /** The number under which the lane is kept from now on: its own, unless that is another lane's. */
  function place([receiver, sub, lane]: LaneNames): number {
    const kept = lanes.find(receiver, sub);
    if (kept !== undefined) return kept[1];
    return numberAt(add(isTaken(lane) === undefined ? lane : null, receiver, sub) ?? {}, 0);
  }

  return (names) => {
    const [receiver, sub, lane] = names;
    const id = place(names);
    if (id !== lane) {
      move(receiver, sub, lane, id);
      number(id);
    }
    count(id);
    lanes.settle([receiver, id]);
  };
}
