/**
 * Claims the heads of lanes, and records the outcomes. It does not use `transact`, so that nothing is read twice: a claim
 * gets the versions that the search for due deliveries has read, and `finish` those that the claim wrote. Neither expects
 * the receiver to be unchanged, because all of its deliveries share that record.
 */
import type {
  AttemptRecord,
  Claim,
  DeliveryStore,
  DueReceiver,
  Finished,
  FinishOptions,
  LeaseTerms,
  Outcome,
} from "./delivery.ts";
import { ConditionFailed } from "../../core/errors.ts";
import {
  BEHIND_HEADS,
  DELIVERY,
  dueAt,
  givenUp,
  type StoredDelivery,
  type KnownReceiver,
  type Lane,
  LANE,
  laneRef,
  RECEIVER,
  PAYLOAD,
  type StoredPayload,
  toDelivery,
} from "./delivery-kinds.ts";
import { asHead, type LaneAccess, writeDelivery } from "./lanes.ts";
import { allowedNow, opensAt, stopOf, untouchedReceiver } from "./receiver-state.ts";
import { Changes, PAGE, type Read, read } from "../records.ts";

type Calls = Pick<DeliveryStore, "dueReceivers" | "claimDue" | "finish">;

/** The head while it is claimed. */
function claimed(head: StoredDelivery, { owner, span }: LeaseTerms, now: number): StoredDelivery {
  return { ...head, fence: head.fence + 1, lease: { owner, end: now + span }, flight: null };
}

/** What is needed to send a delivery and to finish it, besides its record. */
interface Rest {
  readonly payload: string | null;
  readonly lane: Read<Lane> | undefined;
}

/** A due head that was read ahead. */
interface Prefetched {
  readonly head: Read<StoredDelivery>;
  readonly rest: Rest;
}

/** What `dueReceivers` has read of a receiver. */
interface Found {
  readonly isOpen: boolean;
  /** The first heads, due or not. */
  readonly heads: readonly Read<StoredDelivery>[];
}

/** A delivery and its lane, as the claim wrote them. */
interface Left {
  readonly own: Read<StoredDelivery>;
  readonly lane: Read<Lane>;
}

function toClaim(stored: StoredDelivery, payload: string | null, probe: boolean): Claim {
  const { fence, lease } = stored;
  return { delivery: { ...toDelivery(stored), payload }, fence, leaseEnd: lease?.end ?? 0, probe };
}

/** The delivery after an attempt, or after its claim was returned. */
function withResult(
  stored: StoredDelivery,
  outcome: Outcome,
  attempt: AttemptRecord | undefined,
  now: number,
): StoredDelivery {
  const made = attempt === undefined ? [] : [{ ...attempt, number: stored.attempts + 1 }];
  const after: StoredDelivery = {
    ...stored,
    attempts: stored.attempts + made.length,
    attemptRecords: [...stored.attemptRecords, ...made],
    lease: null,
  };
  const over = { isHead: false, nextAttemptAt: null, failedAt: null, finishedAt: now };
  if (outcome.kind === "delivered") return { ...after, ...over, state: "delivered", reason: null };
  // A delivery that was discarded or parked in the meantime stays so.
  if (stored.state !== "waiting" || outcome.kind === "kept") return after;
  if (outcome.kind === "retry") {
    return { ...after, failures: stored.failures + 1, failedAt: now, nextAttemptAt: now + outcome.after };
  }
  const failures = stored.failures + made.length;
  return { ...after, ...over, failures, state: givenUp(stored), reason: outcome.reason };
}

/** How many due heads `finish` prefetches for a receiver, so that not every slot reads its own. */
const PREFETCH = 20;

