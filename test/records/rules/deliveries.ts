/** Helpers for the cases of deliveries. */
import type {
  AttemptRecord,
  Claim,
  WholeDelivery,
  LeaseTerms,
} from "../../../records/deliveries/delivery.ts";
import {
  BEHIND_HEADS,
  DELIVERY,
  dueAt,
  type StoredDelivery,
} from "../../../records/deliveries/delivery-kinds.ts";
import type { Storage } from "../../../records/storage.ts";
import type { Stage } from "./stage.ts";

export const SPAN = 30_000;
export const TERMS: LeaseTerms = { owner: "worker 1", span: SPAN };
export const OTHER: LeaseTerms = { ...TERMS, owner: "worker 2" };

export const attempt: AttemptRecord = {
  startedAt: 1_800_000_000_000,
  duration: 12.5,
  status: 503,
  error: null,
  answer: "sealed answer",
};

/** Claims the one lane of a receiver that is due. Fails when there is none. */
export async function claimOne(stage: Stage, receiver = "service:1"): Promise<Claim> {
  const [claim] = await stage.storage.deliveries.claimDue(receiver, 1, TERMS);
  if (claim === undefined) throw new Error(`nothing is due at ${receiver}`);
  return claim;
}

/** All deliveries that a worker can claim now. */
export async function claimable(stage: Stage, receiver = "service:1"): Promise<string[]> {
  const claims = await stage.storage.deliveries.claimDue(receiver, 1000, OTHER);
  return claims.map(({ delivery }) => delivery.id);
}

/** Delivers the head of the one lane that is due. */
export async function deliver(stage: Stage, receiver = "service:1"): Promise<string> {
  const claim = await claimOne(stage, receiver);
  await stage.storage.deliveries.finish(claim, { kind: "delivered" });
  return claim.delivery.id;
}

/** Parks the head of the one lane that is due. */
export async function park(stage: Stage, receiver = "service:1"): Promise<string> {
  const claim = await claimOne(stage, receiver);
  await stage.storage.deliveries.finish(claim, { kind: "parked", reason: "attempts_used_up" });
  return claim.delivery.id;
}

/** The heads of the lanes of `service:1`, due or not, first due first. */
export async function heads({ storage }: Stage): Promise<{ readonly id: string; readonly dueAt: number }[]> {
  const waiting = { ...DELIVERY.where("waiting", "service:1"), to: BEHIND_HEADS - 1 };
  const all = await storage.records.list<StoredDelivery>(waiting);
  return all.map(({ value }) => ({ id: value.id, dueAt: dueAt(value) }));
}

/** A delivery that must exist. */
export async function found({ storage }: Stage, id: string): Promise<WholeDelivery> {
  const delivery = await storage.deliveries.find(id);
  if (delivery === undefined) throw new Error(`${id} is gone`);
  return delivery;
}

/** Every call about lanes and receivers, for a store that is closed. */
export function everyLaneCall({ deliveries }: Storage): (() => Promise<unknown>)[] {
  const delivery = { id: "d", receiver: "service:1", sub: "a", sequence: 1 } as WholeDelivery;
  return [
    () => deliveries.attempts("d"),
    () => deliveries.counts(),
    () => deliveries.oldestDeletions(),
    () => deliveries.dueReceivers(),
    () => deliveries.claimDue("service:1", 1, TERMS),
    () => deliveries.finish({ delivery, fence: 1, leaseEnd: 1, probe: false }, { kind: "delivered" }),
    () => deliveries.receiver("service:1"),
    () => deliveries.receivers(),
    () => deliveries.changeReceiver("service:1", () => undefined),
    () => deliveries.releaseFailed("service:1", 1),
    () => deliveries.parkWaiting("service:1", "reason", 1),
    () => deliveries.redrive(["d"], { supersedable: [] }),
    () => deliveries.discard("d", "by_hand"),
    () => deliveries.purge({ payloads: 0, records: 0, limit: 1 }),
    () => deliveries.reconcile({ limit: 1 }),
  ];
}
