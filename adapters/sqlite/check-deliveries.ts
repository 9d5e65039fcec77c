/** Whether the lanes and the attempts fit the deliveries. */
import type { Check } from "../check.ts";
import { createQueryCheck, inSteps, type QueryCheck } from "./check-queries.ts";
import type { Connection } from "./connection.ts";
import { createLaneRepair, type LaneNames } from "./delivery-lane-repair.ts";
import { createLanes } from "./delivery-lanes.ts";
import { HEAD } from "./delivery-rows.ts";
import { fromText } from "./text.ts";
import { numberAt, rowLimit, textAt } from "./rows.ts";

/**
 * Lanes whose head would not be sent, or not in time, or whose next place is taken. A lane may be looked at too
 * early: that is put right by the look.
 */
const WRONG_LANES = `
  SELECT d.receiver, d.sub, d.lane
  FROM (SELECT receiver, sub, lane, max(sequence) AS last,
      coalesce(max(sequence) FILTER (WHERE state = 'delivered'), 0) AS delivered,
      count(*) FILTER (WHERE state = 'waiting') AS waiting
    FROM deliveries GROUP BY lane, receiver, sub) AS d
  WHERE NOT EXISTS (
    SELECT 1 FROM lanes LEFT JOIN deliveries AS head ON head.position = ${HEAD}
    WHERE lanes.id = d.lane AND lanes.receiver = d.receiver AND lanes.sub = d.sub
      AND lanes.last_sequence >= d.last AND lanes.last_delivered >= d.delivered
      AND (d.waiting = 0 OR (lanes.failed_at IS head.failed_at
        AND lanes.due_at <= max(coalesce(lanes.lease_end, 0), head.next_attempt_at))))`;

function createLaneCheck(connection: Connection): Check {
  return {
    part: "notifications",
    problem: "lanes that do not fit their deliveries",
    find: (limit) =>
      connection.read(() =>
        connection
          .all(`${WRONG_LANES} LIMIT ?`)(rowLimit(limit))
          .map((row) => ({
            shown: `${fromText(textAt(row, 0))} / ${fromText(textAt(row, 1))}`,
            id: JSON.stringify([textAt(row, 0), textAt(row, 1), numberAt(row, 2)]),
          })),
      ),
    async repair(flaws) {
      const repairLane = await connection.read(() => createLaneRepair(connection, createLanes(connection)));
      await inSteps(connection, flaws, ({ id }) => repairLane(JSON.parse(id) as LaneNames));
    },
  };
}

const HAS_DELIVERY = "EXISTS (SELECT 1 FROM deliveries WHERE deliveries.position = attempts.delivery)";
const LAST_ATTEMPT = "(SELECT max(number) FROM attempts WHERE delivery = position)";

const QUERIES: readonly QueryCheck[] = [
  {
    part: "notifications",
    problem: "attempts of no delivery",
    shows: "",
    select: `SELECT delivery || '/' || number, delivery, number FROM attempts WHERE NOT ${HAS_DELIVERY}`,
    repair: `DELETE FROM attempts WHERE delivery = ? AND number = ? AND NOT ${HAS_DELIVERY}`,
  },
  {
    part: "notifications",
    problem: "deliveries that count fewer attempts than they have",
    shows: "delivery ",
    select: `SELECT id, position FROM deliveries WHERE attempts < ${LAST_ATTEMPT}`,
    repair: `UPDATE deliveries SET attempts = ${LAST_ATTEMPT} WHERE position = ? AND attempts < ${LAST_ATTEMPT}`,
  },
];

export function createDeliveryChecks(connection: Connection): Check[] {
  return [createLaneCheck(connection), ...QUERIES.map((query) => createQueryCheck(connection, query))];
}
