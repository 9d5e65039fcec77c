/** Checks that lanes and receivers match the deliveries, and repairs them. */
import type { Found, RecordStore, Ref } from "../../adapters/record-store.ts";
import { untouchedReceiver } from "./receiver-state.ts";
import { type Check, type Flaw, KindScan } from "../record-check.ts";
import type { Clock } from "../../core/clock.ts";
import type { Stores } from "../kinds.ts";
import { type KindRules, type Read } from "../records.ts";
import { LaneAccess, LaneEdit, laneQuery } from "./lanes.ts";
import { DELIVERY, type StoredDelivery, LANE, type Lane, newLane, RECEIVER } from "./delivery-kinds.ts";

const deliveryIn = ({ value }: Found): StoredDelivery => value as unknown as StoredDelivery;
const laneOf = (found: Found): Ref => LANE.ref([deliveryIn(found).receiver, deliveryIn(found).sub]);
const receiverOf = (found: Found): Ref => RECEIVER.ref(deliveryIn(found).receiver);

/** The waiting deliveries of a lane in their order. */
async function waitingIn(access: LaneAccess, { value }: Found): Promise<Read<StoredDelivery>[]> {
  const all = await access.deliveries(laneQuery(value as unknown as Lane));
  return all.filter((delivery) => delivery.value.state === "waiting");
}

/** Whether only the first waiting delivery is the head, and the lane agrees. */
function hasRightHead({ value }: Found, waiting: readonly Read<StoredDelivery>[]): boolean {
  if ((value as unknown as Lane).isEmpty !== (waiting.length === 0)) return false;
  return waiting.every((delivery, index) => delivery.value.isHead === (index === 0));
}

export function deliveryChecks(stores: Stores, kinds: KindRules, clock: Clock): Check[] {
  const { storage } = stores;
  const access = new LaneAccess(storage, clock, kinds);
  const lanes = new KindScan(LANE, stores, clock);
  const deliveries = new KindScan(DELIVERY, stores, clock);

  async function withWrongHeads(found: readonly Found[]): Promise<Found[]> {
    const looks = await Promise.all(
      found.map(async (record) => hasRightHead(record, await waitingIn(access, record))),
    );
    return found.filter((_record, index) => looks[index] === false);
  }

  return [
    withoutLanes(deliveries, storage, access),
    {
      part: "lane",
      problem: "lanes whose head is not their first waiting delivery",
      find: (limit) =>
        lanes.find(limit, async (records) => {
          const wrong = await withWrongHeads(records);
          if (wrong.length === 0) return [];
          // Deliveries may have changed in the meantime without changing the lane: check these lanes again.
          const versions = await Promise.all(wrong.map((record) => headVersions(access, record)));
          const still = new Set((await withWrongHeads(wrong)).map(({ key }) => key));
          const again = await Promise.all(wrong.map((record) => headVersions(access, record)));
          return wrong.filter(({ key }, index) => still.has(key) && versions[index] === again[index]);
        }),
      async repair(flaws) {
        for (const { id } of flaws) await settle(access, storage, id);
      },
    },
    withoutReceivers(deliveries, storage),
  ];
}

/** The waiting deliveries of a lane with their versions, as one text to compare. */
async function headVersions(access: LaneAccess, record: Found): Promise<string> {
  const waiting = await waitingIn(access, record);
  return waiting.map(({ value: { id }, version }) => `${id} ${version}`).join("\n");
}

/** Makes the first waiting delivery the head. */
async function settle(access: LaneAccess, storage: RecordStore, key: string): Promise<void> {
  const [lane] = await storage.get([{ kind: LANE.name, key }]);
  if (lane === undefined) return;
  await access.transact(async (tx) =>
    (await LaneEdit.open(tx, access, lane.value as unknown as Lane))?.settle(),
  );
}

/** Finds deliveries whose lane is missing or has a lower `lastSequence`. */
function withoutLanes(deliveries: KindScan, storage: RecordStore, access: LaneAccess): Check {
  async function wrong(records: readonly Found[]): Promise<Found[]> {
    const lanes = await storage.get(records.map(laneOf));
    return records.filter((record, index) => {
      const lane = lanes[index]?.value as unknown as Lane | undefined;
      return lane === undefined || lane.lastSequence < deliveryIn(record).sequence;
    });
  }

  /** Writes the lane according to its deliveries. */
  async function fit(found: Found): Promise<void> {
    const { receiver, sub } = deliveryIn(found);
    const [before] = await storage.get([laneOf(found)]);
    const all = (await access.deliveries(laneQuery({ receiver, sub }))).map(({ value }) => value);
    const known = (before?.value as unknown as Lane | undefined) ?? newLane({ receiver, sub });
    const record = LANE.record({
      ...known,
      lastSequence: Math.max(known.lastSequence, ...all.map(({ sequence }) => sequence)),
      lastPosition: Math.max(known.lastPosition, ...all.map(({ position }) => position)),
      isEmpty: all.every(({ state }) => state !== "waiting"),
    });
    if (before === undefined) await deliveries.write(found, { put: [record] });
    else await deliveries.write(before, { put: [record] });
  }

  return {
    part: "lane",
    problem: "deliveries missing from their lane",
    find: (limit) => deliveries.find(limit, wrong),
    async repair(flaws: readonly Flaw[]) {
      for (const { id } of flaws) {
        const [found] = await storage.get([{ kind: DELIVERY.name, key: id }]);
        if (found !== undefined && (await wrong([found])).length > 0) await fit(found);
      }
    },
  };
}

/** Finds deliveries for a receiver without a record, which no worker looks at. */
function withoutReceivers(deliveries: KindScan, storage: RecordStore): Check {
  async function wrong(records: readonly Found[]): Promise<Found[]> {
    const receivers = await storage.get(records.map(receiverOf));
    return records.filter((_record, index) => receivers[index] === undefined);
  }
  return {
    part: "receiver",
    problem: "deliveries for an unknown receiver",
    find: (limit) => deliveries.find(limit, wrong),
    repair: (flaws) =>
      deliveries.repair(flaws, async (found) =>
        (await wrong([found])).length === 0
          ? {}
          : { put: [RECEIVER.record({ receiver: deliveryIn(found).receiver, ...untouchedReceiver })] },
      ),
  };
}
