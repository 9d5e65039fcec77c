/** What operators do with deliveries, what is purged, and how lanes are put right. */
import type { DeliveryStore, LaneKey, RedriveResult } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { createLaneRepair, laneOf, type Lanes, type LaneText } from "./delivery-lanes.ts";
import { DELIVERY_COLUMNS, HEAD, positionAt } from "./delivery-rows.ts";
import { numberAt, rowLimit, stringAt, textAt } from "./rows.ts";
import { toText } from "./text.ts";

const BY_ID = `SELECT ${DELIVERY_COLUMNS} FROM deliveries WHERE id = ?`;

function createRedrive(connection: Connection, lanes: Lanes): DeliveryStore["redrive"] {
  const byId = connection.first(BY_ID);
  const wait = connection.change(`
    UPDATE deliveries SET state = 'waiting', failures = 0, next_attempt_at = stored_at, failed_at = NULL,
      finished_at = NULL, reason = NULL
    WHERE position = ?`);

  function redriveOne(id: string, passable: ReadonlySet<string>): RedriveResult {
    const row = byId(id);
    if (row === undefined) return "unknown";
    if (stringAt(row, 7) === "waiting") return "waiting";
    if (row[4] === null) return "purged";
    const lane = laneOf(row);
    if (passable.has(stringAt(row, 3)) && lanes.lastDelivered(lane) > numberAt(row, 6)) return "superseded";
    wait(positionAt(row));
    lanes.settle(lane);
    return "redriven";
  }

  return (ids, { passable }) => {
    const keys = ids.map((id) => [id, toText(id)] as const);
    const types = new Set(passable);
    return connection.write(() => new Map(keys.map(([id, text]) => [id, redriveOne(text, types)])));
  };
}

function createDiscard(connection: Connection, lanes: Lanes): DeliveryStore["discard"] {
  const byId = connection.first(BY_ID);
  const discard = connection.change(`
    UPDATE deliveries SET state = 'discarded', finished_at = ?, reason = ?, next_attempt_at = NULL, failed_at = NULL
    WHERE position = ? AND state IN ('waiting', 'parked')`);
  return (id, reason) => {
    const key = toText(id);
    const text = toText(reason);
    return connection.write(() => {
      const row = byId(key);
      if (row === undefined || discard(connection.clock.now(), text, positionAt(row)) === 0) return false;
      lanes.settle(laneOf(row));
      return true;
    });
  };
}

function createPurge(connection: Connection): DeliveryStore["purge"] {
  const payloads = connection.all(`
    SELECT position FROM deliveries INDEXED BY deliveries_payload
    WHERE payload IS NOT NULL AND state IN ('delivered', 'discarded') AND finished_at <= ?
    ORDER BY finished_at LIMIT ?`);
  const records = connection.all(
    "SELECT position, receiver, sub FROM deliveries WHERE finished_at <= ? ORDER BY finished_at LIMIT ?",
  );
  const empty = connection.change("UPDATE deliveries SET payload = NULL WHERE position = ?");
  const emptyAttempts = connection.change("UPDATE attempts SET answer = NULL WHERE delivery = ?");
  const remove = connection.change("DELETE FROM deliveries WHERE position = ?");
  const removeAttempts = connection.change("DELETE FROM attempts WHERE delivery = ?");
  const removeLane = connection.change(`
    DELETE FROM lanes WHERE receiver = ?1 AND sub = ?2
      AND NOT EXISTS (SELECT 1 FROM deliveries WHERE receiver = ?1 AND sub = ?2)`);
  return (limits) =>
    connection.write(() => {
      const limit = rowLimit(limits.limit);
      const old = records(limits.records, limit);
      for (const row of old) {
        removeAttempts(numberAt(row, 0));
        remove(numberAt(row, 0));
        removeLane(textAt(row, 1), textAt(row, 2));
      }
      const read = payloads(limits.payloads, limit - old.length);
      for (const row of read) {
        empty(numberAt(row, 0));
        emptyAttempts(numberAt(row, 0));
      }
      return old.length + read.length;
    });
}

function createReconcile(connection: Connection, lanes: Lanes): DeliveryStore["reconcile"] {
  const select =
    "SELECT DISTINCT receiver, sub FROM deliveries INDEXED BY deliveries_waiting WHERE state = 'waiting'";
  const firstPage = connection.all(`${select} ORDER BY receiver, sub LIMIT ?`);
  const nextPage = connection.all(`${select} AND (receiver, sub) > (?, ?) ORDER BY receiver, sub LIMIT ?`);
  const ofLane = "receiver = ?1 AND sub = ?2";
  const wrong = connection.first(`
    SELECT 1 WHERE NOT EXISTS (
      SELECT 1 FROM lanes JOIN deliveries AS head ON head.position = ${HEAD}
      WHERE lanes.receiver = ?1 AND lanes.sub = ?2
        AND lanes.due_at = coalesce(lanes.lease_end, head.next_attempt_at)
        AND lanes.failed_at IS head.failed_at
        AND lanes.last_sequence >= (SELECT max(sequence) FROM deliveries WHERE ${ofLane}))`);
  const repair = createLaneRepair(connection, lanes);
  const isWrong = (lane: LaneText): boolean => wrong(...lane) !== undefined;

  return async ({ after, limit }) => {
    const rows = await connection.read(() =>
      after === undefined
        ? firstPage(rowLimit(limit))
        : nextPage(toText(after.receiver), toText(after.sub), rowLimit(limit)),
    );
    const found = rows.map((row): LaneText => [textAt(row, 0), textAt(row, 1)]);
    const suspects = await connection.read(() => found.filter(isWrong));
    const last = rows.length < limit ? undefined : rows.at(-1);
    const next: LaneKey | undefined = last && { receiver: stringAt(last, 0), sub: stringAt(last, 1) };
    if (suspects.length === 0) return { repaired: 0, ...(next && { after: next }) };
    const repaired = await connection.write(() => {
      // Looked at again under the lock: what seemed wrong may have been somebody's change.
      const still = suspects.filter(isWrong);
      for (const lane of still) repair(lane);
      return still.length;
    });
    return { repaired, ...(next && { after: next }) };
  };
}

export function createUpkeep(
  connection: Connection,
  lanes: Lanes,
): Pick<DeliveryStore, "redrive" | "discard" | "purge" | "reconcile"> {
  return {
    redrive: createRedrive(connection, lanes),
    discard: createDiscard(connection, lanes),
    purge: createPurge(connection),
    reconcile: createReconcile(connection, lanes),
  };
}
