/** The contract of receivers: paused, with an open circuit, made due again. */
import type { Claim } from "../../../records/deliveries/delivery.ts";
import { type ReceiverState, untouchedReceiver } from "../../../records/deliveries/receiver-state.ts";
import { attempt, claimable, claimOne, found, heads, SPAN, TERMS } from "./deliveries.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import { delivery, hostileKeys, type Stage, START, store } from "./stage.ts";

const PAUSED: ReceiverState = { ...untouchedReceiver, paused: true, reason: "410" };

/** @param stage the store of the running case. */
export function describeReceivers(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const set = (state: ReceiverState, receiver = "service:1") =>
    stage.storage.deliveries.changeReceiver(receiver, () => state);

  it("stores the state of a receiver, and removes the default state", async () => {
    const { deliveries } = stage.storage;
    await expect(deliveries.receiver("service:1")).resolves.toEqual(untouchedReceiver);
    const full = {
      paused: true,
      reason: "ż",
      failures: 5,
      failingSince: 1,
      lastError: "HTTP 503",
      circuitOpenUntil: 1.5,
      openSpan: 30_000,
      releaseUntil: 7,
    };
    await expect(set(full)).resolves.toEqual({ before: untouchedReceiver, after: full });
    await expect(deliveries.receiver("service:1")).resolves.toEqual(full);
    await expect(deliveries.changeReceiver("service:1", () => undefined)).resolves.toEqual({
      before: full,
      after: full,
    });
    for (const key of hostileKeys) await set({ ...PAUSED, reason: key }, `${key}!`);
    const all = await deliveries.receivers();
    expect(all.get("service:1")).toEqual(full);
    for (const key of hostileKeys) expect(all.get(`${key}!`)).toEqual({ ...PAUSED, reason: key });
    await set(untouchedReceiver);
    await expect(deliveries.receivers()).resolves.toHaveProperty("size", hostileKeys.length);
  });

  it("applies all of 50 concurrent changes of a receiver", async () => {
    const { deliveries } = stage.storage;
    await Promise.all(
      Array.from({ length: 50 }, () =>
        deliveries.changeReceiver("service:1", (state) => ({ ...state, failures: state.failures + 1 })),
      ),
    );
    await expect(deliveries.receiver("service:1")).resolves.toMatchObject({ failures: 50 });
  });

  it("returns nothing for a paused receiver, not even the next of a claimed lane", async () => {
    const { deliveries } = stage.storage;
    await store(
      stage,
      delivery("d1", "a"),
      delivery("d2", "a"),
      delivery("e1", "e"),
      delivery("o", "a", "o"),
    );
    const claim = await claimOne(stage);
    await set(PAUSED);
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(deliveries.finish(claim, { kind: "delivered" }, { lease: TERMS })).resolves.toEqual({
      recorded: true,
    });
    await expect(deliveries.dueReceivers()).resolves.toEqual([{ receiver: "o", dueAt: START }]);
    await expect(claimable(stage, "o")).resolves.toEqual(["o"]);
    await set(untouchedReceiver);
    await expect(claimable(stage)).resolves.toEqual(["e1", "d2"].toSorted());
  });

  it("returns one delivery each time that an open circuit may be probed", async () => {
    const { deliveries } = stage.storage;
    await store(
      stage,
      ...["a", "b", "c"].flatMap((sub) => [delivery(`${sub}1`, sub), delivery(`${sub}2`, sub)]),
    );
    await set({ ...untouchedReceiver, failures: 5, circuitOpenUntil: START + 30_000, openSpan: 60_000 });
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(deliveries.dueReceivers()).resolves.toEqual([
      { receiver: "service:1", dueAt: START + 30_000 },
    ]);
    stage.clock.advance(30_000);
    await expect(deliveries.claimDue("service:1", 0, TERMS)).resolves.toEqual([]);
    const [first, second] = await Promise.all([
      deliveries.claimDue("service:1", 9, TERMS),
      deliveries.claimDue("service:1", 9, TERMS),
    ]);
    expect([first.length + second.length, ...first, ...second]).toMatchObject([
      1,
      { probe: true, delivery: { sequence: 1 } },
    ]);
    await expect(deliveries.receiver("service:1")).resolves.toMatchObject({
      circuitOpenUntil: stage.clock.now() + SPAN,
    });
    // A success does not continue the lane, because the worker closes the circuit.
    const [claim] = [...first, ...second];
    const finished = await deliveries.finish(claim as Claim, { kind: "delivered" }, { lease: TERMS });
    expect(finished).toEqual({ recorded: true });
    stage.clock.advance(SPAN);
    await expect(claimOne(stage)).resolves.toMatchObject({ probe: true });
    await expect(claimable(stage)).resolves.toEqual([]);
    await set(untouchedReceiver);
    await expect(claimable(stage)).resolves.toHaveLength(2);
  });

  it("keeps no circuit open without a delivery", async () => {
    const open = { ...untouchedReceiver, failures: 5, circuitOpenUntil: START, openSpan: 60_000 };
    await set(open);
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(stage.storage.deliveries.receiver("service:1")).resolves.toEqual(open);
  });

  it("makes deliveries due that failed before a receiver recovered, the oldest first, in batches", async () => {
    const { deliveries } = stage.storage;
    for (const sub of ["a", "b", "c", "d"]) {
      await store(stage, delivery(`${sub}1`, sub));
      stage.clock.advance(1);
    }
    const claims = await deliveries.claimDue("service:1", 3, TERMS);
    for (const [index, claim] of claims.toReversed().entries()) {
      await deliveries.finish(claim, { kind: "retry", after: 100_000 + index }, { attempt });
      stage.clock.advance(1);
    }
    await set({ ...untouchedReceiver, releaseUntil: stage.clock.now() - 2 });
    stage.clock.advance(1);
    await expect(claimable(stage)).resolves.toEqual(["d1"]);
    await expect(deliveries.releaseFailed("service:1", 1)).resolves.toBe(1);
    await expect(deliveries.releaseFailed("service:1", 1)).resolves.toBe(1);
    await expect(deliveries.releaseFailed("service:1", 1)).resolves.toBe(0);
    await expect(deliveries.receiver("service:1")).resolves.toEqual(untouchedReceiver);
    await expect(deliveries.releaseFailed("service:1", 1)).resolves.toBe(0);
    stage.clock.advance(1);
    // Later failures keep their retry time.
    await expect(claimable(stage)).resolves.toEqual(["b1", "c1"]);
    await expect(found(stage, "b1")).resolves.toMatchObject({ failures: 1 });
    stage.clock.advance(100_002);
    await expect(claimable(stage)).resolves.toEqual(["d1", "b1", "c1", "a1"]);
  });

  it("parks the waiting deliveries of a receiver, in flight or not, in batches", async () => {
    const { deliveries } = stage.storage;
    await store(stage, ...["a1", "a2", "b1"].map((id) => delivery(id, id.slice(0, 1))));
    await store(stage, delivery("o", "a", "service:2"));
    const [failing, succeeding] = await deliveries.claimDue("service:1", 2, TERMS);
    await expect(deliveries.parkWaiting("service:1", "receiver_removed", 2)).resolves.toBe(2);
    await expect(deliveries.parkWaiting("service:1", "receiver_removed", 2)).resolves.toBe(1);
    await expect(deliveries.parkWaiting("service:1", "receiver_removed", 2)).resolves.toBe(0);
    await expect(heads(stage)).resolves.toEqual([]);
    const retry = { kind: "retry", after: 1 } as const;
    await expect(deliveries.finish(failing as Claim, retry, { attempt })).resolves.toEqual({
      recorded: true,
    });
    await deliveries.finish(succeeding as Claim, { kind: "delivered" }, { attempt });
    await expect(found(stage, "a1")).resolves.toMatchObject({
      state: "parked",
      reason: "receiver_removed",
      attempts: 1,
      failures: 0,
    });
    await expect(found(stage, "b1")).resolves.toMatchObject({ state: "delivered", reason: null });
    await expect(claimable(stage, "service:2")).resolves.toEqual(["o"]);
  });
}
