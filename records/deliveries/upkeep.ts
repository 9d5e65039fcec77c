/** Redriving and discarding, the state of receivers, purging, and repairing lanes. */
import {
  type DeliveryStore,
  type LaneKey,
  type ReceiverState,
  type RedriveResult,
  type SendNowResult,
  untouchedReceiver,
} from "./delivery.ts";
import { type LaneAccess, laneQuery } from "./lane-access.ts";
import { LaneEdit } from "./lane-edit.ts";
import {
  DELIVERY,
  deliveryRecord,
  deliveryRef,
  type StoredDelivery,
  type KnownReceiver,
  LANE,
  laneKey,
  laneRecord,
  laneRef,
  type PurgeStage,
  type Lane,
  receiverRecord,
} from "./delivery-kinds.ts";
import { Changes, PAGE, type Read, read } from "../records.ts";

type ByHand = Pick<DeliveryStore, "redrive" | "sendNow" | "discard">;
type Receivers = Pick<
  DeliveryStore,
  "receiver" | "receivers" | "changeReceiver" | "releaseHeld" | "parkWaiting"
>;
type Upkeep = Pick<DeliveryStore, "purge" | "reconcile">;

const OVER = { isHead: false, nextAttemptAt: null, failedAt: null, flight: null } as const;

/** The highest sequence of a lane that was delivered: everything before it is older. */
async function lastDelivered(access: LaneAccess, lane: Lane): Promise<number> {
  const { limit: _one, ...all } = laneQuery(lane, "lane");
  const delivered = (await access.deliveries(all)).filter(({ value }) => value.state === "delivered");
  return Math.max(lane.lastDelivered, delivered.at(-1)?.value.sequence ?? 0);
}

