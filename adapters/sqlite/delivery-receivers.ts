/** How receivers are doing: paused, held back, and what is made due when they are back. */
import { type DeliveryStore, type ReceiverState, untouchedReceiver } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import type { Lanes } from "./delivery-lanes.ts";
import { positionAt } from "./delivery-rows.ts";
import { RecordCache } from "./record-cache.ts";
import { numberAt, optionalNumberAt, optionalStringAt, rowLimit, type Row, stringAt } from "./rows.ts";
import { toOptionalText, toText } from "./text.ts";

/** The columns of `toReceiverState`, in its order. */
export const RECEIVER_COLUMNS = "paused, reason, failures, held_until, hold_span, release_until";

export function toReceiverState(row: Row): ReceiverState {
  return {
    paused: numberAt(row, 0) === 1,
    reason: optionalStringAt(row, 1),
    failures: numberAt(row, 2),
    heldUntil: optionalNumberAt(row, 3),
    holdSpan: numberAt(row, 4),
    releaseUntil: optionalNumberAt(row, 5),
  };
}

function isUntouched(state: ReceiverState): boolean {
  const { paused, failures, heldUntil, releaseUntil } = state;
  return !paused && failures === 0 && heldUntil === null && releaseUntil === null;
}

type Calls = Pick<DeliveryStore, "receiver" | "receivers" | "changeReceiver" | "releaseHeld" | "parkWaiting">;

/** Receivers by the stored form of their names, inside the callers' transactions; and the public calls. */
export interface Receivers {
  /** How many of `limit` claims the receiver lets happen now, and whether that is a probe. */
  allows(receiver: string, limit: number): { readonly allowed: number; readonly probe: boolean };
  /** Whether it is paused or held. */
  isStopped(receiver: string): boolean;
  holdAgain(receiver: string, span: number): void;
  readonly calls: Calls;
}

interface States {
  /** Outside of a write. */
  find(receiver: string): Promise<ReceiverState>;
  /** Inside a write. */
  read(receiver: string): ReceiverState;
  write(receiver: string, state: ReceiverState): void;
}

function createStates(connection: Connection): States {
  const find = connection.first(`SELECT ${RECEIVER_COLUMNS} FROM receivers WHERE receiver = ?`);
  const put = connection.change(
    `INSERT OR REPLACE INTO receivers (receiver, ${RECEIVER_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const forget = connection.change("DELETE FROM receivers WHERE receiver = ?");
  // Each delivery asks for it more than once, and it hardly ever changes.
  const cache = new RecordCache<ReceiverState>(connection, (receiver) => {
    const row = find(receiver);
    return row === undefined ? untouchedReceiver : toReceiverState(row);
  });
  return {
    find: async (receiver) => (await cache.lookUp(receiver)) ?? untouchedReceiver,
    read: (receiver) => cache.look(receiver) ?? untouchedReceiver,
    write(receiver, state) {
      cache.forget(receiver);
      const { paused, reason, failures, heldUntil, holdSpan, releaseUntil } = state;
      if (isUntouched(state)) forget(receiver);
      else {
        put(receiver, Number(paused), toOptionalText(reason), failures, heldUntil, holdSpan, releaseUntil);
      }
    },
  };
}

function createMoves(
  connection: Connection,
  lanes: Lanes,
  states: States,
): Pick<Calls, "releaseHeld" | "parkWaiting"> {
  const failed = connection.all(
    "SELECT id FROM lanes WHERE receiver = ? AND failed_at <= ? ORDER BY failed_at LIMIT ?",
  );
  const makeDue = connection.change(
    "UPDATE deliveries SET next_attempt_at = stored_at, failed_at = NULL WHERE position = ?",
  );
  const waiting = connection.all(
    "SELECT position, lane FROM deliveries WHERE receiver = ? AND state = 'waiting' ORDER BY lane, sequence LIMIT ?",
  );
  const park = connection.change(`
    UPDATE deliveries SET state = 'parked', finished_at = ?, reason = ?, next_attempt_at = NULL, failed_at = NULL
    WHERE position = ?`);
  return {
    releaseHeld(receiver, limit) {
      const name = toText(receiver);
      return connection.write(() => {
        const state = states.read(name);
        if (state.releaseUntil === null) return 0;
        const found = failed(name, state.releaseUntil, rowLimit(limit));
        for (const row of found) {
          const lane = [name, numberAt(row, 0)] as const;
          const head = lanes.head(lane);
          if (head !== undefined) makeDue(positionAt(head));
          lanes.settle(lane);
        }
        if (found.length < limit) states.write(name, { ...state, releaseUntil: null });
        return found.length;
      });
    },
    parkWaiting(receiver, reason, limit) {
      const name = toText(receiver);
      const text = toText(reason);
      return connection.write(() => {
        const found = waiting(name, rowLimit(limit));
        for (const row of found) park(connection.clock.now(), text, numberAt(row, 0));
        for (const id of new Set(found.map((row) => numberAt(row, 1)))) lanes.settle([name, id]);
        return found.length;
      });
    },
  };
}

export function createReceivers(connection: Connection, lanes: Lanes): Receivers {
  const states = createStates(connection);
  const all = connection.all(`SELECT ${RECEIVER_COLUMNS}, receiver FROM receivers ORDER BY receiver`);
  return {
    allows(receiver, limit) {
      const { paused, heldUntil } = states.read(receiver);
      if (paused) return { allowed: 0, probe: false };
      if (heldUntil === null) return { allowed: limit, probe: false };
      return { allowed: heldUntil <= connection.clock.now() ? Math.min(1, limit) : 0, probe: true };
    },
    isStopped(receiver) {
      const { paused, heldUntil } = states.read(receiver);
      return paused || heldUntil !== null;
    },
    holdAgain(receiver, span) {
      states.write(receiver, { ...states.read(receiver), heldUntil: connection.clock.now() + span });
    },
    calls: {
      receiver: (name) => states.find(toText(name)),
      receivers: () =>
        connection.read(() => new Map(all().map((row) => [stringAt(row, 6), toReceiverState(row)] as const))),
      changeReceiver(name, decide) {
        const receiver = toText(name);
        return connection.write(() => {
          const before = states.read(receiver);
          const after = decide(before) ?? before;
          if (after !== before) states.write(receiver, after);
          return { before, after };
        });
      },
      ...createMoves(connection, lanes, states),
    },
  };
}
