/** Adds deliveries, as part of the commit of the change that causes them. */
import type { NewDelivery } from "./delivery.ts";
import { untouchedReceiver } from "./delivery.ts";
import { type LaneAccess, laneQuery } from "./lane-access.ts";
import {
  deliveryRecord,
  deliveryRef,
  type StoredDelivery,
  type Lane,
  laneKey,
  laneRecord,
  laneRef,
  receiverRecord,
  receiverRef,
} from "./delivery-kinds.ts";
import { AlreadyExists } from "../../core/errors.ts";
import { Changes, read, type Read } from "../records.ts";

/** Returns positions among all deliveries, each later than the one before. */
export type Positions = () => number;

export function createPositions(access: Pick<LaneAccess, "clock">): Positions {
  let last = 0;
  return () => (last = Math.max(last + 1, Math.floor(access.clock.now() * 1_000)));
}

/** A lane to which deliveries are being added. */
interface OpenLane {
  readonly was: Read<Lane> | undefined;
  /** The waiting head; `undefined`: the first delivery that is added becomes the head. */
  readonly head: Read<StoredDelivery> | undefined;
  lane: Lane;
  isEmpty: boolean;
}

/** Reads lanes and receivers in one round trip, and then the heads: a delivery that is added since then changes its lane. */
async function openLanes(
  access: LaneAccess,
  deliveries: readonly NewDelivery[],
): Promise<{ readonly lanes: ReadonlyMap<string, OpenLane>; readonly unknown: readonly string[] }> {
  const keys = new Map(deliveries.map((each) => [laneKey(each), each] as const));
  const names = [...new Set(deliveries.map(({ receiver }) => receiver))];
  const refs = [...[...keys.values()].map(laneRef), ...names.map(receiverRef)];
  const found = await access.store.get(refs);
  const pages = await access.store.list([...keys.values()].map((lane) => laneQuery(lane, "waiting")));
  const lanes = [...keys].map(([key, { receiver, sub }], index) => {
    const was = found[index] && read<Lane>(found[index]);
    const first = pages[index]?.records[0];
    const head = first && read<StoredDelivery>(first);
    const fresh: Lane = { receiver, sub, lastSequence: 0, lastDelivered: 0, flight: null };
    return [key, { was, head, lane: was?.value ?? fresh, isEmpty: head === undefined }] as const;
  });
  return {
    lanes: new Map(lanes),
    unknown: names.filter((_name, index) => found[keys.size + index] === undefined),
  };
}

/**
 * The changes that store these deliveries, each at the end of its lane. They write the lane and expect its head
 * unchanged, so that of two writers that add, or of one that adds and one that finishes the head, one fails and retries.
 * @throws AlreadyExists when two deliveries have the same id.
 */
export async function planAdding(
  access: LaneAccess,
  positions: Positions,
  deliveries: readonly NewDelivery[],
): Promise<Changes> {
  const ids = new Set(deliveries.map(({ id }) => id));
  if (ids.size < deliveries.length) throw new AlreadyExists("a delivery with this id");
  const changes = new Changes();
  const { lanes, unknown } = await openLanes(access, deliveries);
  for (const receiver of unknown)
    changes.write(receiverRecord({ receiver, ...untouchedReceiver }), undefined);
  const now = access.clock.now();
  for (const delivery of deliveries) {
    const open = lanes.get(laneKey(delivery)) as OpenLane;
    const sequence = open.lane.lastSequence + 1;
    const { flight } = open.lane;
    changes.write(
      deliveryRecord({
        ...delivery,
        sequence,
        state: "waiting",
        attempts: 0,
        failures: 0,
        storedAt: now,
        nextAttemptAt: now,
        finishedAt: null,
        reason: null,
        position: positions(),
        attemptRecords: [],
        failedAt: null,
        isHead: open.isEmpty,
        fence: 0,
        lease: null,
        flight: open.isEmpty ? flight : null,
      }),
      undefined,
    );
    open.lane = { ...open.lane, lastSequence: sequence, flight: open.isEmpty ? null : flight };
    open.isEmpty = false;
  }
  for (const { was, head, lane } of lanes.values()) {
    changes.write(laneRecord(lane), was);
    if (head === undefined) continue;
    if (ids.has(head.value.id)) throw new AlreadyExists("a delivery with this id");
    changes.expect(deliveryRef(head.value.id), head);
  }
  return changes;
}
