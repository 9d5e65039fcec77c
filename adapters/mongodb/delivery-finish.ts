/** What became of a claim: the delivery, its attempt and its lane in one transaction, and the next of the lane. */
import type { ClientSession, UpdateFilter } from "mongodb";
import type { AttemptRecord, Claim, DeliveryStore, Finished, LeaseTerms, Outcome } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import {
  fromAttempt,
  type StoredAttempt,
  type StoredDelivery,
  toDelivery,
  UNSET_WAITING,
} from "./delivery-documents.ts";
import { isDue, laneId, type Lanes, leaseFields, type StoredLane } from "./delivery-lanes.ts";
import { allows, type Receivers } from "./delivery-receivers.ts";
import { toKey } from "./keys.ts";

/** What an outcome changes of a delivery, beside the number of its attempts. */
function changes(outcome: Outcome, isAttempted: boolean, now: number): UpdateFilter<StoredDelivery> {
  if (outcome.kind === "kept") return {};
  if (outcome.kind === "retry") {
    return { $set: { failed_at: now, next_attempt_at: now + outcome.after }, $inc: { failures: 1 } };
  }
  if (outcome.kind === "delivered") {
    const delivered = { state: "delivered" as const, finished_at: now, spent_at: now };
    return { $set: delivered, $unset: { ...UNSET_WAITING, reason: "" } };
  }
  const parked = { state: "parked" as const, finished_at: now, reason: JSON.stringify(outcome.reason) };
  return { $set: parked, $unset: { ...UNSET_WAITING }, $inc: { failures: isAttempted ? 1 : 0 } };
}

/** Writes a result to its delivery; false when that is gone. */
type Recorder = (
  id: string,
  outcome: Outcome,
  attempt: AttemptRecord | undefined,
  session: ClientSession,
) => Promise<boolean>;

function createRecorder(connection: Connection): Recorder {
  const deliveries = connection.collection<StoredDelivery>("deliveries");
  const attempts = connection.collection<StoredAttempt>("attempts");
  return async (id, outcome, attempt, session) => {
    const change = changes(outcome, attempt !== undefined, connection.clock.now());
    const count = { attempts: attempt === undefined ? 0 : 1 };
    const options = { session, returnDocument: "after", projection: { attempts: 1 } } as const;
    // What was discarded or parked meanwhile stays so, unless it was delivered; the attempt counts all the same.
    const open = outcome.kind === "delivered" ? { _id: id } : { _id: id, state: "waiting" as const };
    const all = { ...change, $inc: { ...change.$inc, ...count } };
    const after =
      (await deliveries.findOneAndUpdate(open, all, options)) ??
      (await deliveries.findOneAndUpdate({ _id: id }, { $inc: count }, options));
    if (after === null) return false;
    if (attempt !== undefined) {
      await attempts.insertOne(fromAttempt(id, after.attempts, attempt), { session });
    }
    return true;
  };
}

type Lease = ReturnType<typeof leaseFields>;

const MOMENTARY = ["owner", "lease_end", "claimed", "due", "failed"] as const;

/** Lets the lane go, or claims what is first in it now. */
function laneUpdate(
  head: StoredDelivery | undefined,
  lease: Lease | undefined,
  delivered: number,
): UpdateFilter<StoredLane> {
  const { receiver, next_attempt_at, failed_at } = head ?? {};
  const isWaiting = receiver !== undefined && next_attempt_at !== undefined;
  const due = isWaiting ? { due: { receiver, at: next_attempt_at } } : {};
  const failed = isWaiting && failed_at !== undefined ? { failed: { receiver, at: failed_at } } : {};
  const set = { ...due, ...failed, ...lease };
  const unset = MOMENTARY.filter((field) => !(field in set)).map((field) => [field, ""]);
  return {
    ...(isWaiting && { $set: set }),
    ...(unset.length > 0 && { $unset: Object.fromEntries(unset) as Record<string, ""> }),
    ...(delivered > 0 && { $max: { last_delivered: delivered } }),
    $inc: { version: 1, fence: lease === undefined ? 0 : 1 },
  };
}

/** The result could not be recorded: the claim is not the last one of its lane. */
const LOST: Finished = { recorded: false };

export function createFinish(
  connection: Connection,
  lanes: Lanes,
  receivers: Receivers,
): Pick<DeliveryStore, "finish"> {
  const record = createRecorder(connection);

  /** The lease on the head, if it may go now. */
  async function goOn(
    head: StoredDelivery | undefined,
    receiver: string,
    terms: LeaseTerms | undefined,
    session: ClientSession,
  ): Promise<Lease | undefined> {
    const now = connection.clock.now();
    if (terms === undefined || head === undefined || !isDue(head, now)) return undefined;
    const { state } = await receivers.read(receiver, session);
    const { allowed, probe } = allows(state, 1, now);
    return allowed === 0 || probe ? undefined : leaseFields(head, terms, now);
  }

  async function finish(
    { delivery, fence }: Claim,
    outcome: Outcome,
    { attempt, lease: terms }: { attempt?: AttemptRecord; lease?: LeaseTerms },
    session: ClientSession,
  ): Promise<Finished> {
    const lane = laneId(delivery);
    if (!(await record(toKey(delivery.id), outcome, attempt, session))) return LOST;
    const head = await lanes.head(lane, session);
    const lease = await goOn(head, delivery.receiver, terms, session);
    const update = laneUpdate(head, lease, outcome.kind === "delivered" ? delivery.sequence : 0);
    const held = { _id: lane, fence, claimed: JSON.stringify(delivery.id) };
    const { matchedCount } = await lanes.collection.updateOne(held, update, { session });
    if (matchedCount === 0) {
      await session.abortTransaction();
      return LOST;
    }
    if (head === undefined || lease === undefined) return { recorded: true };
    const next = { delivery: toDelivery(head), fence: fence + 1, leaseEnd: lease.lease_end, probe: false };
    return { recorded: true, next };
  }

  return {
    finish: (claim, outcome, more = {}) =>
      connection.inTransaction((session) => finish(claim, outcome, more, session)),
  };
}
