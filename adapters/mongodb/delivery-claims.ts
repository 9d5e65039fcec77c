/** What is due, and who may send it: a lane is claimed by one write under the condition that nothing has changed. */
import type { ClientSession } from "mongodb";
import type { Claim, DeliveryStore, LaneHead, LaneKey, LeaseTerms } from "../deliveries.ts";
import type { Connection } from "./connection.ts";
import { toDelivery } from "./delivery-documents.ts";
import { isDue, laneId, type Lanes, type StoredLane } from "./delivery-lanes.ts";
import { allows, type Receivers } from "./delivery-receivers.ts";
import { toKey } from "./keys.ts";

type Calls = Pick<DeliveryStore, "dueLanes" | "claimDue" | "claimLane">;

/** Heads that are looked for at once. */
const BREADTH = 50;

/** What a look at a lane came to: a claim; nothing to claim; or that somebody changed it meanwhile. */
type Try = Claim | "nothing" | "changed";

/** Of a lane whose receiver is not held. */
const FREE: { readonly probe: boolean; readonly session?: ClientSession } = { probe: false };

const isClaim = (one: Try): one is Claim => typeof one === "object";

async function inParts<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let from = 0; from < items.length; from += BREADTH) {
    results.push(...(await Promise.all(items.slice(from, from + BREADTH).map(work))));
  }
  return results;
}

/** The lanes of a receiver whose heads may be claimed until then, first due first. */
function findDue(
  { collection }: Lanes,
  receiver: string,
  until: number,
  limit: number,
  session?: ClientSession,
): Promise<StoredLane[]> {
  const due = { "due.receiver": toKey(receiver), "due.at": { $lte: until } };
  const options = { sort: { "due.at": 1 }, limit, ...(session && { session }) } as const;
  return collection.find(due, options).toArray();
}

type TryLane = (
  lane: StoredLane,
  terms: LeaseTerms,
  more?: { readonly probe: boolean; readonly session?: ClientSession },
) => Promise<Try>;

function createTry({ clock }: Connection, lanes: Lanes): TryLane {
  return async (lane, terms, { probe, session } = FREE) => {
    const now = clock.now();
    const { _id, lease_end = 0, due } = lane;
    if (lease_end > now) return "nothing";
    const head = await lanes.head(_id, session);
    if (head === undefined || !isDue(head, now)) {
      // It seemed due, and would again at the next look.
      if (session === undefined && due !== undefined && due.at <= now) await lanes.correct(lane, head);
      return "nothing";
    }
    const claim = await lanes.claim(lane, head, terms, session);
    return claim === undefined ? "changed" : { ...claim, probe };
  };
}

/** Claims of a receiver that is not held: each lane by itself. */
interface FreeClaims {
  /** @param seen the lanes that a look has just found. */
  due(receiver: string, limit: number, terms: LeaseTerms, seen: readonly StoredLane[]): Promise<Claim[]>;
  lane(lane: LaneKey, terms: LeaseTerms): Promise<Claim | undefined>;
}

function createFree({ clock }: Connection, lanes: Lanes, tryLane: TryLane): FreeClaims {
  return {
    async due(receiver, limit, terms, seen) {
      const claims: Claim[] = [];
      for (let found = seen; ;) {
        // In the order of the lanes: first due first.
        const tries = await inParts(found, (lane) => tryLane(lane, terms));
        claims.push(...tries.filter(isClaim));
        // Others were at the same lanes: what they have left is looked for again.
        if (claims.length === limit || !tries.includes("changed")) return claims;
        found = await findDue(lanes, receiver, clock.now(), limit - claims.length);
      }
    },
    async lane(lane, terms) {
      for (;;) {
        const found = await lanes.collection.findOne({ _id: laneId(lane) });
        const claim = found === null ? "nothing" : await tryLane(found, terms);
        if (claim !== "changed") return isClaim(claim) ? claim : undefined;
      }
    },
  };
}

/** Finds lanes in a transaction. */
type Find = (session: ClientSession) => Promise<StoredLane[]>;

/** One delivery shows how a receiver is, and it is held again: one step, or two workers would both send one. */
function createProbe(
  connection: Connection,
  receivers: Receivers,
  tryLane: TryLane,
): (receiver: string, terms: LeaseTerms, find: Find) => Promise<Claim[]> {
  return (receiver, terms, find) =>
    connection.inTransaction(async (session) => {
      const found = await receivers.read(receiver, session);
      const now = connection.clock.now();
      const { allowed, probe } = allows(found.state, 1, now);
      if (allowed === 0 || !probe) return [];
      for (const lane of await find(session)) {
        const claim = await tryLane(lane, terms, { probe, session });
        if (!isClaim(claim)) continue;
        const state = { ...found.state, heldUntil: now + terms.holdAgain };
        await receivers.replace(receiver, found, state, session);
        return [claim];
      }
      return [];
    });
}

async function toHead(lanes: Lanes, { _id, due }: StoredLane): Promise<LaneHead[]> {
  const head = await lanes.head(_id);
  if (head === undefined || due === undefined) return [];
  const { receiver, id, sub, attempts } = toDelivery(head);
  return [{ receiver, sub, dueAt: due.at, id, attempts }];
}

export function createClaims(connection: Connection, lanes: Lanes, receivers: Receivers): Calls {
  const { clock } = connection;
  const tryLane = createTry(connection, lanes);
  const free = createFree(connection, lanes, tryLane);
  const claimProbe = createProbe(connection, receivers, tryLane);

  return {
    dueLanes: (receiver, { ahead, limit }) =>
      connection.run(async () => {
        if (limit < 1) return [];
        const found = await findDue(lanes, receiver, clock.now() + ahead, limit);
        return (await inParts(found, (lane) => toHead(lanes, lane))).flat();
      }),
    async claimDue(receiver, limit, terms) {
      const most = Math.trunc(limit);
      if (most < 1) return [];
      const look = () => Promise.all([receivers.read(receiver), findDue(lanes, receiver, clock.now(), most)]);
      const [{ state }, found] = await connection.run(look);
      const { allowed, probe } = allows(state, most, clock.now());
      if (allowed < 1) return [];
      if (!probe) return connection.run(() => free.due(receiver, allowed, terms, found));
      const find: Find = (session) => findDue(lanes, receiver, clock.now(), BREADTH, session);
      return claimProbe(receiver, terms, find);
    },
    async claimLane(lane, terms) {
      const { state } = await connection.run(() => receivers.read(lane.receiver));
      const { allowed, probe } = allows(state, 1, clock.now());
      if (allowed < 1) return undefined;
      if (!probe) return connection.run(() => free.lane(lane, terms));
      const find: Find = (session) => lanes.collection.find({ _id: laneId(lane) }, { session }).toArray();
      const [claim] = await claimProbe(lane.receiver, terms, find);
      return claim;
    },
  };
}