export function createByHand(access: LaneAccess): ByHand {
  /** Redrives deliveries of one lane in order. Those that can't be redriven stay as they are. */
  async function redriveLane(
    changes: Changes,
    wanted: readonly Read<StoredDelivery>[],
    supersedable: ReadonlySet<string>,
    results: Map<string, RedriveResult>,
  ): Promise<void> {
    const [first] = wanted;
    const edit = first && (await LaneEdit.open(access, first.value));
    if (edit === undefined) return;
    const latest = Math.max(await lastDelivered(access, edit.lane), edit.flight?.sequence ?? 0);
    for (const delivery of wanted) {
      const { id, type, sequence, storedAt, state } = delivery.value;
      if (supersedable.has(type) && latest > sequence) {
        results.set(id, "superseded");
        continue;
      }
      results.set(id, "redriven");
      if (state === "delivered") edit.rememberDelivered(sequence);
      edit.include(delivery);
      const again = { state: "waiting", failures: 0, nextAttemptAt: storedAt, failedAt: null } as const;
      edit.change(id, { ...again, finishedAt: null, reason: null });
      for (const behind of edit.waiting()) {
        if (behind.sequence > sequence && behind.failedAt !== null) {
          edit.change(behind.id, { nextAttemptAt: behind.storedAt, failedAt: null });
        }
      }
    }
    edit.settle(changes);
  }

  async function redriveOnce(
    ids: readonly string[],
    supersedable: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, RedriveResult>> {
    const found = await access.store.get(ids.map((id) => deliveryRef(id)));
    const results = new Map<string, RedriveResult>();
    const lanes = new Map<string, Read<StoredDelivery>[]>();
    for (const [index, id] of ids.entries()) {
      const record = found[index];
      const delivery = record && read<StoredDelivery>(record);
      const problem = problemOf(delivery);
      results.set(id, problem ?? "redriven");
      if (delivery === undefined || problem !== undefined) continue;
      const key = laneKey(delivery.value);
      lanes.set(key, [...(lanes.get(key) ?? []), delivery]);
    }
    const changes = new Changes();
    await Promise.all(
      [...lanes.values()].map((wanted) => redriveLane(changes, wanted, supersedable, results)),
    );
    await access.commit(changes);
    return results;
  }

  async function sendNowOnce(id: string): Promise<SendNowResult> {
    const found = await access.delivery(id);
    if (found === undefined) return "unknown";
    const { value } = found;
    const now = access.clock.now();
    if (value.state !== "waiting") return "over";
    if (value.lease !== null && value.lease.end > now) return "sending";
    // An earlier one that was given up may still be arriving.
    if (!value.isHead || (value.flight !== null && value.flight.end > now)) return "behind";
    const receiver = (await access.receiver(value.receiver))?.value;
    if (receiver?.paused || (receiver?.heldUntil ?? 0) > now) return "held";
    const changes = new Changes();
    changes.write(deliveryRecord({ ...value, nextAttemptAt: value.storedAt, failedAt: null }), found);
    await access.commit(changes);
    return "due";
  }

  async function discardOnce(id: string, reason: string): Promise<boolean> {
    const found = await access.delivery(id);
    if (found === undefined || !["waiting", "parked"].includes(found.value.state)) return false;
    const edit = await LaneEdit.open(access, found.value);
    if (edit === undefined) return false;
    edit.include(found);
    edit.change(id, { ...OVER, state: "discarded", finishedAt: access.clock.now(), reason });
    const changes = new Changes();
    edit.settle(changes);
    await access.commit(changes);
    return true;
  }

  return {
    redrive: (ids, { supersedable }) => access.retry(() => redriveOnce(ids, new Set(supersedable))),
    sendNow: (id) => access.retry(() => sendNowOnce(id)),
    discard: (id, reason) => access.retry(() => discardOnce(id, reason)),
  };
}

function problemOf(delivery: Read<StoredDelivery> | undefined): RedriveResult | undefined {
  if (delivery === undefined) return "unknown";
  if (delivery.value.state === "waiting") return "waiting";
  return delivery.value.payload === null ? "purged" : undefined;
}

function toState({
  paused,
  reason,
  failures,
  heldUntil,
  holdSpan,
  releaseUntil,
}: ReceiverState): ReceiverState {
  return { paused, reason, failures, heldUntil, holdSpan, releaseUntil };
}

function isTouched({ paused, failures, heldUntil, releaseUntil }: ReceiverState): boolean {
  return paused || failures > 0 || heldUntil !== null || releaseUntil !== null;
}

export function createReceivers(access: LaneAccess): Receivers {
  async function writeReceiver(
    was: Read<KnownReceiver> | undefined,
    receiver: string,
    state: ReceiverState,
  ): Promise<void> {
    const changes = new Changes();
    changes.write(
      receiverRecord({ receiver, ...toState(isTouched(state) ? state : untouchedReceiver) }),
      was,
    );
    await access.commit(changes);
  }

  /** Parks those of the deliveries that still wait in a lane. */
  async function parkLane(lane: LaneKey, ids: ReadonlySet<string>, reason: string): Promise<number> {
    const edit = await LaneEdit.open(access, lane);
    const wanted = edit?.waiting().filter(({ id }) => ids.has(id)) ?? [];
    const finishedAt = access.clock.now();
    for (const { id } of wanted) edit?.change(id, { ...OVER, state: "parked", finishedAt, reason });
    const changes = new Changes();
    edit?.settle(changes);
    await access.commit(changes);
    return wanted.length;
  }

  async function makeDue(id: string): Promise<void> {
    const found = await access.delivery(id);
    if (found === undefined || !found.value.isHead || found.value.failedAt === null) return;
    const changes = new Changes();
    changes.write(
      deliveryRecord({ ...found.value, nextAttemptAt: found.value.storedAt, failedAt: null }),
      found,
    );
    await access.commit(changes);
  }

  return {
    receiver: async (name) => toState((await access.receiver(name))?.value ?? untouchedReceiver),
    async receivers() {
      const touched = (await access.receivers()).filter(isTouched);
      return new Map(touched.map((each) => [each.receiver, toState(each)] as const));
    },
    changeReceiver: (name, decide) =>
      access.retry(async () => {
        const was = await access.receiver(name);
        const before = toState(was?.value ?? untouchedReceiver);
        const after = decide(before) ?? before;
        if (after !== before) await writeReceiver(was, name, after);
        return { before, after };
      }),
    async releaseHeld(receiver, limit) {
      const was = await access.receiver(receiver);
      const { releaseUntil = null } = was?.value ?? {};
      if (was === undefined || releaseUntil === null) return 0;
      const query = { ...DELIVERY.where("failed", receiver), to: Math.floor(releaseUntil) };
      const failed = (await access.deliveries(query, limit)).filter(
        ({ value }) => value.failedAt !== null && value.failedAt <= releaseUntil,
      );
      await Promise.all(failed.map(({ value }) => access.retry(() => makeDue(value.id))));
      if (failed.length < limit) {
        await access.retry(async () => {
          const now = await access.receiver(receiver);
          if (now?.value.releaseUntil === releaseUntil)
            await writeReceiver(now, receiver, { ...now.value, releaseUntil: null });
        });
      }
      return failed.length;
    },
    async parkWaiting(receiver, reason, limit) {
      const query = DELIVERY.where("open", ["waiting", receiver]);
      const lanes = new Map<string, { readonly lane: LaneKey; readonly ids: Set<string> }>();
      for (const { value } of await access.deliveries(query, limit)) {
        const { sub, id } = value;
        const open = lanes.get(laneKey(value)) ?? { lane: { receiver, sub }, ids: new Set() };
        lanes.set(laneKey(value), open);
        open.ids.add(id);
      }
      const parked = await Promise.all(
        [...lanes.values()].map(({ lane, ids }) => access.retry(() => parkLane(lane, ids, reason))),
      );
      return parked.reduce((sum, each) => sum + each, 0);
    },
  };
}

export function createUpkeep(access: LaneAccess): Upkeep {
  const finished = (at: PurgeStage, to: number, limit: number): Promise<Read<StoredDelivery>[]> =>
    limit <= 0
      ? Promise.resolve([])
      : access.deliveries({ ...DELIVERY.where("purge", at), to: Math.floor(to) }, limit);

  /** Whether the lane has more than one delivery. */
  async function hasOthers(lane: LaneKey): Promise<boolean> {
    const [count = 0] = await access.store.count([laneQuery(lane, "lane")]);
    return count > 1;
  }

  async function forget(id: string): Promise<void> {
    const found = await access.delivery(id);
    if (found === undefined || found.value.state === "waiting") return;
    const { state, sequence } = found.value;
    const lane = await access.lane(found.value);
    const changes = new Changes();
    changes.delete(deliveryRef(id), found);
    if (lane !== undefined) {
      if (!(await hasOthers(found.value))) changes.delete(laneRef(found.value), lane);
      else if (state === "delivered" && sequence > lane.value.lastDelivered) {
        changes.write(laneRecord({ ...lane.value, lastDelivered: sequence }), lane);
      }
    }
    await access.commit(changes);
  }

  async function forgetPayload(id: string): Promise<void> {
    const found = await access.delivery(id);
    if (found === undefined || found.value.payload === null) return;
    if (!["delivered", "discarded"].includes(found.value.state)) return;
    const attemptRecords = found.value.attemptRecords.map((each) => ({ ...each, answer: null }));
    const changes = new Changes();
    changes.write(deliveryRecord({ ...found.value, payload: null, attemptRecords }), found);
    await access.commit(changes);
  }

  async function reconcileLane(lane: LaneKey): Promise<number> {
    const edit = await LaneEdit.open(access, lane);
    const changes = new Changes();
    const wrong = edit?.settle(changes) ?? 0;
    if (wrong > 0) await access.commit(changes);
    return wrong > 0 ? 1 : 0;
  }

  return {
    async purge({ payloads, records, limit }) {
      const old: Read<StoredDelivery>[] = [];
      for (const stage of ["record", "payload"] as const)
        old.push(...(await finished(stage, records, limit - old.length)));
      for (const { value } of old) await access.retry(() => forget(value.id));
      const known = new Set(old.map(({ value }) => value.id));
      const delivered = await finished("payload", payloads, limit - old.length);
      const emptied = delivered.filter(({ value }) => !known.has(value.id));
      for (const { value } of emptied) await access.retry(() => forgetPayload(value.id));
      return old.length + emptied.length;
    },
    async reconcile({ after, limit }) {
      const page = await access.store.scan(LANE.name, after?.receiver, Math.min(limit, PAGE));
      let repaired = 0;
      for (const record of page.records) {
        repaired += await access.retry(() => reconcileLane(read<Lane>(record).value));
      }
      return { repaired, ...(page.next === undefined ? {} : { after: { receiver: page.next, sub: "" } }) };
    },
  };
}
