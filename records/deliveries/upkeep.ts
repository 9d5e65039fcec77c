/** Redriving and discarding, the state of receivers, purging, and repairing lanes. */
import type { Transaction } from "../records.ts";
import { PAGE, type Read, read } from "../records.ts";
import {
  type Changed,
  type DeliveryStore,
  type LaneKey,
  type RedriveResult,
  type SendNowResult,
  TOO_LATE,
  WORTH_SENDING_MS,
} from "./delivery.ts";
import {
  DELIVERY,
  givenUp,
  type KnownReceiver,
  LANE,
  type Lane,
  laneKey,
  laneRef,
  PAYLOAD,
  type PurgeStage,
  RECEIVER,
  type StoredDelivery,
  toDelivery,
  withoutPayload,
} from "./delivery-kinds.ts";
import { type LaneAccess, LaneEdit, laneQuery } from "./lanes.ts";
import { isTouched, opensAt, type ReceiverState, untouchedReceiver } from "./receiver-state.ts";

type ByHand = Pick<DeliveryStore, "redrive" | "sendNow" | "discard">;
type Receivers = Pick<
  DeliveryStore,
  "receiver" | "receivers" | "changeReceiver" | "releaseFailed" | "parkWaiting" | "discardLate"
>;
type Upkeep = Pick<DeliveryStore, "purge" | "reconcile">;

const OVER = { isHead: false, nextAttemptAt: null, failedAt: null, flight: null } as const;

/** The deliveries by their lanes. */
function byLane(deliveries: readonly StoredDelivery[]): StoredDelivery[][] {
  return [...Map.groupBy(deliveries, laneKey).values()];
}

/** Redrives deliveries of one lane in order. Those that can't be redriven stay as they are. */
function redriveLane(
  edit: LaneEdit,
  wanted: readonly StoredDelivery[],
  { supersedable, now }: { readonly supersedable: ReadonlySet<string>; readonly now: number },
): [string, RedriveResult][] {
  const latest = Math.max(edit.lastDelivered, edit.flight?.sequence ?? 0);
  const results = wanted.map(({ id, type, sequence, until }): [string, RedriveResult] => {
    const problem = problemOf(edit.get(id));
    if (problem !== undefined) return [id, problem];
    if (supersedable.has(type) && latest > sequence) return [id, "superseded"];
    const again = {
      state: "waiting",
      failures: 0,
      failedAt: null,
      finishedAt: null,
      reason: null,
      ...(until !== undefined && { until: now + WORTH_SENDING_MS }),
    } as const;
    edit.change(id, { ...again, nextAttemptAt: edit.get(id)?.storedAt ?? null });
    for (const behind of edit.waiting()) {
      if (behind.sequence > sequence && behind.failedAt !== null) {
        edit.change(behind.id, { nextAttemptAt: behind.storedAt, failedAt: null });
      }
    }
    return [id, "redriven"];
  });
  edit.settle();
  return results;
}

export function createByHand(access: LaneAccess): ByHand {
  async function redrive(
    tx: Transaction,
    ids: readonly string[],
    supersedable: ReadonlySet<string>,
    changed?: Changed,
  ): Promise<ReadonlyMap<string, RedriveResult>> {
    const found = await tx.peekAll(ids.map((id) => DELIVERY.ref(id)));
    const results = new Map<string, RedriveResult>(ids.map((id) => [id, "unknown"]));
    for (const wanted of byLane(found.filter((delivery) => delivery !== undefined))) {
      const edit = await LaneEdit.open(tx, access, wanted[0] as LaneKey);
      if (edit === undefined) continue;
      for (const [id, result] of redriveLane(edit, wanted, { supersedable, now: access.clock.now() })) {
        results.set(id, result);
        const made = edit.get(id);
        if (made !== undefined) changed?.(toDelivery(made));
      }
    }
    return results;
  }

  async function sendNow(tx: Transaction, id: string, changed?: Changed): Promise<SendNowResult> {
    const delivery = await tx.get(DELIVERY.ref(id));
    if (delivery === undefined) return "unknown";
    const now = access.clock.now();
    if (delivery.state !== "waiting") return "over";
    changed?.(toDelivery(delivery));
    if (delivery.lease !== null && delivery.lease.end > now) return "sending";
    // An earlier one that was given up may still be arriving.
    if (!delivery.isHead || (delivery.flight !== null && delivery.flight.end > now)) return "behind";
    const [receiver] = await tx.peekAll([RECEIVER.ref(delivery.receiver)]);
    if (receiver !== undefined && opensAt(receiver) > now) return "stopped";
    const due = { ...delivery, nextAttemptAt: delivery.storedAt, failedAt: null };
    tx.put(DELIVERY.record(due));
    changed?.(toDelivery(due));
    return "due";
  }

  async function discard(tx: Transaction, id: string, reason: string, changed?: Changed): Promise<boolean> {
    const [delivery] = await tx.peekAll([DELIVERY.ref(id)]);
    const edit = delivery && (await LaneEdit.open(tx, access, delivery));
    const state = edit?.get(id)?.state;
    if (edit === undefined || (state !== "waiting" && state !== "parked")) return false;
    edit.change(id, { ...OVER, state: "discarded", finishedAt: access.clock.now(), reason });
    edit.settle();
    const made = edit.get(id);
    if (made !== undefined) changed?.(toDelivery(made));
    return true;
  }

  return {
    redrive: (ids, { supersedable, changed }) =>
      access.transact((tx) => redrive(tx, ids, new Set(supersedable), changed)),
    sendNow: (id, changed) => access.transact((tx) => sendNow(tx, id, changed)),
    discard: (id, reason, changed) => access.transact((tx) => discard(tx, id, reason, changed)),
  };
}

