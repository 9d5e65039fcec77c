/** Which receivers have something waiting, at the cost of one look for each receiver, however many lanes it has. */
import type { Filter } from "mongodb";
import type { DeliveryStore, DueReceiver, LaneKey } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import type { Lanes, StoredLane } from "./delivery-lanes.ts";
import type { Receivers } from "./delivery-receivers.ts";

/** Looks that go on beside each other. */
const BREADTH = 8;

interface FirstDue {
  readonly key: string;
  readonly name: string;
  readonly at: number;
}

/** Keys that part the receivers that there were at the last look into about as many stretches. */
function partings(keys: readonly string[]): string[] {
  const size = Math.ceil(keys.length / BREADTH);
  return keys.filter((_key, index) => index > 0 && index % size === 0);
}

export function createDue(
  connection: Connection,
  lanes: Lanes,
  receivers: Receivers,
): Pick<DeliveryStore, "dueReceivers"> {
  /** The receivers of the last look: only to look at several stretches of them at once. */
  let known: readonly string[] = [];

  /** From one receiver to the next, each with its first due lane; those behind `after`, up to `last`. */
  async function walk(after: string | undefined, last: string | undefined): Promise<FirstDue[]> {
    const found: FirstDue[] = [];
    const upTo = last === undefined ? {} : { $lte: last };
    let place: { $gt: string } | { $gte: string } = after === undefined ? { $gte: "" } : { $gt: after };
    for (;;) {
      const filter: Filter<StoredLane> = { "due.receiver": { ...place, ...upTo } };
      const lane = await lanes.collection.findOne(filter, { sort: { "due.receiver": 1, "due.at": 1 } });
      if (lane?.due === undefined) return found;
      const { receiver } = JSON.parse(lane.json) as LaneKey;
      found.push({ key: lane.due.receiver, name: receiver, at: lane.due.at });
      place = { $gt: lane.due.receiver };
    }
  }

  return {
    dueReceivers: () =>
      connection.run(async () => {
        const ends = partings(known);
        const [kept, ...stretches] = await Promise.all([
          receivers.all(),
          ...[...ends, undefined].map((end, index) => walk(ends[index - 1], end)),
        ]);
        const states = new Map(kept);
        const found = stretches.flat();
        known = found.map(({ key }) => key);
        return found
          .flatMap(({ name, at }): DueReceiver[] => {
            const state = states.get(name);
            if (state?.paused === true) return [];
            return [{ receiver: name, dueAt: Math.max(at, state?.heldUntil ?? 0) }];
          })
          .toSorted((one, other) => (one.receiver < other.receiver ? -1 : 1));
      }),
  };
}
