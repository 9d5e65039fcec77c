/** Compares what arrived with what had to arrive. */
import type { Stored } from "./journal.ts";
import { ANY_TIME, type Expected } from "./oracle.ts";
import type { Arrival } from "./receivers.ts";
import type { Loss } from "./server.ts";

/** Counts of deliveries. */
export interface DeliveryCounts {
  /** The deliveries of committed changes. */
  readonly expected: number;
  /** Of these, those that arrived and were answered with 200. */
  readonly taken: number;
  /** Of these, those that never arrived or were never accepted. */
  readonly lost: number;
  /** Deliveries that arrived and that no committed change had to send to this receiver with this body. */
  readonly unexpected: number;
  /** The same about changes that were lost with the primary, because the standby had received nothing for a while. */
  readonly aboutLost: number;
  /** First arrivals that came after one that had to come later, for the same receiver and user. */
  readonly outOfOrder: number;
  /** POSTs that arrived in all. */
  readonly posts: number;
  /** POSTs with a `webhook-id` that had arrived before. */
  readonly repeats: number;
  /** Of these, those with another body or at another receiver. */
  readonly changedRepeats: number;
  /** Deliveries that are not delivered according to the storage. */
  readonly unfinished: number;
  /** Deliveries that are delivered according to the storage, but that no receiver has accepted. */
  readonly falselyFinished: number;
}

/** The `user_id` and `sub` that receivers learned. */
export function numbersIn(arrivals: readonly Arrival[]): [number: number, sub: string][] {
  return arrivals.map(({ body }) => {
    const { user_id, user_uuid } = (JSON.parse(body) as { data: { user_id: number; user_uuid: string } })
      .data;
    return [user_id, user_uuid];
  });
}

export interface Verdict {
  readonly counts: DeliveryCounts;
  /** Descriptions of the problems that are worth reading. */
  readonly problems: readonly string[];
}

/** One delivery as its receiver saw it: the first arrival, and whether any was accepted. */
interface Seen {
  readonly id: string;
  readonly receiver: string;
  readonly sub: string;
  readonly shape: string;
  readonly time: number;
  readonly at: number;
  taken: boolean;
}

const TIME = /"timestamp":(\d+)/u;

function seenFrom(arrival: Arrival): Seen {
  const { id, receiver, body, taken, at } = arrival;
  const sub = /"user_uuid":"([^"]*)"/u.exec(body)?.[1] ?? "";
  const time = Number(TIME.exec(body)?.[1] ?? Number.NaN);
  return { id, receiver, sub, shape: body.replace(TIME, ANY_TIME), time, at, taken };
}

/** Deliveries by id in the order of their first arrivals, and what differed when they were repeated. */
function firstArrivals(arrivals: readonly Arrival[]): { seen: Map<string, Seen>; changed: string[] } {
  const seen = new Map<string, Seen>();
  const first = new Map<string, Arrival>();
  const changed: string[] = [];
  for (const arrival of arrivals) {
    const known = first.get(arrival.id);
    if (known === undefined) {
      first.set(arrival.id, arrival);
      seen.set(arrival.id, seenFrom(arrival));
      continue;
    }
    const same = known.body === arrival.body && known.receiver === arrival.receiver;
    if (!same) changed.push(`${arrival.id} at ${arrival.receiver}: ${known.body} became ${arrival.body}`);
    else if (arrival.taken) seen.get(arrival.id)!.taken = true;
  }
  return { seen, changed };
}

const laneOf = ({ receiver, sub }: Pick<Seen, "receiver" | "sub">): string => `${receiver} ${sub}`;

const fits = (seen: Seen, { shape, from, to }: Expected): boolean =>
  seen.shape === shape && seen.time >= from && seen.time <= to;

interface Lane {
  readonly lost: readonly Expected[];
  readonly unexpected: readonly Seen[];
  /** Arrivals that came after one that had to come later. */
  readonly late: readonly Seen[];
}

/** Matches each first arrival with the first expected notification that it can be. */
function matchLane(expected: readonly Expected[], seen: readonly Seen[]): Lane {
  const open = new Map(expected.entries());
  const unexpected: Seen[] = [];
  const late: Seen[] = [];
  const lost: Expected[] = [];
  let highest = -1;
  for (const each of seen) {
    const place = [...open].find(([, one]) => fits(each, one))?.[0];
    if (place === undefined) {
      unexpected.push(each);
      continue;
    }
    if (!each.taken) lost.push(expected[place]!);
    open.delete(place);
    if (place < highest) late.push(each);
    highest = Math.max(highest, place);
  }
  return { lost: [...lost, ...open.values()], unexpected, late };
}

/** A POST may arrive after the primary is gone: it has a second, and the machine may be busy. */
const UNDER_WAY_MS = 2_000;

export function judge(
  expected: readonly Expected[],
  arrivals: readonly Arrival[],
  stored: readonly Stored[],
  losses: readonly Loss[] = [],
): Verdict {
  const { seen, changed } = firstArrivals(arrivals);
  const due = Map.groupBy(expected, laneOf);
  const came = Map.groupBy(seen.values(), laneOf);
  const lanes = [...new Set([...due.keys(), ...came.keys()])].map((lane) =>
    matchLane(due.get(lane) ?? [], came.get(lane) ?? []),
  );
  const lost = lanes.flatMap((lane) => lane.lost);
  const [aboutLost, unexpected] = [true, false].map((isAboutLost) =>
    lanes
      .flatMap((lane) => lane.unexpected)
      .filter(
        ({ at }) => losses.some(({ from, to }) => at >= from && at <= to + UNDER_WAY_MS) === isAboutLost,
      ),
  ) as [Seen[], Seen[]];
  const late = lanes.flatMap((lane) => lane.late);
  const unfinished = stored.filter(({ state }) => state !== "delivered");
  const falsely = stored.filter(({ id, state }) => state === "delivered" && seen.get(id)?.taken !== true);
  return {
    counts: {
      expected: expected.length,
      taken: expected.length - lost.length,
      lost: lost.length,
      unexpected: unexpected.length,
      aboutLost: aboutLost.length,
      outOfOrder: late.length,
      posts: arrivals.length,
      repeats: arrivals.length - seen.size,
      changedRepeats: changed.length,
      unfinished: unfinished.length,
      falselyFinished: falsely.length,
    },
    problems: [
      ...lost.map(({ receiver, shape }) => `lost at ${receiver}: ${shape}`),
      ...unexpected.map(
        ({ receiver, id, shape, time }) => `unexpected at ${receiver}: ${id} ${shape} ${time}`,
      ),
      ...late.map(({ receiver, id, shape }) => `out of order at ${receiver}: ${id} ${shape}`),
      ...changed.map((text) => `changed when repeated: ${text}`),
      ...unfinished.map(({ id, state }) => `${state}: ${id}`),
      ...falsely.map(({ id }) => `held as delivered, but never taken: ${id}`),
    ],
  };
}