function problemOf(delivery: StoredDelivery | undefined): RedriveResult | undefined {
  if (delivery === undefined) return "unknown";
  if (delivery.state === "waiting") return "waiting";
  return delivery.hasPayload ? undefined : "purged";
}

const toState = ({ receiver: _name, ...state }: KnownReceiver): ReceiverState => state;

async function makeDue(tx: Transaction, id: string): Promise<void> {
  const delivery = await tx.get(DELIVERY.ref(id));
  if (delivery === undefined || !delivery.isHead || delivery.failedAt === null) return;
  tx.put(DELIVERY.record({ ...delivery, nextAttemptAt: delivery.storedAt, failedAt: null }));
}

export function createReceivers(access: LaneAccess): Receivers {
  function changeReceiver(
    name: string,
    decide: (state: ReceiverState) => ReceiverState | undefined,
  ): Promise<{ readonly before: ReceiverState; readonly after: ReceiverState }> {
    return access.transact(async (tx) => {
      const known = await tx.get(RECEIVER.ref(name));
      const before = known === undefined ? untouchedReceiver : toState(known);
      const after = decide(before) ?? before;
      const state = isTouched(after) ? after : untouchedReceiver;
      if (after !== before) tx.put(RECEIVER.record({ receiver: name, ...state }));
      return { before, after };
    });
  }

  /** Gives up deliveries, lane by lane. @returns the receiver of each lane, and how many there were. */
  function giveUp(
    deliveries: readonly Read<StoredDelivery>[],
    reason: string,
  ): Promise<(readonly [receiver: string, count: number])[]> {
    return Promise.all(
      byLane(deliveries.map(({ value }) => value)).map(async (lane) => {
        const count = await access.transact((tx) => parkLane(tx, lane, reason));
        return [(lane[0] as LaneKey).receiver, count] as const;
      }),
    );
  }

  /** Gives up the deliveries that still wait in a lane: parks those that stay worth sending. */
  async function parkLane(
    tx: Transaction,
    deliveries: readonly StoredDelivery[],
    reason: string,
  ): Promise<number> {
    const edit = await LaneEdit.open(tx, access, deliveries[0] as LaneKey);
    const wanted = deliveries.filter(({ id }) => edit?.get(id)?.state === "waiting");
    const finishedAt = access.clock.now();
    for (const one of wanted) edit?.change(one.id, { ...OVER, state: givenUp(one), finishedAt, reason });
    edit?.settle();
    return wanted.length;
  }

  /** Heads that failed until then, oldest first. Those that failed later have been tried since. */
  async function failedUntil(receiver: string, time: number, limit: number): Promise<StoredDelivery[]> {
    const failed: StoredDelivery[] = [];
    const query = { ...DELIVERY.where("failed", receiver), limit: PAGE };
    for await (const { records } of access.pages(query)) {
      const found = records.map((record) => read<StoredDelivery>(record).value);
      failed.push(...found.filter(({ failedAt }) => failedAt !== null && failedAt <= time));
      if (failed.length >= limit) break;
    }
    return failed.slice(0, limit);
  }

  return {
    async receiver(name) {
      const known = await access.receiver(name);
      return known === undefined ? untouchedReceiver : toState(known.value);
    },
    async receivers() {
      const touched = (await access.receivers()).filter(isTouched);
      return new Map(touched.map((each) => [each.receiver, toState(each)] as const));
    },
    changeReceiver,
    async releaseFailed(receiver, limit) {
      const releaseUntil = (await access.receiver(receiver))?.value.releaseUntil ?? null;
      if (releaseUntil === null) return 0;
      const released = await failedUntil(receiver, releaseUntil, limit);
      await Promise.all(released.map(({ id }) => access.transact((tx) => makeDue(tx, id))));
      if (released.length < limit)
        await changeReceiver(receiver, (state) =>
          state.releaseUntil === releaseUntil ? { ...state, releaseUntil: null } : undefined,
        );
      return released.length;
    },
    async parkWaiting(receiver, reason, limit) {
      const waiting = await access.deliveries(DELIVERY.where("waiting", receiver), limit);
      const parked = await giveUp(waiting, reason);
      return parked.reduce((sum, [, count]) => sum + count, 0);
    },
    async discardLate(limit) {
      const to = Math.floor(access.clock.now());
      const late = await access.deliveries({ ...DELIVERY.where("until", "waiting"), to }, limit);
      const discarded = new Map<string, number>();
      for (const [receiver, count] of await giveUp(late, TOO_LATE))
        discarded.set(receiver, (discarded.get(receiver) ?? 0) + count);
      return discarded;
    },
  };
}

