/** Deliveries: stored with the change that causes them, each at the end of its lane; and how they are read. */
import { AlreadyExists } from "../../lib/errors.ts";
import type {
  DeliveryFilter,
  DeliveryPage,
  DeliveryStore,
  NewDelivery,
  ReceiverCounts,
} from "../deliveries.ts";
import type { Connection, Parameter } from "./connection.ts";
import { createClaims } from "./delivery-claims.ts";
import { createLanes } from "./delivery-lanes.ts";
import { createReceivers } from "./delivery-receivers.ts";
import { ATTEMPT_COLUMNS, DELIVERY_COLUMNS, toAttempt, toDelivery } from "./delivery-rows.ts";
import { createUpkeep } from "./delivery-upkeep.ts";
import { numberAt, rowLimit, type Row, stringAt } from "./rows.ts";
import { toText } from "./text.ts";

/** Turns deliveries into parameters at once; what it returns stores them, inside the caller's transaction. */
export type DeliveryPlanner = (deliveries: readonly NewDelivery[]) => () => void;

/** The part that the account store uses. A repeated `id` is `AlreadyExists`. */
export function createDeliveryPlanner(connection: Connection): DeliveryPlanner {
  // A lane that has a head already keeps its time; one that is leased without a head waits for the lease.
  const nextSequence = connection.first(`
    INSERT INTO lanes (receiver, sub, last_sequence, due_at) VALUES (?1, ?2, 1, ?3)
    ON CONFLICT (sub, receiver) DO UPDATE SET
      last_sequence = last_sequence + 1, due_at = coalesce(due_at, lease_end, ?3)
    RETURNING id, last_sequence`);
  const insert = connection.change(`
    INSERT INTO deliveries
      (id, receiver, sub, type, payload, at, lane, sequence, stored_at, next_attempt_at, state, attempts, failures)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, 'waiting', 0, 0) ON CONFLICT (id) DO NOTHING`);

  return function plan(deliveries) {
    const rows = deliveries.map(
      ({ id, receiver, sub, type, payload, at }) =>
        [toText(id), toText(receiver), toText(sub), toText(type), toText(payload), at] as const,
    );
    return () => {
      const now = connection.clock.now();
      for (const row of rows) {
        const lane = nextSequence(row[1], row[2], now) ?? {};
        if (insert(...row, numberAt(lane, 0), numberAt(lane, 1), now) === 0)
          throw new AlreadyExists("a delivery with this id");
      }
    };
  };
}

const FILTERS = ["receiver", "sub", "type", "state"] as const satisfies readonly (keyof DeliveryFilter)[];

/** What a filter asks for. The state is written out, for only so a partial index is found. */
const CONDITIONS: Readonly<Partial<Record<(typeof FILTERS)[number], string>>> = {
  receiver: "receiver = ?",
  // A user has a few lanes, whose deliveries are found through them.
  sub: "lane IN (SELECT id FROM lanes WHERE lanes.sub = ?)",
  type: "type = ?",
};

/** Pages by any filter: each combination has a statement of its own, so that each finds its index. */
function createPages(connection: Connection): (page: DeliveryPage) => Row[] {
  const statements = new Map<string, (...parameters: Parameter[]) => Row[]>();
  const statement = (where: readonly string[], order: string): ((...parameters: Parameter[]) => Row[]) => {
    const sql = `SELECT ${DELIVERY_COLUMNS} FROM deliveries WHERE ${where.join(" AND ")} ORDER BY ${order} LIMIT ?`;
    const known = statements.get(sql) ?? connection.all(sql);
    statements.set(sql, known);
    return known;
  };
  return ({ first = "oldest", after, limit, ...filter }) => {
    const used = FILTERS.filter((name) => filter[name] !== undefined);
    const where = used.map((name) => CONDITIONS[name] ?? `state = '${String(filter.state)}'`);
    const values = used.filter((name) => name !== "state").map((name) => toText(String(filter[name])));
    const newest = first === "newest";
    if (after !== undefined) {
      where.push(`position ${newest ? "<" : ">"} (SELECT position FROM deliveries WHERE id = ?)`);
      values.push(toText(after));
    }
    const all = where.length === 0 ? ["position > 0"] : where;
    // Those of a user are sorted: without the plus SQLite would rather look through all in the order of their positions.
    const place = filter.sub === undefined ? "position" : "+position";
    return statement(all, `${place} ${newest ? "DESC" : "ASC"}`)(...values, rowLimit(limit));
  };
}

function createReading(connection: Connection): Pick<DeliveryStore, "find" | "list" | "attempts" | "counts"> {
  const byId = connection.first(`SELECT ${DELIVERY_COLUMNS} FROM deliveries WHERE id = ?`);
  const pages = createPages(connection);
  const attempts = connection.all(
    `SELECT ${ATTEMPT_COLUMNS} FROM attempts
     WHERE delivery = (SELECT position FROM deliveries WHERE id = ?) ORDER BY number`,
  );
  const waiting = connection.all(`
    SELECT receiver, n, (SELECT stored_at FROM deliveries WHERE position = oldest)
    FROM (SELECT receiver, count(*) AS n, min(position) AS oldest
      FROM deliveries INDEXED BY deliveries_waiting
      WHERE state = 'waiting' GROUP BY receiver)`);
  const parked = connection.all(
    "SELECT receiver, count(*) FROM deliveries INDEXED BY deliveries_parked WHERE state = 'parked' GROUP BY receiver",
  );
  return {
    find: (id) =>
      connection.read(() => {
        const row = byId(toText(id));
        return row && toDelivery(row);
      }),
    list: (page) => connection.read(() => pages(page).map(toDelivery)),
    attempts: (id) => connection.read(() => attempts(toText(id)).map(toAttempt)),
    counts: () =>
      connection.read(() => {
        const found = new Map<string, ReceiverCounts>();
        for (const row of waiting()) {
          const receiver = stringAt(row, 0);
          found.set(receiver, { receiver, waiting: numberAt(row, 1), parked: 0, oldest: numberAt(row, 2) });
        }
        for (const row of parked()) {
          const receiver = stringAt(row, 0);
          const before = found.get(receiver) ?? { receiver, waiting: 0, parked: 0, oldest: null };
          found.set(receiver, { ...before, parked: numberAt(row, 1) });
        }
        return [...found.values()].toSorted((a, b) => (a.receiver < b.receiver ? -1 : 1));
      }),
  };
}

/** The deliveries part of the storage. */
export function createDeliveryStore(connection: Connection): DeliveryStore {
  const lanes = createLanes(connection);
  const receivers = createReceivers(connection, lanes);
  return {
    ...createReading(connection),
    ...createClaims(connection, lanes, receivers),
    ...receivers.calls,
    ...createUpkeep(connection, lanes),
  };
}