export function createClaims(access: LaneAccess): Calls {
  const { store, clock } = access;
  /** What was read to find receivers and to claim, so that claiming and finishing do not read it again. */
  const asFound = new WeakMap<DueReceiver, Found>();
  const asLeft = new WeakMap<Claim, Left>();
  /** Ids of heads that this process is about to claim. */
  const taken = new Set<string>();
  /** Prefetched heads of each receiver: due when they were read, and not claimed by this process since. */
  const prefetched = new Map<string, Promise<Prefetched[]>>();

  async function readRest(heads: readonly StoredDelivery[]): Promise<Rest[]> {
    if (heads.length === 0) return [];
    const found = await store.get(heads.flatMap((head) => [PAYLOAD.ref(head.id), laneRef(head)]));
    return heads.map((_head, index) => {
      const [payload, lane] = found.slice(2 * index, 2 * index + 2);
      return {
        payload: payload === undefined ? null : read<StoredPayload>(payload).value.payload,
        lane: lane && read<Lane>(lane),
      };
    });
  }

  function remember(claim: Claim, value: StoredDelivery, version: string | undefined, { lane }: Rest): Claim {
    if (version !== undefined && lane !== undefined) asLeft.set(claim, { own: { value, version }, lane });
    return claim;
  }

  /** Claims these heads in one commit; a probe keeps the circuit of its receiver open. */
  async function claimTogether(
    heads: readonly Read<StoredDelivery>[],
    terms: LeaseTerms,
    probed: Read<KnownReceiver> | undefined,
  ): Promise<Claim[]> {
    if (heads.length === 0) return [];
    const now = clock.now();
    const changes = new Changes();
    const made = heads.map((head) => {
      const stored = claimed(head.value, terms, now);
      changes.write(DELIVERY.record(stored), head);
      return stored;
    });
    if (probed !== undefined)
      changes.write(RECEIVER.record({ ...probed.value, circuitOpenUntil: now + terms.span }), probed);
    // A claim may be lost in a power failure: its result is not recorded either, and the delivery is sent again.
    const [version, rest] = await Promise.all([access.commit(changes, { relaxed: true }), readRest(made)]);
    return made.map((stored, index) => {
      const its = rest[index] as Rest;
      return remember(toClaim(stored, its.payload, probed !== undefined), stored, version, its);
    });
  }

  /** Claims the heads that no other worker has claimed in the meantime. */
  async function claimAll(
    heads: readonly Read<StoredDelivery>[],
    terms: LeaseTerms,
    probed: Read<KnownReceiver> | undefined,
  ): Promise<Claim[]> {
    try {
      return await claimTogether(heads, terms, probed);
    } catch (error) {
      if (!(error instanceof ConditionFailed)) throw error;
      if (heads.length === 1) return [];
      const claims = heads.map((head) => claimAll([head], terms, probed));
      return (await Promise.all(claims)).flat();
    }
  }

  /** Those that are due and that this process is not about to claim. */
  function stillDue(heads: readonly Read<StoredDelivery>[], most: number): Read<StoredDelivery>[] {
    const now = clock.now();
    return heads.filter(({ value }) => dueAt(value) <= now && !taken.has(value.id)).slice(0, most);
  }

  /** The due heads of a receiver, earliest first. */
  async function findDue(receiver: string, most: number): Promise<Read<StoredDelivery>[]> {
    const query = { ...DELIVERY.where("waiting", receiver), to: Math.floor(clock.now()) };
    return stillDue(await access.deliveries(query, most + taken.size), most);
  }

  /** Runs a claim, and keeps others in this process from trying to claim the same heads. */
  async function claiming<T>(heads: readonly Read<StoredDelivery>[], claim: () => Promise<T>): Promise<T> {
    for (const { value } of heads) taken.add(value.id);
    try {
      return await claim();
    } finally {
      for (const { value } of heads) taken.delete(value.id);
    }
  }

  async function prefetch(receiver: string): Promise<Prefetched[]> {
    const heads = await findDue(receiver, PREFETCH);
    const rest = await readRest(heads.map(({ value }) => value));
    return heads.map((head, index) => ({ head, rest: rest[index] as Rest }));
  }

  /** The next due head, from the prefetched ones if there are any. */
  async function nextDue(receiver: string): Promise<Prefetched | undefined> {
    const reading = prefetched.get(receiver) ?? prefetch(receiver);
    prefetched.set(receiver, reading);
    let heads: Awaited<typeof reading> = [];
    try {
      heads = await reading;
      return heads.shift();
    } finally {
      if (heads.length === 0 && prefetched.get(receiver) === reading) prefetched.delete(receiver);
    }
  }

  async function dueReceivers(most = 0): Promise<DueReceiver[]> {
    const receivers = (await access.receivers()).filter(({ paused }) => !paused);
    const pages = await store.list(
      receivers.map(({ receiver }) => ({
        ...DELIVERY.where("waiting", receiver),
        to: BEHIND_HEADS - 1,
        limit: Math.max(1, Math.min(most, PAGE)),
      })),
    );
    return receivers.flatMap((state, index) => {
      const heads = (pages[index]?.records ?? []).map((record) => read<StoredDelivery>(record));
      const [first] = heads;
      if (first === undefined) return [];
      const due = Math.max(opensAt(state), dueAt(first.value));
      const each = { receiver: state.receiver, dueAt: due };
      asFound.set(each, { isOpen: stopOf(state) !== null, heads });
      return [each];
    });
  }

  async function claimDue(asked: string | DueReceiver, limit: number, terms: LeaseTerms): Promise<Claim[]> {
    const [receiver, look] =
      typeof asked === "string" ? [asked, undefined] : [asked.receiver, asFound.get(asked)];
    // The claim takes the first of the prefetched heads.
    prefetched.delete(receiver);
    if (look?.isOpen === false) {
      const due = stillDue(look.heads, limit);
      return claiming(due, () => claimAll(due, terms, undefined));
    }
    const [known, heads] = await Promise.all([access.receiver(receiver), findDue(receiver, limit)]);
    const state = known?.value ?? untouchedReceiver;
    const due = heads.slice(0, allowedNow(state, limit, clock.now()));
    return claiming(due, () => claimAll(due, terms, stopOf(state) === null ? undefined : known));
  }

  /** @param left read from the storage if `undefined`. */
  async function finishOnce(
    { delivery: { id, receiver, sub, payload }, fence }: Claim,
    outcome: Outcome,
    { attempt, lease, claimFrom = "lane" }: FinishOptions,
    left: Left | undefined,
  ): Promise<Finished> {
    const key = { receiver, sub };
    const [readLane, readOwn] =
      left === undefined ? await access.get<[Lane, StoredDelivery]>([laneRef(key), DELIVERY.ref(id)]) : [];
    const { own, lane } = left ?? { own: readOwn, lane: readLane };
    const lost = { recorded: false };
    if (own === undefined || lane === undefined) return lost;
    if (own.value.fence !== fence || own.value.lease === null) return lost;
    const now = clock.now();
    const { isHead, sequence, position } = own.value;
    const after = withResult(own.value, outcome, attempt, now);
    const stays = isHead && after.state === "waiting";
    // Nothing follows the last delivery of a lane. Otherwise read the lane's deliveries after its record, which changes
    // if a delivery is added in between.
    const isLast = isHead && sequence === lane.value.lastSequence;
    const following =
      stays || isLast ? undefined : await access.firstWaiting(key, isHead ? position + 1 : undefined);
    const flight = following === undefined ? lane.value.flight : following.value.flight;
    if (!isHead && flight?.id !== id) return lost;

    const changes = new Changes();
    const written = new Map<Read<StoredDelivery>, StoredDelivery>([[own, after]]);
    if (following !== undefined) written.set(following, asHead(following.value));
    // If a delivery is added in the meantime, one of the two commits is retried.
    else if (!stays) changes.write(LANE.record({ ...lane.value, isEmpty: true, flight: null }), lane);

    /** The next delivery of the lane if it may be sent now, otherwise one of another lane. */
    let next = stays ? own : following;
    if (lease === undefined || (next !== undefined && dueAt(written.get(next) as StoredDelivery) > now))
      next = undefined;
    let prefetchedRest: Rest | undefined;
    if (lease !== undefined && next === undefined && claimFrom === "receiver") {
      const other = await nextDue(receiver);
      // If the lease has ended, the prefetched head may be this very delivery.
      if (other !== undefined && other.head.value.sub !== sub && dueAt(other.head.value) <= now) {
        next = other.head;
        prefetchedRest = other.rest;
      }
    }
    const state = next && (await access.receiver(receiver))?.value;
    if (state !== undefined && stopOf(state) !== null) next = undefined;
    const head = next && (written.get(next) ?? next.value);
    const stored = head && lease && claimed(head, lease, now);
    if (next !== undefined && stored !== undefined) written.set(next, stored);
    for (const [was, delivery] of written) writeDelivery(changes, was, delivery);
    const atHand = prefetchedRest ?? (stays ? { payload, lane } : undefined);
    const [version, rest] = await Promise.all([
      claiming(next === undefined ? [] : [next], () =>
        access.commit(changes, { relaxed: outcome.kind === "delivered" }),
      ),
      stored && (atHand ?? readRest([stored]).then(([its]) => its)),
    ]);
    if (stored === undefined || rest === undefined) return { recorded: true };
    const claim = toClaim(stored, rest.payload, false);
    return { recorded: true, next: remember(claim, stored, version, rest), receiver: state };
  }

  async function finish(claim: Claim, outcome: Outcome, options: FinishOptions = {}): Promise<Finished> {
    const left = asLeft.get(claim);
    asLeft.delete(claim);
    try {
      return await finishOnce(claim, outcome, options, left);
    } catch (error) {
      if (!(error instanceof ConditionFailed)) throw error;
    }
    // The delivery, its lane or the next delivery has changed in the meantime.
    prefetched.delete(claim.delivery.receiver);
    return access.retry(() => finishOnce(claim, outcome, { ...options, claimFrom: "lane" }, undefined));
  }

  return { dueReceivers, claimDue, finish };
}
