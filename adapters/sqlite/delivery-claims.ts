/** Claiming the heads of lanes, and recording what became of them. */
import type { AttemptRecord, Claim, DeliveryStore, LeaseTerms, Outcome } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { laneOf, type Lanes, type LaneText } from "./delivery-lanes.ts";
import type { Receivers } from "./delivery-receivers.ts";
import { attemptValues, DELIVERY_COLUMNS, HEAD, positionAt } from "./delivery-rows.ts";
import { numberAt, rowLimit, type Row, stringAt } from "./rows.ts";
import { toText } from "./text.ts";

/** Writes the result of a claim to its delivery. */
type ResultWriter = (delivery: Row, outcome: Outcome, attempt: AttemptRecord | undefined) => void;

function createResultWriter(connection: Connection): ResultWriter {
  const addAttempt = connection.change(`
    INSERT INTO attempts (delivery, number, started_at, duration, status, error, answer)
    VALUES (?, ?, ?, ?, ?, ?, ?)`);
  const count = connection.change("UPDATE deliveries SET attempts = attempts + 1 WHERE position = ?");
  const finish = connection.change(`
    UPDATE deliveries SET state = ?, finished_at = ?, reason = ?, failures = failures + ?,
      next_attempt_at = NULL, failed_at = NULL
    WHERE position = ?`);
  const retry = connection.change(`
    UPDATE deliveries SET failures = failures + 1, failed_at = ?, next_attempt_at = ? WHERE position = ?`);

  return function write(delivery, outcome, attempt) {
    const position = positionAt(delivery);
    if (attempt !== undefined) {
      addAttempt(position, numberAt(delivery, 8) + 1, ...attemptValues(attempt));
      count(position);
    }
    const now = connection.clock.now();
    if (outcome.kind === "delivered") finish("delivered", now, null, 0, position);
    // What was discarded or parked meanwhile stays so.
    else if (stringAt(delivery, 7) !== "waiting") return;
    else if (outcome.kind === "retry") retry(now, now + outcome.after, position);
    else if (outcome.kind === "parked") {
      finish("parked", now, toText(outcome.reason), attempt === undefined ? 0 : 1, position);
    }
  };
}

type Finish = DeliveryStore["finish"];

function createFinish(connection: Connection, lanes: Lanes, receivers: Receivers): Finish {
  const byId = connection.first(`SELECT ${DELIVERY_COLUMNS} FROM deliveries WHERE id = ?`);
  const write = createResultWriter(connection);

  function next(lane: LaneText, terms: LeaseTerms): Claim | undefined {
    if (receivers.isStopped(lane[0])) return undefined;
    const head = lanes.dueHead(lane, connection.clock.now());
    return head && { ...lanes.claim(lane, head, terms), probe: false };
  }

  return (claim, outcome, { attempt, lease } = {}) => {
    const { receiver, sub, id, sequence } = claim.delivery;
    const lane: LaneText = [toText(receiver), toText(sub)];
    const key = toText(id);
    return connection.write(() => {
      const delivery = lanes.isHeld(lane, claim) ? byId(key) : undefined;
      if (delivery === undefined) return { recorded: false };
      write(delivery, outcome, attempt);
      if (outcome.kind === "delivered") lanes.delivered(lane, sequence);
      lanes.release(lane);
      const following = lease && next(lane, lease);
      return { recorded: true, ...(following === undefined ? {} : { next: following }) };
    });
  };
}

type Calls = Pick<DeliveryStore, "dueReceivers" | "dueLanes" | "claimDue" | "claimLane" | "finish">;

/**
 * Which receivers have something waiting: the index is asked for one receiver after the other, so that a receiver
 * with many lanes costs no more than one with a few.
 */
const DUE_RECEIVERS = `
  WITH RECURSIVE names (receiver) AS (
    SELECT min(receiver) FROM lanes WHERE due_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(receiver) FROM lanes WHERE due_at IS NOT NULL AND receiver > names.receiver)
    FROM names WHERE names.receiver IS NOT NULL
  )
  SELECT names.receiver, max(coalesce(held_until, 0),
    (SELECT min(due_at) FROM lanes WHERE lanes.receiver = names.receiver AND due_at IS NOT NULL))
  FROM names LEFT JOIN receivers USING (receiver)
  WHERE names.receiver IS NOT NULL AND coalesce(paused, 0) = 0`;

export function createClaims(connection: Connection, lanes: Lanes, receivers: Receivers): Calls {
  const { clock } = connection;
  const dueReceivers = connection.all(DUE_RECEIVERS);
  const dueLanes = connection.all(`
    SELECT lanes.sub, due_at, head.id, head.attempts FROM lanes JOIN deliveries AS head ON head.position = ${HEAD}
    WHERE lanes.receiver = ? AND due_at <= ? ORDER BY due_at LIMIT ?`);

  /** Claims what is chosen, as far as the receiver lets it; a probe begins its next hold. */
  function claimAll(
    receiver: string,
    limit: number,
    terms: LeaseTerms,
    choose: (allowed: number) => readonly Row[],
  ): Claim[] {
    const { allowed, probe } = receivers.allows(receiver, limit);
    if (allowed === 0) return [];
    const claims = choose(allowed).map((head) =>
      Object.assign(lanes.claim(laneOf(head), head, terms), { probe }),
    );
    if (probe && claims.length > 0) receivers.holdAgain(receiver, terms.holdAgain);
    return claims;
  }

  return {
    dueReceivers: () =>
      connection.read(() =>
        dueReceivers().map((row) => ({ receiver: stringAt(row, 0), dueAt: numberAt(row, 1) })),
      ),
    dueLanes: (receiver, { ahead, limit }) =>
      connection.read(() =>
        dueLanes(toText(receiver), clock.now() + ahead, rowLimit(limit)).map((row) => ({
          receiver,
          sub: stringAt(row, 0),
          dueAt: numberAt(row, 1),
          id: stringAt(row, 2),
          attempts: numberAt(row, 3),
        })),
      ),
    claimDue(receiver, limit, terms) {
      const name = toText(receiver);
      return connection.write(() =>
        claimAll(name, rowLimit(limit), terms, (allowed) => lanes.due(name, clock.now(), allowed)),
      );
    },
    claimLane({ receiver, sub }, terms) {
      const lane: LaneText = [toText(receiver), toText(sub)];
      return connection.write(() => {
        const [claim] = claimAll(lane[0], 1, terms, () => {
          const head = lanes.dueHead(lane, clock.now());
          return head === undefined ? [] : [head];
        });
        return claim;
      });
    },
    finish: createFinish(connection, lanes, receivers),
  };
}
