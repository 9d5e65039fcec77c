/**
 * The lane documents, kept in step with what waits in them. Whatever changes what is first in a lane writes its document
 * in the same transaction, and counts its `version` up: so whoever has read the document and then the head knows
 * by the version, when it writes, that this still is the head.
 */
import type { AnyBulkWriteOperation, ClientSession, Collection, Document } from "mongodb";
import type { Claim, LaneKey, LeaseTerms } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { type StoredDelivery, toDelivery } from "./delivery-documents.ts";
import { toKey } from "./keys.ts";

/** The key of a receiver, and when: found together. */
interface Moment {
  readonly receiver: string;
  readonly at: number;
}

export interface StoredLane {
  readonly _id: string;
  /** Counted up by every write. */
  readonly version: number;
  readonly last_sequence: number;
  /** The highest sequence that was delivered; left out when there is none. */
  readonly last_delivered?: number;
  /** Of the last claim; left out before the first. */
  readonly fence?: number;
  /** Of a claim that has not been finished: who, until when, and the `id` of the delivery. As JSON, both strings. */
  readonly owner?: string;
  readonly lease_end?: number;
  readonly claimed?: string;
  /** When its head may be claimed; left out when nothing waits. A lease is counted in. */
  readonly due?: Moment;
  /** When its head has failed last. */
  readonly failed?: Moment;
  /** {@link LaneKey} as JSON. */
  readonly json: string;
}

export function laneId({ receiver, sub }: LaneKey): string {
  return toKey(receiver, sub);
}

export function laneJson({ receiver, sub }: LaneKey): string {
  return JSON.stringify({ receiver, sub } satisfies LaneKey);
}

/** What a lane has to know of its head. */
export type Head = Pick<StoredDelivery, "_id" | "lane" | "receiver" | "next_attempt_at" | "failed_at">;

/** Whether it may be sent now, as far as it is up to the head. */
export function isDue(head: Head, now: number): boolean {
  return head.next_attempt_at !== undefined && head.next_attempt_at <= now;
}

/** The fields of a lease that begins now. */
export function leaseFields(
  delivery: StoredDelivery,
  { owner, span }: LeaseTerms,
  now: number,
): Required<Pick<StoredLane, "owner" | "lease_end" | "claimed" | "due">> {
  const lease_end = now + span;
  const { id } = toDelivery(delivery);
  return {
    owner: JSON.stringify(owner),
    lease_end,
    claimed: JSON.stringify(id),
    due: { receiver: delivery.receiver, at: lease_end },
  };
}

export interface Lanes {
  readonly collection: Collection<StoredLane>;
  /** What waits first in a lane, whenever it is due. */
  head(lane: string, session?: ClientSession): Promise<StoredDelivery | undefined>;
  /** The heads of many lanes with one look, without what they say. */
  heads(lanes: readonly string[], session: ClientSession): Promise<ReadonlyMap<string, Head>>;
  /** Claims a lane that was read, and then its head, if nothing has changed since; `undefined` otherwise. */
  claim(
    lane: StoredLane,
    head: StoredDelivery,
    terms: LeaseTerms,
    session?: ClientSession,
  ): Promise<Omit<Claim, "probe"> | undefined>;
  /** Brings lanes up to date with their deliveries, in the caller's transaction. Leases go on. */
  settle(lanes: readonly string[], session: ClientSession): Promise<void>;
  /** Brings a lane up to date that was read, and then its head, if nothing has changed since. */
  correct(lane: StoredLane, head: Head | undefined): Promise<void>;
}

/** What to write to a lane so that it fits its head; the lease goes on. */
function fitting(head: Head | undefined): Document[] {
  // What a group has found nothing of is null to the server.
  if (typeof head?.next_attempt_at !== "number") return [{ $unset: ["due", "failed"] }];
  const { receiver, next_attempt_at, failed_at } = head;
  const due = { receiver: { $literal: receiver }, at: { $ifNull: ["$lease_end", next_attempt_at] } };
  const failed = { receiver: { $literal: receiver }, at: failed_at };
  return typeof failed_at === "number"
    ? [{ $set: { due, failed } }]
    : [{ $set: { due } }, { $unset: "failed" }];
}

const COUNTED = { $set: { version: { $add: ["$version", 1] } } };

export function createLanes(connection: Connection): Lanes {
  const lanes = connection.collection<StoredLane>("lanes");
  const deliveries = connection.collection<StoredDelivery>("deliveries");

  async function heads(ids: readonly string[], session: ClientSession): Promise<Map<string, Head>> {
    const first = (field: keyof Head) => ({ $first: `$${field}` });
    const found = await deliveries
      .aggregate<Head>(
        [
          { $match: { lane: { $in: ids }, state: "waiting" } },
          { $sort: { lane: 1, sequence: 1 } },
          {
            $group: {
              _id: "$lane",
              lane: first("lane"),
              receiver: first("receiver"),
              next_attempt_at: first("next_attempt_at"),
              failed_at: first("failed_at"),
            },
          },
        ],
        { session },
      )
      .toArray();
    return new Map(found.map((head) => [head.lane, head]));
  }

  return {
    collection: lanes,
    heads,
    async head(lane, session) {
      const waiting = { lane, state: "waiting" } as const;
      const options = { sort: { sequence: 1 } as const, ...(session && { session }) };
      return (await deliveries.findOne(waiting, options)) ?? undefined;
    },
    async claim({ _id, version, fence = 0 }, head, terms, session) {
      const lease = leaseFields(head, terms, connection.clock.now());
      const { matchedCount } = await lanes.updateOne(
        { _id, version },
        { $set: lease, $inc: { version: 1, fence: 1 } },
        session && { session },
      );
      if (matchedCount === 0) return undefined;
      return { delivery: toDelivery(head), fence: fence + 1, leaseEnd: lease.lease_end };
    },
    async settle(ids, session) {
      if (ids.length === 0) return;
      const found = await heads(ids, session);
      const writes = [...new Set(ids)].map((_id): AnyBulkWriteOperation<StoredLane> => {
        return { updateOne: { filter: { _id }, update: [COUNTED, ...fitting(found.get(_id))] } };
      });
      await lanes.bulkWrite(writes, { session });
    },
    async correct({ _id, version }, head) {
      await lanes.updateOne({ _id, version }, [COUNTED, ...fitting(head)]);
    },
  };
}
