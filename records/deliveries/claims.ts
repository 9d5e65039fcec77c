/** Claims the heads of lanes, and records the outcomes. */
import type {
  AttemptRecord,
  Claim,
  DeliveryStore,
  Finished,
  FinishOptions,
  LeaseTerms,
  Outcome,
} from "./delivery.ts";
import { ConditionFailed } from "../../core/errors.ts";
import { type LaneAccess, writeDelivery } from "./lane-access.ts";
import {
  DELIVERY,
  deliveryRecord,
  deliveryRef,
  dueAt,
  type StoredDelivery,
  type KnownReceiver,
  type Lane,
  laneRecord,
  laneRef,
  receiverRecord,
  receiverRef,
  toDelivery,
} from "./delivery-kinds.ts";
import { Changes, type Read } from "../records.ts";

type Calls = Pick<DeliveryStore, "dueReceivers" | "dueLanes" | "claimDue" | "claimLane" | "finish">;

/** How many of `limit` claims a receiver allows now, and whether the claim is a probe. */
function allowedBy(
  receiver: KnownReceiver | undefined,
  limit: number,
  now: number,
): { readonly allowed: number; readonly probe: boolean } {
  if (receiver === undefined) return { allowed: limit, probe: false };
  const { paused, heldUntil } = receiver;
  if (paused) return { allowed: 0, probe: false };
  if (heldUntil === null) return { allowed: limit, probe: false };
  return { allowed: heldUntil <= now ? Math.min(1, limit) : 0, probe: true };
}

/** The head while it is claimed, and the claim. */
function claimed(
  head: StoredDelivery,
  { owner, span }: LeaseTerms,
  now: number,
): { readonly stored: StoredDelivery; readonly claim: Omit<Claim, "probe"> } {
  const leaseEnd = now + span;
  const fence = head.fence + 1;
  const stored = { ...head, fence, lease: { owner, end: leaseEnd }, flight: null };
  return { stored, claim: { delivery: toDelivery(head), fence, leaseEnd } };
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
  return { ...after, ...over, failures, state: "parked", reason: outcome.reason };
}

/** The delivery as the head of its lane, while no other delivery of the lane is in flight. */
export function asHead(stored: StoredDelivery): StoredDelivery {
  return { ...stored, isHead: true, lease: null, flight: null };
}

/** How many due heads `finish` prefetches for a receiver, so that not every slot that goes on reads its own. */
const PREFETCH = 20;

