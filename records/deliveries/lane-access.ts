/** Reads lanes, deliveries and receivers. */
import type { LaneKey } from "./delivery.ts";
import type { Query } from "../../adapters/record-store.ts";
import { type Changes, type Read, Records } from "../records.ts";
import {
  DELIVERY,
  deliveryRecord,
  deliveryRef,
  type StoredDelivery,
  type KnownReceiver,
  type Lane,
  laneRef,
  receiverRef,
} from "./delivery-kinds.ts";

/** The deliveries of a lane in their order: only those that wait, or all. */
export function laneQuery({ receiver, sub }: LaneKey, which: "waiting" | "lane", limit = 1): Query {
  return { ...DELIVERY.where(which, [receiver, sub]), limit };
}

export class LaneAccess extends Records {
  delivery(id: string): Promise<Read<StoredDelivery> | undefined> {
    return this.find(deliveryRef(id));
  }

  lane(lane: LaneKey): Promise<Read<Lane> | undefined> {
    return this.find(laneRef(lane));
  }

  receiver(receiver: string): Promise<Read<KnownReceiver> | undefined> {
    return this.find(receiverRef(receiver));
  }

  /** All receivers that ever had a delivery, ordered by name. */
  async receivers(): Promise<KnownReceiver[]> {
    const all = await this.all<KnownReceiver>("receiver");
    return all.toSorted((one, other) => (one.receiver < other.receiver ? -1 : 1));
  }

  deliveries(query: Omit<Query, "limit">, most?: number): Promise<Read<StoredDelivery>[]> {
    return this.list(query, most);
  }

  /** The waiting deliveries of a lane, head first. */
  waiting(lane: LaneKey, most?: number): Promise<Read<StoredDelivery>[]> {
    return this.list(laneQuery(lane, "waiting"), most);
  }
}

/** Writes a delivery if it has changed. */
export function writeDelivery(changes: Changes, was: Read<StoredDelivery>, now: StoredDelivery): void {
  if (now !== was.value) changes.write(deliveryRecord(now), was);
}
