/** Claiming the heads of lanes. */
import type { Claim, DeliveryStore, LeaseTerms } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { type Claimed, DeliveryDisk } from "./delivery-disk.ts";
import type { Lanes } from "./delivery-lanes.ts";
import type { Receivers } from "./delivery-receivers.ts";
import { createFinish } from "./delivery-results.ts";
import { HEAD } from "./delivery-rows.ts";
import { numberAt, rowLimit, type Row, stringAt } from "./rows.ts";
import { toText } from "./text.ts";

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
  const disk = new DeliveryDisk(connection);
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
  ): Promise<Claim[]> {
    const work = (note: (claimed: Claimed) => void): Claim[] => {
      const { allowed, probe } = receivers.allows(receiver, limit);
      if (allowed === 0) return [];
      const claims = choose(allowed).map((head) => Object.assign(lanes.claim(head, terms, note), { probe }));
      if (probe && claims.length > 0) receivers.holdAgain(receiver, terms.holdAgain);
      return claims;
    };
    return disk.write(work, () => false);
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
      return claimAll(name, rowLimit(limit), terms, (allowed) => lanes.due(name, clock.now(), allowed));
    },
    async claimLane({ receiver, sub }, terms) {
      const name = toText(receiver);
      const [claim] = await claimAll(name, 1, terms, () => {
        const lane = lanes.find(name, toText(sub));
        const head = lane && lanes.dueHead(lane, clock.now());
        return head === undefined ? [] : [head];
      });
      return claim;
    },
    finish: createFinish(connection, lanes, receivers, disk),
  };
}
