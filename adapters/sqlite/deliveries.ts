/** Deliveries: stored with the change that causes them, each at the end of its lane. */
import { AlreadyExists } from "../../lib/errors.ts";
import type { Delivery, DeliveryStore, NewDelivery } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { numberAt, rowLimit, type Row, stringAt } from "./rows.ts";
import { toText } from "./text.ts";

const SELECT = "SELECT id, receiver, sub, type, payload, at, sequence FROM deliveries";

function toDelivery(row: Row): Delivery {
  return {
    id: stringAt(row, 0),
    receiver: stringAt(row, 1),
    sub: stringAt(row, 2),
    type: stringAt(row, 3),
    payload: stringAt(row, 4),
    at: numberAt(row, 5),
    sequence: numberAt(row, 6),
  };
}

/** Turns deliveries into parameters at once; what it returns stores them, inside the caller's transaction. */
export type DeliveryPlanner = (deliveries: readonly NewDelivery[]) => () => void;

/** The part that the account store uses. A repeated `id` is `AlreadyExists`. */
export function createDeliveryPlanner(connection: Connection): DeliveryPlanner {
  const nextSequence = connection.first(`
    INSERT INTO lanes (receiver, sub, last_sequence) VALUES (?, ?, 1)
    ON CONFLICT (receiver, sub) DO UPDATE SET last_sequence = last_sequence + 1
    RETURNING last_sequence`);
  const insert = connection.change(`
    INSERT INTO deliveries (id, receiver, sub, type, payload, at, sequence)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`);

  return function plan(deliveries) {
    const rows = deliveries.map(
      ({ id, receiver, sub, type, payload, at }) =>
        [toText(id), toText(receiver), toText(sub), toText(type), toText(payload), at] as const,
    );
    return () => {
      for (const row of rows) {
        const lane = nextSequence(row[1], row[2]) ?? {};
        if (insert(...row, numberAt(lane, 0)) === 0) throw new AlreadyExists("a delivery with this id");
      }
    };
  };
}

/** The deliveries part of the storage. */
export function createDeliveryStore(connection: Connection): DeliveryStore {
  const byId = connection.first(`${SELECT} WHERE id = ?`);
  // Without `after` the page begins at the first; after an unknown delivery there is nothing.
  const after = "position > iif(?1 IS NULL, 0, (SELECT position FROM deliveries WHERE id = ?1))";
  const page = connection.all(`${SELECT} WHERE ${after} ORDER BY position LIMIT ?2`);
  const pageOfSub = connection.all(`${SELECT} WHERE sub = ?3 AND ${after} ORDER BY position LIMIT ?2`);

  return {
    find: (id) =>
      connection.read(() => {
        const row = byId(toText(id));
        return row && toDelivery(row);
      }),
    list: (wanted) =>
      connection.read(() => {
        const start = wanted.after === undefined ? null : toText(wanted.after);
        const limit = rowLimit(wanted.limit);
        const rows =
          wanted.sub === undefined ? page(start, limit) : pageOfSub(start, limit, toText(wanted.sub));
        return rows.map(toDelivery);
      }),
  };
}