export function createClaims(access: LaneAccess): Calls {
  const { store, clock } = access;
  /** Deliveries as their claims have left them, so that `finish` need not read them again. */
  const asLeft = new WeakMap<Claim, Read<StoredDelivery>>();
  /** Ids of heads that this process is about to claim. */
  const taken = new Set<string>();
  /** Prefetched heads of each receiver: due when they were read, and not claimed by this process since. */
  const prefetched = new Map<string, Promise<Read<StoredDelivery>[]>>();

  /** Claims these heads in one commit; a probe begins the next hold of its receiver. */
  async function claimTogether(
    heads: readonly Read<StoredDelivery>[],
    terms: LeaseTerms,
    probed: Read<KnownReceiver> | undefined,
  ): Promise<Claim[]> {
    const now = clock.now();
    const changes = new Changes();
    const made = heads.map((head) => {
      const { stored, claim } = claimed(head.value, terms, now);
      changes.write(deliveryRecord(stored), head);
      return { stored, claim: { ...claim, probe: probed !== undefined } };
    });
    if (probed !== undefined && heads.length > 0)
      changes.write(receiverRecord({ ...probed.value, heldUntil: now + terms.holdAgain }), probed);
    // A claim may be lost in a power failure: its result is not recorded either, and the delivery is sent again.
    const version = await access.commit(changes, { relaxed: true });
    for (const { stored, claim } of made)
      if (version !== undefined) asLeft.set(claim, { value: stored, version });
    return made.map(({ claim }) => claim);
  }

  /** Claims those of the heads that no other worker has claimed first. */
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

  /** The due heads of a receiver that this process is not about to claim, first due first. */
  async function findDue(receiver: string, most: number): Promise<Read<StoredDelivery>[]> {
    const now = clock.now();
    const query = { ...DELIVERY.where("due", receiver), to: Math.floor(now) };
    const heads = await access.deliveries(query, most + taken.size);
    return heads.filter(({ value }) => dueAt(value) <= now && !taken.has(value.id)).slice(0, most);
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

  /** The next due head, from the prefetched ones if there are any. */
  async function nextDue(receiver: string): Promise<Read<StoredDelivery> | undefined> {
    const reading = prefetched.get(receiver) ?? findDue(receiver, PREFETCH);
    prefetched.set(receiver, reading);
    let heads: Read<StoredDelivery>[] = [];
    try {
      heads = await reading;
      return heads.shift();
    } finally {
      if (heads.length === 0 && prefetched.get(receiver) === reading) prefetched.delete(receiver);
    }
  }

  async function claimDue(
    receiver: string,
    limit: number,
    terms: LeaseTerms,
    find: (most: number) => Promise<Read<StoredDelivery>[]>,
  ): Promise<Claim[]> {
    const [known, heads] = await Promise.all([access.receiver(receiver), find(limit)]);
    const now = clock.now();
    const { allowed, probe } = allowedBy(known?.value, limit, now);
    const due = heads.filter(({ value }) => dueAt(value) <= now).slice(0, allowed);
    return claiming(due, () => claimAll(due, terms, probe ? known : undefined));
  }

  /** @param asClaimed the delivery as its claim left it; read from the storage if `undefined`. */
  async function finishOnce(
    { delivery: { id, receiver, sub }, fence }: Claim,
    outcome: Outcome,
    { attempt, lease, claimFrom = "lane" }: FinishOptions,
    asClaimed: Read<StoredDelivery> | undefined,
  ): Promise<Finished> {
    const key = { receiver, sub };
    const refs = [laneRef(key), receiverRef(receiver), ...(asClaimed === undefined ? [deliveryRef(id)] : [])];
    const [lane, state, read] = await access.get<[Lane, KnownReceiver, StoredDelivery]>(refs);
    const own = asClaimed ?? read;
    const lost = { recorded: false };
    if (own === undefined || lane === undefined) return lost;
    if (own.value.fence !== fence || own.value.lease === null) return lost;
    // The last delivery of its lane has none behind it. Otherwise read the lane's deliveries after its record: a delivery
    // that is added since then changes the record.
    const isAlone = own.value.isHead && own.value.sequence === lane.value.lastSequence;
    const [head, second] = isAlone ? [own] : await access.waiting(key, 2);
    const isHead = head?.value.id === id;
    const flight = head === undefined ? lane.value.flight : head.value.flight;
    if (!isHead && flight?.id !== id) return lost;

    const now = clock.now();
    const isStopped = state !== undefined && (state.value.paused || state.value.heldUntil !== null);
    const changes = new Changes();
    const claims: { readonly stored: StoredDelivery; readonly claim: Claim }[] = [];
    /** Claims the next delivery in the same commit if it may be sent now. */
    const claimNext = (next: StoredDelivery): StoredDelivery => {
      if (lease === undefined || isStopped || dueAt(next) > now) return next;
      const { stored, claim } = claimed(next, lease, now);
      claims.push({ stored, claim: { ...claim, probe: false } });
      return stored;
    };
    const after = withResult(own.value, outcome, attempt, now);
    const stays = isHead && after.state === "waiting";
    const following = isHead ? (stays ? undefined : second) : head;
    writeDelivery(changes, own, stays ? claimNext(after) : after);
    if (following !== undefined) writeDelivery(changes, following, claimNext(asHead(following.value)));
    // Nothing waits behind it, so make sure that nothing was added in the meantime.
    else if (!stays && lane.value.flight === null) changes.expect(laneRef(key), lane);
    else if (!stays) changes.write(laneRecord({ ...lane.value, flight: null }), lane);
    const other = claimFrom === "receiver" && claims.length === 0 ? await nextDue(receiver) : undefined;
    // If the lease has ended, the prefetched head may be this very delivery.
    const isOther = other !== undefined && other.value.sub !== sub;
    if (isOther) writeDelivery(changes, other, claimNext(other.value));
    const version = await claiming(isOther ? [other] : [], () =>
      access.commit(changes, { relaxed: outcome.kind === "delivered" }),
    );
    const [next] = claims;
    if (next === undefined) return { recorded: true };
    if (version !== undefined) asLeft.set(next.claim, { value: next.stored, version });
    return { recorded: true, next: next.claim };
  }

  async function finish(claim: Claim, outcome: Outcome, options: FinishOptions = {}): Promise<Finished> {
    const asClaimed = asLeft.get(claim);
    asLeft.delete(claim);
    try {
      return await finishOnce(claim, outcome, options, asClaimed);
    } catch (error) {
      if (!(error instanceof ConditionFailed)) throw error;
    }
    // The delivery, its lane or the next delivery has changed in the meantime.
    prefetched.delete(claim.delivery.receiver);
    return access.retry(() => finishOnce(claim, outcome, { ...options, claimFrom: "lane" }, undefined));
  }

  return {
    async dueReceivers() {
      const receivers = (await access.receivers()).filter(({ paused }) => !paused);
      const pages = await store.list(
        receivers.map(({ receiver }) => ({
          ...DELIVERY.where("due", receiver),
          limit: 1,
        })),
      );
      return receivers.flatMap(({ receiver, heldUntil }, index) => {
        const [first] = pages[index]?.records ?? [];
        if (first === undefined) return [];
        const { value } = first as unknown as Read<StoredDelivery>;
        return [{ receiver, dueAt: Math.max(heldUntil ?? 0, dueAt(value)) }];
      });
    },
    async dueLanes(receiver, { within, limit }) {
      const latest = clock.now() + within;
      const query = { ...DELIVERY.where("due", receiver), to: Math.floor(latest) };
      const heads = await access.deliveries(query, limit);
      return heads
        .filter(({ value }) => dueAt(value) <= latest)
        .map(({ value }) => ({
          receiver,
          sub: value.sub,
          dueAt: dueAt(value),
          id: value.id,
          attempts: value.attempts,
        }));
    },
    claimDue(receiver, limit, terms) {
      // The claim takes the first of the prefetched heads.
      prefetched.delete(receiver);
      return claimDue(receiver, limit, terms, (most) => findDue(receiver, most));
    },
    async claimLane(lane, terms) {
      const [made] = await claimDue(lane.receiver, 1, terms, () => access.waiting(lane, 1));
      return made;
    },
    finish,
  };
}