async function forgetPayload(tx: Transaction, id: string): Promise<void> {
  const delivery = await tx.get(DELIVERY.ref(id));
  if (delivery === undefined || !delivery.hasPayload) return;
  if (delivery.state !== "delivered" && delivery.state !== "discarded") return;
  tx.put(DELIVERY.record(withoutPayload(delivery)));
  tx.remove(PAYLOAD.ref(id));
}

export function createUpkeep(access: LaneAccess): Upkeep {
  const finished = (at: PurgeStage, to: number, limit: number): Promise<Read<StoredDelivery>[]> =>
    limit <= 0
      ? Promise.resolve([])
      : access.deliveries({ ...DELIVERY.where("purge", at), to: Math.floor(to) }, limit);

  async function forget(tx: Transaction, id: string): Promise<void> {
    const delivery = await tx.get(DELIVERY.ref(id));
    if (delivery === undefined || delivery.state === "waiting") return;
    const lane = await tx.get(laneRef(delivery));
    tx.remove(DELIVERY.ref(id));
    tx.remove(PAYLOAD.ref(id));
    if (lane === undefined) return;
    const [count = 0] = await access.store.count([{ ...laneQuery(delivery), limit: 2 }]);
    const { state, sequence } = delivery;
    if (count <= 1) tx.remove(laneRef(delivery));
    else if (state === "delivered" && sequence > lane.lastDelivered)
      tx.put(LANE.record({ ...lane, lastDelivered: sequence }));
  }

  /** @returns whether anything was wrong. */
  async function reconcileLane(tx: Transaction, lane: LaneKey): Promise<boolean> {
    return (await LaneEdit.open(tx, access, lane))?.settle() ?? false;
  }

  return {
    async purge({ payloads, records, limit }) {
      const old: Read<StoredDelivery>[] = [];
      for (const stage of ["record", "payload"] as const)
        old.push(...(await finished(stage, records, limit - old.length)));
      for (const { value } of old) await access.transact((tx) => forget(tx, value.id));
      const known = new Set(old.map(({ value }) => value.id));
      const delivered = await finished("payload", payloads, limit - old.length);
      const emptied = delivered.filter(({ value }) => !known.has(value.id));
      for (const { value } of emptied) await access.transact((tx) => forgetPayload(tx, value.id));
      return old.length + emptied.length;
    },
    async reconcile({ after, limit }) {
      const page = await access.store.scan(LANE.name, after?.receiver, Math.min(limit, PAGE));
      let repaired = 0;
      for (const record of page.records) {
        const lane = read<Lane>(record).value;
        // Nothing is stuck in a lane where nothing waits.
        if (lane.isEmpty) continue;
        if (await access.transact((tx) => reconcileLane(tx, lane))) repaired += 1;
      }
      return { repaired, ...(page.next === undefined ? {} : { after: { receiver: page.next, sub: "" } }) };
    },
  };
}
