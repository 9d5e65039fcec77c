/** What operators do with deliveries, what is purged, and how lanes are put right. */
import type { DeliveryStore, LaneKey, RedriveResult } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { createLaneRepair, type LaneNames } from "./delivery-lane-repair.ts";
import type { Lanes } from "./delivery-lanes.ts";
import { DELIVERY_COLUMNS, HEAD, laneOf, positionAt } from "./delivery-rows.ts";
import { numberAt, rowLimit, type Row, stringAt, textAt } from "./rows.ts";
import { fromText, toText } from "./text.ts";

const BY_ID = `SELECT ${DELIVERY_COLUMNS} FROM deliveries WHERE id = ?`;

function createRedrive(connection: Connection, lanes: Lanes): DeliveryStore["redrive"] {
  const byId = connection.first(BY_ID);
  const wait = connection.change(`
    UPDATE deliveries SET state = 'waiting', failures = 0, next_attempt_at = stored_at, failed_at = NULL,
      finished_at = NULL, reason = NULL
    WHERE position = ?`);

  const hurry = connection.change(`
    UPDATE deliveries SET next_attempt_at = stored_at, failed_at = NULL
    WHERE receiver = ? AND lane = ? AND state = 'waiting' AND sequence > ? AND failed_at IS NOT NULL`);

  function redriveOne(id: string, passable: ReadonlySet<string>): RedriveResult {
    const row = byId(id);
    if (row === undefined) return "unknown";
    if (stringAt(row, 7) === "waiting") return "waiting";
    if (row[4] === null) return "purged";
    const lane = laneOf(row);
    const isPassed = (): boolean => lanes.passed(lane, connection.clock.now()) > numberAt(row, 6);
    if (passable.has(stringAt(row, 3)) && isPassed()) return "superseded";
    wait(positionAt(row));
    hurry(...lane, numberAt(row, 6));
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
    "SELECT position, lane FROM deliveries WHERE finished_at <= ? ORDER BY finished_at LIMIT ?",
  );
  const empty = connection.change("UPDATE deliveries SET payload = NULL WHERE position = ?");
  const emptyAttempts = connection.change("UPDATE attempts SET answer = NULL WHERE delivery = ?");
  const remove = connection.change("DELETE FROM deliveries WHERE position = ?");
  const removeAttempts = connection.change("DELETE FROM attempts WHERE delivery = ?");
  const removeLane = connection.change(`
    DELETE FROM lanes WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM deliveries WHERE lane = ?1)`);
  return (limits) =>
    connection.write(() => {
      const limit = rowLimit(limits.limit);
      const old = records(limits.records, limit);
      for (const row of old) {
        removeAttempts(numberAt(row, 0));
        remove(numberAt(row, 0));
        removeLane(numberAt(row, 1));
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
  const page = connection.all(`
    SELECT DISTINCT receiver, lane FROM deliveries INDEXED BY deliveries_waiting
    WHERE state = 'waiting' AND (receiver, lane) > (?, ?) ORDER BY receiver, lane LIMIT ?`);
  const user = connection.first("SELECT sub FROM deliveries WHERE lane = ? LIMIT 1");
  const isRight = connection.first(`
    SELECT 1 FROM lanes JOIN deliveries AS head ON head.position = ${HEAD}
    WHERE lanes.id = ?3 AND lanes.receiver = ?1 AND lanes.sub = ?2
      AND lanes.due_at = coalesce(lanes.lease_end, head.next_attempt_at)
      AND lanes.failed_at IS head.failed_at
      AND lanes.last_sequence >= (SELECT max(sequence) FROM deliveries WHERE lane = ?3)`);
  const repair = createLaneRepair(connection, lanes);
  const isWrong = (lane: LaneNames): boolean => isRight(...lane) === undefined;

  /** The lanes behind one; none when that one is gone. */
  function rowsAfter(after: LaneKey | undefined, limit: number): Row[] {
    const last =
      after === undefined ? (["", 0] as const) : lanes.find(toText(after.receiver), toText(after.sub));
    return last === undefined ? [] : page(...last, rowLimit(limit));
  }

  return async ({ after, limit }) => {
    const found = await connection.read(() =>
      rowsAfter(after, limit).map((row): LaneNames => {
        const lane = numberAt(row, 1);
        return [textAt(row, 0), textAt(user(lane) ?? {}, 0), lane];
      }),
    );
    const suspects = await connection.read(() => found.filter(isWrong));
    const last = found.length < limit ? undefined : found.at(-1);
    const next: LaneKey | undefined = last && { receiver: fromText(last[0]), sub: fromText(last[1]) };
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
