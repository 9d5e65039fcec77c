/** Recording what became of claims, and going on with the next. */
import type { AttemptRecord, Claim, DeliveryStore, Finished, LeaseTerms, Outcome } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import type { Claimed, DeliveryDisk } from "./delivery-disk.ts";
import type { Lanes } from "./delivery-lanes.ts";
import type { Receivers } from "./delivery-receivers.ts";
import { attemptValues, type Lane } from "./delivery-rows.ts";
import { numberAt, type Row, stringAt } from "./rows.ts";
import { toText } from "./text.ts";

/** Writes the result of a claim to its delivery, of which it is given what `Lanes.held` found. */
type ResultWriter = (held: Row, outcome: Outcome, attempt: AttemptRecord | undefined) => void;

function createResultWriter(connection: Connection): ResultWriter {
  const addAttempt = connection.change(`
    INSERT INTO attempts (delivery, number, started_at, duration, status, error, answer)
    VALUES (?, ?, ?, ?, ?, ?, ?)`);
  const count = connection.change("UPDATE deliveries SET attempts = attempts + ?2 WHERE position = ?1");
  const finish = connection.change(`
    UPDATE deliveries SET attempts = attempts + ?2, state = ?3, finished_at = ?4, reason = ?5,
      failures = failures + ?6, next_attempt_at = NULL, failed_at = NULL
    WHERE position = ?1`);
  const retry = connection.change(`
    UPDATE deliveries SET attempts = attempts + ?2, failures = failures + 1, failed_at = ?3, next_attempt_at = ?4
    WHERE position = ?1`);

  return function write(held, outcome, attempt) {
    const position = numberAt(held, 0);
    const made = attempt === undefined ? 0 : 1;
    if (attempt !== undefined) addAttempt(position, numberAt(held, 1) + 1, ...attemptValues(attempt));
    const now = connection.clock.now();
    if (outcome.kind === "delivered") finish(position, made, "delivered", now, null, 0);
    // What was discarded or parked meanwhile stays so.
    else if (stringAt(held, 2) !== "waiting" || outcome.kind === "kept") count(position, made);
    else if (outcome.kind === "retry") retry(position, made, now, now + outcome.after);
    else finish(position, made, "parked", now, toText(outcome.reason), made);
  };
}

/** What claims the next one. */
interface Onward {
  readonly lease: LeaseTerms;
  readonly onward: boolean;
  readonly note: (claimed: Claimed) => void;
}

export function createFinish(
  connection: Connection,
  lanes: Lanes,
  receivers: Receivers,
  disk: DeliveryDisk,
): DeliveryStore["finish"] {
  const write = createResultWriter(connection);

  function next(lane: Lane, dueAt: number | null, { lease, onward, note }: Onward): Claim | undefined {
    const now = connection.clock.now();
    const stays = dueAt !== null && dueAt <= now;
    if ((!stays && !onward) || receivers.isStopped(lane[0])) return undefined;
    const head = stays ? lanes.head(lane) : lanes.due(lane[0], now, 1)[0];
    return head && { ...lanes.claim(head, lease, note), probe: false };
  }

  return (claim, outcome, { attempt, lease, onward = false } = {}) => {
    const { receiver, id, sequence } = claim.delivery;
    const name = toText(receiver);
    const key = toText(id);
    const isDelivered = outcome.kind === "delivered";
    return disk.write(
      (note): Finished => {
        const held = lanes.held(claim.fence, key);
        if (held === undefined) return { recorded: false };
        const lane: Lane = [name, numberAt(held, 3)];
        write(held, outcome, attempt);
        const dueAt = lanes.letGo(lane, isDelivered ? sequence : 0);
        const following = lease && next(lane, dueAt, { lease, onward, note });
        return { recorded: true, ...(following === undefined ? {} : { next: following }) };
      },
      ({ recorded }) => recorded && !isDelivered,
    );
  };
}
