/** The contract of lanes: who may send what, and what a result does. */
import type { Claim } from "../../../records/deliveries/delivery.ts";
import {
  attempt,
  claimable,
  claimOne,
  deliver,
  found,
  heads,
  OTHER,
  park,
  SPAN,
  TERMS,
} from "./deliveries.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import { delivery, hostileKeys, type Stage, START, store, whole } from "./stage.ts";

/** @param stage the store of the running case. */
export function describeLanes(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("returns the head of each lane, the oldest first", async () => {
    for (const id of ["a1", "b1", "a2", "c1", "b2"]) {
      await store(stage, delivery(id, `sub-${id[0]}`));
      stage.clock.advance(10);
    }
    await store(stage, delivery("other", "sub-a", "service:2"));
    await expect(claimable(stage)).resolves.toEqual(["a1", "b1", "c1"]);
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(claimable(stage, "service:2")).resolves.toEqual(["other"]);
    await expect(claimable(stage, "service:3")).resolves.toEqual([]);
  });

  it("gives a claim to one of 50 concurrent callers", async () => {
    await store(stage, delivery("d", "a"));
    const { deliveries } = stage.storage;
    const claims = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        deliveries.claimDue("service:1", index % 2 === 0 ? 1 : 9, { ...TERMS, owner: `w${index}` }),
      ),
    );
    expect(claims.flat()).toEqual([
      { delivery: whole(delivery("d", "a"), 1), fence: 1, leaseEnd: START + SPAN, probe: false },
    ]);
  });

  it("gives each of many heads to one of several concurrent callers, and leaves none", async () => {
    const ids = Array.from({ length: 12 }, (_, index) => `d${index}`);
    await store(stage, ...ids.map((id) => delivery(id, id)));
    const { deliveries } = stage.storage;
    const claims = await Promise.all([
      deliveries.claimDue("service:1", 1, OTHER),
      ...["w1", "w2", "w3"].map((owner) => deliveries.claimDue("service:1", 12, { ...TERMS, owner })),
    ]);
    const claimed = claims.flat().map((claim) => claim.delivery.id);
    expect(claimed.toSorted()).toEqual(ids.toSorted());
  });

  it("releases a lane at the end of its lease, and ignores results of earlier claims", async () => {
    await store(stage, delivery("d", "a"));
    const { deliveries } = stage.storage;
    const first = await claimOne(stage);
    stage.clock.advance(SPAN - 1);
    await expect(claimable(stage)).resolves.toEqual([]);
    stage.clock.advance(1);
    const [second] = await deliveries.claimDue("service:1", 1, OTHER);
    expect(second).toMatchObject({ delivery: { id: "d", attempts: 0 } });
    expect(second?.fence).not.toBe(first.fence);
    const late = await deliveries.finish(first, { kind: "delivered" }, { attempt });
    expect(late).toEqual({ recorded: false });
    await expect(deliveries.attempts("d")).resolves.toEqual([]);
    await expect(found(stage, "d")).resolves.toMatchObject({ state: "waiting", attempts: 0 });
    await expect(deliveries.finish(second as Claim, { kind: "delivered" })).resolves.toEqual({
      recorded: true,
    });
    await expect(deliveries.finish(second as Claim, { kind: "delivered" })).resolves.toEqual({
      recorded: false,
    });
  });

  it("records every attempt, and the totals with the delivery", async () => {
    await store(stage, delivery("d", "a"));
    const { deliveries } = stage.storage;
    const results = [
      { attempt, outcome: { kind: "retry", after: 5000 } },
      {
        attempt: { ...attempt, status: null, error: "timeout_total", answer: null },
        outcome: { kind: "retry", after: 0.5 },
      },
      { attempt: { ...attempt, status: 410 }, outcome: { kind: "kept" } },
      { attempt: { ...attempt, status: 204, answer: "ż\0\ud800" }, outcome: { kind: "delivered" } },
    ] as const;
    for (const { outcome, ...result } of results) {
      stage.clock.advance(5000);
      await deliveries.finish(await claimOne(stage), outcome, result);
    }
    const attempts = await deliveries.attempts("d");
    expect(attempts.map(({ number }) => number)).toEqual([1, 2, 3, 4]);
    expect(attempts).toMatchObject(results.map((result) => result.attempt));
    await expect(found(stage, "d")).resolves.toEqual({
      ...whole(delivery("d", "a"), 1),
      state: "delivered",
      attempts: 4,
      failures: 2,
      nextAttemptAt: null,
      finishedAt: stage.clock.now(),
      isHead: false,
    });
    await expect(deliveries.attempts("none")).resolves.toEqual([]);
  });

  it("delays a failed head and the rest of its lane, but no other lane", async () => {
    await store(stage, delivery("a1", "a"), delivery("a2", "a"));
    const { deliveries } = stage.storage;
    const claim = await claimOne(stage);
    await store(stage, delivery("b1", "b"));
    await deliveries.finish(claim, { kind: "retry", after: 5000 }, { attempt, lease: TERMS });
    await expect(claimable(stage)).resolves.toEqual(["b1"]);
    stage.clock.advance(4999);
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(found(stage, "a1")).resolves.toMatchObject({ nextAttemptAt: START + 5000, failures: 1 });
    stage.clock.advance(1);
    await expect(claimable(stage)).resolves.toEqual(["a1"]);
  });

  it("claims the next delivery of the lane in the same step, if it is due", async () => {
    await store(stage, ...["d1", "d2", "d3"].map((id) => delivery(id, "a")));
    const { deliveries } = stage.storage;
    const first = await claimOne(stage);
    const { next: second } = await deliveries.finish(first, { kind: "delivered" }, { lease: OTHER });
    expect(second).toMatchObject({ delivery: { id: "d2" }, leaseEnd: START + SPAN });
    await expect(claimable(stage)).resolves.toEqual([]);
    const parked = { kind: "parked", reason: "receiver_removed" } as const;
    const { next: third } = await deliveries.finish(second as Claim, parked, { lease: TERMS });
    await expect(found(stage, "d2")).resolves.toMatchObject({
      state: "parked",
      reason: "receiver_removed",
      finishedAt: START,
      nextAttemptAt: null,
      failures: 0,
    });
    expect(third).toMatchObject({ delivery: { id: "d3" } });
    const last = await deliveries.finish(third as Claim, { kind: "delivered" }, { lease: TERMS });
    expect(last).toEqual({ recorded: true });
    await expect(heads(stage)).resolves.toEqual([]);
    await store(stage, delivery("d4", "a"));
    await expect(claimable(stage)).resolves.toEqual(["d4"]);
  });

  it("claims another lane of the receiver on request", async () => {
    await store(stage, delivery("a1", "a"), delivery("b1", "b"), delivery("z1", "a", "service:2"));
    const { deliveries } = stage.storage;
    const first = await claimOne(stage);
    await expect(deliveries.finish(first, { kind: "delivered" }, { lease: TERMS })).resolves.toEqual({
      recorded: true,
    });
    const second = await claimOne(stage);
    await store(stage, delivery("c1", "c"), delivery("d1", "d"));
    const options = { lease: OTHER, claimFrom: "receiver" } as const;
    const { next } = await deliveries.finish(second, { kind: "delivered" }, options);
    expect(next).toMatchObject({
      delivery: { receiver: "service:1" },
      probe: false,
      leaseEnd: START + SPAN,
    });
    await deliveries.changeReceiver("service:1", (state) => ({ ...state, paused: true }));
    const stopped = await deliveries.finish(next as Claim, { kind: "delivered" }, options);
    expect(stopped).toEqual({ recorded: true });
    await deliveries.changeReceiver("service:1", (state) => ({ ...state, paused: false }));
    const last = await claimable(stage);
    expect([next?.delivery.id ?? "", ...last].toSorted()).toEqual(["c1", "d1"]);
    await expect(claimable(stage, "service:2")).resolves.toEqual(["z1"]);
  });

  it("records a result even if the next delivery is gone", async () => {
    await store(stage, ...["a", "b", "c", "d"].map((sub) => delivery(`${sub}1`, sub)));
    const { deliveries } = stage.storage;
    const first = await claimOne(stage);
    const options = { lease: OTHER, claimFrom: "receiver" } as const;
    // It has read b, c and d as those that come next.
    const { next } = await deliveries.finish(first, { kind: "delivered" }, options);
    const waiting = (await deliveries.list({ state: "waiting", limit: 10 })).map(({ id }) => id);
    const others = waiting.filter((id) => id !== next?.delivery.id);
    await Promise.all(others.map((id) => deliveries.discard(id, "by hand")));
    await expect(deliveries.finish(next as Claim, { kind: "delivered" }, options)).resolves.toEqual({
      recorded: true,
    });
    await expect(found(stage, next?.delivery.id ?? "")).resolves.toMatchObject({ state: "delivered" });
  });

  it("continues in its lane only, and not for a paused receiver", async () => {
    await store(stage, delivery("a1", "a"), delivery("a2", "a"), delivery("b1", "b"));
    const { deliveries } = stage.storage;
    const other = await claimOne(stage);
    const first = other.delivery.id === "a1" ? other : await claimOne(stage);
    await deliveries.changeReceiver("service:1", (state) => ({ ...state, paused: true }));
    const stopped = await deliveries.finish(first, { kind: "delivered" }, { lease: OTHER });
    expect(stopped).toEqual({ recorded: true });
    await deliveries.changeReceiver("service:1", (state) => ({ ...state, paused: false }));
    await expect(claimable(stage)).resolves.toContain("a2");
  });

  it("keeps a returned head first and due", async () => {
    await store(stage, delivery("d1", "a"), delivery("d2", "a"));
    await stage.storage.deliveries.finish(await claimOne(stage), { kind: "kept" });
    await expect(found(stage, "d1")).resolves.toEqual(whole(delivery("d1", "a"), 1));
    await expect(claimable(stage)).resolves.toEqual(["d1"]);
  });

  it("finds a delivery that is added while its lane is claimed", async () => {
    await store(stage, delivery("d1", "a"));
    const claim = await claimOne(stage);
    await store(stage, delivery("d2", "a"));
    await expect(claimable(stage)).resolves.toEqual([]);
    await stage.storage.deliveries.finish(claim, { kind: "delivered" });
    await expect(claimable(stage)).resolves.toEqual(["d2"]);
  });

  it("lists the receivers with deliveries and when they are due", async () => {
    const { deliveries } = stage.storage;
    await expect(deliveries.dueReceivers()).resolves.toEqual([]);
    await store(stage, delivery("a", "a"), delivery("b", "b"), delivery("p", "a", "portal:p"));
    await store(stage, delivery("g", "a", "group:g"));
    stage.clock.advance(1);
    await expect(deliveries.dueReceivers()).resolves.toEqual(
      ["group:g", "portal:p", "service:1"].map((receiver) => ({ receiver, dueAt: START })),
    );
    await deliver(stage, "portal:p");
    await park(stage, "group:g");
    await deliveries.finish(await claimOne(stage), { kind: "retry", after: 700 });
    await deliveries.finish(await claimOne(stage), { kind: "retry", after: 300 });
    await expect(deliveries.dueReceivers()).resolves.toEqual([{ receiver: "service:1", dueAt: START + 301 }]);
    await expect(heads(stage)).resolves.toEqual([
      { id: "b", dueAt: START + 301 },
      { id: "a", dueAt: START + 701 },
    ]);
    stage.clock.advance(299);
    await expect(claimable(stage)).resolves.toEqual([]);
    stage.clock.advance(1);
    await expect(claimOne(stage)).resolves.toMatchObject({ delivery: { id: "b", attempts: 0 } });
    await expect(deliveries.dueReceivers()).resolves.toEqual([{ receiver: "service:1", dueAt: START + 701 }]);
  });

  it("claims no more than the limit, the first due first", async () => {
    const { deliveries } = stage.storage;
    await store(stage, delivery("a", "a"), delivery("b", "b"), delivery("c", "c"));
    const after: Readonly<Record<string, number>> = { a: 700, b: 300, c: 500 };
    for (const claim of await deliveries.claimDue("service:1", 3, TERMS))
      await deliveries.finish(claim, { kind: "retry", after: after[claim.delivery.id] as number });
    stage.clock.advance(700);
    const claims = await deliveries.claimDue("service:1", 2, TERMS);
    expect(claims.map((claim) => claim.delivery.id)).toEqual(["b", "c"]);
    await expect(claimable(stage)).resolves.toEqual(["a"]);
  });

  it("separates the lanes of any receivers and users", async () => {
    const { deliveries } = stage.storage;
    await store(stage, ...hostileKeys.map((key) => delivery(`d ${key}`, key, key)));
    for (const key of hostileKeys) {
      const claims = await deliveries.claimDue(key, 9, { ...TERMS, owner: key });
      expect(claims.map((claim) => claim.delivery.id)).toEqual([`d ${key}`]);
      const [claim] = claims;
      const { recorded } = await deliveries.finish(
        claim as Claim,
        { kind: "parked", reason: key },
        { attempt },
      );
      expect(recorded).toBe(true);
      await expect(found(stage, `d ${key}`)).resolves.toMatchObject({ state: "parked", reason: key });
    }
    await expect(deliveries.dueReceivers()).resolves.toEqual([]);
    await store(stage, ...hostileKeys.map((key) => delivery(`first ${key}`, key)));
    await store(stage, ...hostileKeys.map((key) => delivery(`second ${key}`, key)));
    for (const claim of await deliveries.claimDue("service:1", 1000, TERMS)) {
      const { sub } = claim.delivery;
      expect(claim.delivery.id).toBe(`first ${sub}`);
      const { next } = await deliveries.finish(claim, { kind: "delivered" }, { lease: OTHER });
      expect(next?.delivery.id).toBe(`second ${sub}`);
      await deliveries.finish(next as Claim, { kind: "delivered" });
    }
    await expect(deliveries.list({ state: "waiting", limit: 1 })).resolves.toEqual([]);
  });
}
