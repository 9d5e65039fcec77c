/** The contract of redriving, discarding, finding, purging, counting and repairing deliveries. */
import type { Query } from "../../../adapters/record-store.ts";
import type { Claim, DeliveryPage, NewDelivery } from "../../../records/deliveries/delivery.ts";
import { attempt, claimable, claimOne, deliver, found, heads, park, TERMS } from "./deliveries.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import { delivery, hostileKeys, type Stage, START, store, stored, whole } from "./stage.ts";

const PASSABLE = { supersedable: ["PROFILE_CHANGED"] };
const FORCED = { supersedable: [] };

function deletion(id: string, sub: string, receiver: string): NewDelivery {
  return delivery(id, sub, receiver, { type: "DELETE_ACCOUNT" });
}

/** @param stage the store of the running case. */
export function describeUpkeep(stage: Stage, runner: TestRunner): void {
  describeByHand(stage, runner);
  describeFinding(stage, runner);
  describePurging(stage, runner);
}

function describeByHand(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const redrive = async (ids: readonly string[], options: { supersedable: readonly string[] }) =>
    Object.fromEntries(await stage.storage.deliveries.redrive(ids, options));

  it("moves a redriven delivery to the head of its lane, with new attempts", async () => {
    const { deliveries } = stage.storage;
    await store(stage, ...["d1", "d2", "d3"].map((id) => delivery(id, "a")));
    await deliveries.finish(
      await claimOne(stage),
      { kind: "parked", reason: "attempts_used_up" },
      { attempt },
    );
    await expect(redrive(["d1"], PASSABLE)).resolves.toEqual({ d1: "redriven" });
    await expect(found(stage, "d1")).resolves.toEqual({
      ...whole(delivery("d1", "a"), 1),
      attempts: 1,
      lastError: "HTTP 503",
    });
    await expect(claimable(stage)).resolves.toEqual(["d1"]);
  });

  it("redrives several of a lane in order, also before one in flight", async () => {
    const { deliveries } = stage.storage;
    await store(stage, ...["d1", "d2", "d3"].map((id) => delivery(id, "a")));
    await park(stage);
    await park(stage);
    const third = await claimOne(stage);
    await expect(redrive(["d2", "d1"], FORCED)).resolves.toEqual({ d1: "redriven", d2: "redriven" });
    await expect(claimable(stage)).resolves.toEqual([]);
    const { next } = await deliveries.finish(
      third,
      { kind: "retry", after: 9000 },
      { attempt, lease: TERMS },
    );
    expect(next?.delivery.id).toBe("d1");
    const { next: second } = await deliveries.finish(next as Claim, { kind: "delivered" }, { lease: TERMS });
    expect(second?.delivery.id).toBe("d2");
    await expect(
      deliveries.finish(second as Claim, { kind: "delivered" }, { lease: TERMS }),
    ).resolves.toEqual({
      recorded: true,
    });
    await expect(heads(stage)).resolves.toMatchObject([{ id: "d3", dueAt: START + 9000 }]);
  });

  it("sends a failed delivery after redriven ones, and keeps the schedule of earlier ones", async () => {
    const { deliveries } = stage.storage;
    const retry = { kind: "retry", after: 90_000 } as const;
    const later = START + 90_000;
    await store(stage, ...["d1", "d2", "d3", "d4"].map((id) => delivery(id, "a")));
    for (const id of ["d1", "d2"]) await expect(park(stage)).resolves.toBe(id);
    await deliveries.finish(await claimOne(stage), retry, { attempt });
    await expect(heads(stage)).resolves.toMatchObject([{ id: "d3", dueAt: later }]);
    await deliveries.discard("d4", "by_hand");
    await redrive(["d4"], FORCED);
    await expect(heads(stage)).resolves.toMatchObject([{ id: "d3", dueAt: later }]);
    await redrive(["d2", "d1"], FORCED);
    for (const id of ["d1", "d2", "d3", "d4"]) await expect(deliver(stage)).resolves.toBe(id);
    await expect(found(stage, "d3")).resolves.toMatchObject({ failures: 1 });
  });

  it("refuses superseded deliveries of some types unless forced", async () => {
    await store(stage, delivery("p1", "a"), delivery("x2", "a", "service:1", { type: "DELETE_ACCOUNT" }));
    await store(stage, delivery("p3", "a"), delivery("p4", "a"), delivery("p5", "a", "service:2"));
    for (const id of ["p1", "x2"]) await expect(park(stage)).resolves.toBe(id);
    await expect(deliver(stage)).resolves.toBe("p3");
    await expect(park(stage)).resolves.toBe("p4");
    await expect(redrive(["p1", "x2", "p3", "p4", "p5", "none"], PASSABLE)).resolves.toEqual({
      p1: "superseded",
      x2: "redriven",
      p3: "redriven",
      p4: "redriven",
      p5: "waiting",
      none: "unknown",
    });
    await expect(redrive(["p1"], FORCED)).resolves.toEqual({ p1: "redriven" });
    for (const id of ["p1", "x2", "p3", "p4"]) await expect(deliver(stage)).resolves.toBe(id);
  });

  it("refuses them while a later one is in flight, because it might arrive first", async () => {
    const { deliveries } = stage.storage;
    await store(stage, delivery("p1", "a"), delivery("x2", "a", "service:1", { type: "DELETE_ACCOUNT" }));
    await store(stage, delivery("p3", "a"));
    for (const id of ["p1", "x2"]) await expect(park(stage)).resolves.toBe(id);
    const third = await claimOne(stage);
    await expect(redrive(["p1", "x2"], PASSABLE)).resolves.toEqual({ p1: "superseded", x2: "redriven" });
    await deliveries.finish(third, { kind: "parked", reason: "attempts_used_up" });
    await expect(redrive(["p1"], PASSABLE)).resolves.toEqual({ p1: "redriven" });
    // After its lease ends, the later one counts as not sent, so this one may be sent.
    await store(stage, delivery("p4", "b"), delivery("p5", "b"));
    await deliveries.discard("x2", "by_hand");
    await deliveries.discard("p1", "by_hand");
    await expect(park(stage)).resolves.toBe("p4");
    const fifth = await claimOne(stage);
    await expect(redrive(["p4"], PASSABLE)).resolves.toEqual({ p4: "superseded" });
    stage.clock.advance(fifth.leaseEnd - stage.clock.now());
    await expect(redrive(["p4"], PASSABLE)).resolves.toEqual({ p4: "redriven" });
  });

  it("sends a waiting delivery before its next attempt, in the order of its lane", async () => {
    const { deliveries } = stage.storage;
    const pause = (paused: boolean) =>
      deliveries.changeReceiver("service:1", (state) => ({ ...state, paused }));
    await store(stage, delivery("d1", "a"), delivery("d2", "a"));
    const claim = await claimOne(stage);
    await expect(deliveries.sendNow("d1")).resolves.toBe("sending");
    await deliveries.finish(claim, { kind: "retry", after: 90_000 }, { attempt });
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(deliveries.sendNow("d2")).resolves.toBe("behind");
    await pause(true);
    await expect(deliveries.sendNow("d1")).resolves.toBe("stopped");
    await pause(false);
    await expect(Promise.all([deliveries.sendNow("d1"), deliveries.sendNow("d1")])).resolves.toEqual([
      "due",
      "due",
    ]);
    // The attempt counts, and the schedule goes on after it.
    await expect(found(stage, "d1")).resolves.toMatchObject({ state: "waiting", failures: 1, attempts: 1 });
    await expect(deliver(stage)).resolves.toBe("d1");
    for (const id of ["d1", "none"]) {
      await expect(deliveries.sendNow(id)).resolves.toBe(id === "d1" ? "over" : "unknown");
    }
    for (const key of hostileKeys) await expect(deliveries.sendNow(key)).resolves.toBe("unknown");
  });

  it("sends nothing now while a discarded delivery of its lane may still arrive", async () => {
    const { deliveries } = stage.storage;
    await store(stage, delivery("d1", "a"), delivery("d2", "a"));
    await claimOne(stage);
    await deliveries.discard("d1", "by_hand");
    await expect(deliveries.sendNow("d2")).resolves.toBe("behind");
  });

  it("discards waiting and parked deliveries, and continues with the next", async () => {
    const { deliveries } = stage.storage;
    await store(stage, ...["d1", "d2", "d3", "d4"].map((id) => delivery(id, "a")));
    await park(stage);
    const second = await claimOne(stage);
    for (const id of ["d1", "d2", "d3"]) {
      await expect(deliveries.discard(id, "by_hand")).resolves.toBe(true);
      await expect(deliveries.discard(id, "by_hand")).resolves.toBe(false);
    }
    await expect(deliveries.discard("none", "by_hand")).resolves.toBe(false);
    await expect(claimable(stage)).resolves.toEqual([]);
    const { next } = await deliveries.finish(second, { kind: "retry", after: 1 }, { attempt, lease: TERMS });
    expect(next?.delivery.id).toBe("d4");
    await expect(found(stage, "d2")).resolves.toMatchObject({
      state: "discarded",
      reason: "by_hand",
      finishedAt: START,
      nextAttemptAt: null,
      attempts: 1,
      failures: 0,
    });
    await expect(redrive(["d3"], FORCED)).resolves.toEqual({ d3: "redriven" });
  });

  it("sends nothing of a lane until the attempt of its discarded head has ended", async () => {
    const { deliveries } = stage.storage;
    await store(stage, delivery("d1", "a"));
    const claim = await claimOne(stage);
    await deliveries.discard("d1", "by_hand");
    await store(stage, delivery("d2", "a"));
    await expect(claimable(stage)).resolves.toEqual([]);
    await deliveries.finish(claim, { kind: "delivered" }, { attempt });
    await expect(found(stage, "d1")).resolves.toMatchObject({ state: "delivered", attempts: 1 });
    await expect(claimable(stage)).resolves.toEqual(["d2"]);
  });

  it("continues a lane whose discarded head never finished its attempt", async () => {
    const { deliveries } = stage.storage;
    await store(stage, delivery("d1", "a"));
    const { leaseEnd } = await claimOne(stage);
    await deliveries.discard("d1", "by_hand");
    stage.clock.advance(leaseEnd - stage.clock.now() + 1);
    await store(stage, delivery("d2", "a"));
    await expect(deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 0 });
    await expect(claimable(stage)).resolves.toEqual(["d2"]);
  });
}

function describeFinding(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("reads a limited number of deliveries per page, returns the next cursor, and misses none", async () => {
    const { deliveries } = stage.storage;
    const rare = new Set([0, 700, 2399]);
    for (let index = 0; index < 2400; index += 400) {
      const some = Array.from({ length: 400 }, (_, at) => index + at);
      const type = (each: number): string => (rare.has(each) ? "DELETE_ACCOUNT" : "PROFILE_CHANGED");
      await store(
        stage,
        ...some.map((each) => delivery(`d${each}`, "a", `service:${each % 2}`, { type: type(each) })),
      );
    }
    for (const first of ["oldest", "newest"] as const) {
      const listed: string[] = [];
      const fewer: number[] = [];
      let after: string | undefined;
      do {
        const query = { type: "DELETE_ACCOUNT", first, limit: 2, ...(after !== undefined && { after }) };
        const page = await deliveries.page(query);
        listed.push(...page.deliveries.map(({ id }) => id));
        if (page.next !== undefined) fewer.push(page.deliveries.length);
        after = page.next;
      } while (after !== undefined);
      const ids = ["d0", "d700", "d2399"];
      expect(listed).toEqual(first === "oldest" ? ids : ids.toReversed());
      expect(fewer).toContain(first === "oldest" ? 0 : 1);
    }
    const all = await deliveries.list({ type: "DELETE_ACCOUNT", limit: 9 });
    expect(all.map(({ id }) => id)).toEqual(["d0", "d700", "d2399"]);
    await expect(deliveries.page({ receiver: "service:9", limit: 9 })).resolves.toEqual({ deliveries: [] });
    await expect(deliveries.page({ type: "DELETE_ACCOUNT", after: "none", limit: 1 })).resolves.toEqual({
      deliveries: [],
    });
  });

  it("finds deliveries by any filter, in both directions, page by page", async () => {
    const { deliveries } = stage.storage;
    const x = { type: "DELETE_ACCOUNT" };
    await store(stage, delivery("a1", "a"), delivery("a2", "a", "service:1", x), delivery("b1", "b"));
    await store(stage, delivery("c1", "a", "service:2"), delivery("c2", "a", "service:2", x));
    await park(stage, "service:2");
    await deliver(stage);
    const ids = async (page: Omit<DeliveryPage, "limit">, limit = 9) =>
      (await deliveries.list({ ...page, limit })).map(({ id }) => id).join(" ");
    await expect(ids({})).resolves.toBe("a1 a2 b1 c1 c2");
    await expect(ids({ first: "newest" }, 2)).resolves.toBe("c2 c1");
    await expect(ids({ first: "newest", after: "c1" }, 2)).resolves.toBe("b1 a2");
    await expect(ids({ first: "newest", after: "none" })).resolves.toBe("");
    await expect(ids({ receiver: "service:1" })).resolves.toBe("a1 a2 b1");
    await expect(ids({ receiver: "service:1", sub: "a", after: "a1" })).resolves.toBe("a2");
    await expect(ids({ type: "DELETE_ACCOUNT", first: "newest" })).resolves.toBe("c2 a2");
    await expect(ids({ state: "waiting" })).resolves.toBe("a2 b1 c2");
    await expect(ids({ state: "waiting", receiver: "service:2" })).resolves.toBe("c2");
    await expect(ids({ state: "parked" })).resolves.toBe("c1");
    await expect(ids({ state: "delivered", receiver: "service:1", sub: "a" })).resolves.toBe("a1");
    await expect(ids({ state: "discarded" })).resolves.toBe("");
  });

  it("counts waiting and parked deliveries per receiver", async () => {
    const { deliveries } = stage.storage;
    await expect(deliveries.counts()).resolves.toEqual([]);
    await store(stage, delivery("d", "a", "service:3"), delivery("p", "a"), delivery("x", "a", "group:1"));
    stage.clock.advance(5);
    await store(stage, delivery("q", "b"), delivery("r", "b"));
    await deliver(stage, "service:3");
    await park(stage, "group:1");
    await park(stage);
    await expect(deliveries.counts()).resolves.toEqual([
      { receiver: "group:1", waiting: 0, parked: 1, oldest: null },
      { receiver: "service:1", waiting: 2, parked: 1, oldest: START + 5 },
    ]);
  });

  it("counts no further than to a limit, so that a backlog of a million costs no more to look at", async () => {
    const { deliveries, outbox, records } = stage.storage;
    await store(stage, delivery("a1", "a"));
    const counted: Query[] = [];
    const { store: real } = records;
    const count = real.count.bind(real);
    real.count = (queries) => {
      counted.push(...queries);
      return count(queries);
    };
    await deliveries.counts();
    await deliveries.recent({ number: 2, lengthMs: 1_000 });
    await outbox.waiting();
    await outbox.held();
    expect(new Set(counted.map(({ limit }) => limit))).toEqual(new Set([10_000]));
    expect(new Set(counted.map(({ index }) => index)).size).toBe(4);
  });

  it("counts what was stored lately in spans, of all receivers and states", async () => {
    const { deliveries } = stage.storage;
    const spans = { number: 2, lengthMs: 1_000 };
    await expect(deliveries.recent(spans)).resolves.toEqual([
      { from: START - 2_000, stored: 0, parked: 0 },
      { from: START - 1_000, stored: 0, parked: 0 },
    ]);
    await store(stage, delivery("d", "a", "service:3"), delivery("p", "a"));
    await deliver(stage, "service:3");
    await park(stage);
    stage.clock.advance(1_500);
    await store(stage, delivery("q", "b"), delivery("r", "b", "group:1"));
    stage.clock.advance(100);
    await expect(deliveries.recent(spans)).resolves.toEqual([
      { from: START - 400, stored: 2, parked: 1 },
      { from: START + 600, stored: 2, parked: 0 },
    ]);
    // What is older than the first span is not counted.
    stage.clock.advance(1_000);
    await expect(deliveries.recent(spans)).resolves.toEqual([
      { from: START + 600, stored: 2, parked: 0 },
      { from: START + 1_600, stored: 0, parked: 0 },
    ]);
  });

  it("knows the oldest deletion that waits and the oldest that is parked, of all receivers", async () => {
    const { deliveries } = stage.storage;
    const expectOldest = (waiting: number | undefined, parked: number | undefined): Promise<void> =>
      expect(deliveries.oldestDeletions()).resolves.toEqual({ waiting, parked });
    await store(stage, delivery("p", "a"));
    await expectOldest(undefined, undefined);
    stage.clock.advance(5);
    await store(stage, deletion("d1", "b", "service:2"));
    stage.clock.advance(5);
    await store(stage, deletion("d2", "c", "service:3"), deletion("d3", "c", "group:1"));
    await expectOldest(START + 5, undefined);
    await park(stage, "service:2");
    await expectOldest(START + 10, START + 5);
    await deliver(stage, "service:3");
    await expectOldest(START + 10, START + 5);
    await deliver(stage, "group:1");
    await expectOldest(undefined, START + 5);
    await deliveries.redrive(["d1"], { supersedable: [] });
    await expectOldest(START + 5, undefined);
    await deliveries.discard("d1", "by_hand");
    await expectOldest(undefined, undefined);
  });

  it("finds nothing to repair in lanes of any kind, page by page", async () => {
    const { deliveries } = stage.storage;
    await store(stage, ...hostileKeys.flatMap((key) => ["1", "2"].map((n) => delivery(key + n, key, key))));
    await park(stage, "a");
    await deliveries.finish(await claimOne(stage, "A"), { kind: "retry", after: 5 }, { attempt });
    await claimOne(stage, "😀");
    await deliver(stage, "00");
    await deliver(stage, "00");
    let pages = 0;
    let after: { receiver: string; sub: string } | undefined;
    do {
      const page = await deliveries.reconcile({ limit: 5, ...(after && { after }) });
      expect(page.repaired).toBe(0);
      ({ after } = { after: undefined, ...page });
      pages += 1;
    } while (after !== undefined);
    expect(pages).toBe(Math.ceil((hostileKeys.length - 1) / 5));
  });
}

function describePurging(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const DAY = 24 * 3600 * 1000;

  it("purges payloads and responses of successful deliveries, and later all records", async () => {
    const { deliveries } = stage.storage;
    await store(stage, ...["d1", "d2", "d3", "d4"].map((id) => delivery(id, "a")));
    await deliveries.finish(await claimOne(stage), { kind: "delivered" }, { attempt });
    await park(stage);
    await deliveries.discard("d3", "by_hand");
    const purge = (limit: number) =>
      deliveries.purge({
        payloads: stage.clock.now() - 7 * DAY,
        records: stage.clock.now() - 90 * DAY,
        limit,
      });
    stage.clock.advance(7 * DAY - 1);
    await expect(purge(9)).resolves.toBe(0);
    stage.clock.advance(1);
    await expect(purge(1)).resolves.toBe(1);
    await expect(purge(9)).resolves.toBe(1);
    await expect(purge(9)).resolves.toBe(0);
    await expect(found(stage, "d1")).resolves.toMatchObject({ state: "delivered", payload: null });
    await expect(deliveries.attempts("d1")).resolves.toEqual([{ ...attempt, number: 1, answer: null }]);
    await expect(found(stage, "d2")).resolves.toMatchObject({ state: "parked", payload: "sealed-d2" });
    await expect(found(stage, "d3")).resolves.toMatchObject({ state: "discarded", payload: null });
    await expect(deliveries.redrive(["d1", "d2"], PASSABLE)).resolves.toEqual(
      new Map([
        ["d1", "purged"],
        ["d2", "redriven"],
      ]),
    );
    await park(stage);
    stage.clock.advance(90 * DAY - 1);
    await expect(purge(9)).resolves.toBe(2);
    await expect(deliveries.find("d1")).resolves.toBeUndefined();
    await expect(deliveries.attempts("d1")).resolves.toEqual([]);
    await expect(found(stage, "d2")).resolves.toMatchObject({ payload: "sealed-d2" });
    stage.clock.advance(1);
    await expect(purge(9)).resolves.toBe(1);
    await expect(deliveries.list({ limit: 9 })).resolves.toEqual([
      { ...stored(delivery("d4", "a"), 4), isHead: true },
    ]);
  });

  it("remembers the progress of a lane after a purge, and never reuses a sequence number", async () => {
    const { deliveries } = stage.storage;
    await store(stage, delivery("d1", "a"), delivery("d2", "a"), delivery("d3", "a"));
    await park(stage);
    await deliver(stage);
    const all = { payloads: stage.clock.now(), records: stage.clock.now(), limit: 9 };
    stage.clock.advance(1);
    await deliver(stage);
    await deliveries.redrive(["d1"], FORCED);
    await park(stage);
    await expect(deliveries.purge(all)).resolves.toBe(1);
    await expect(deliveries.redrive(["d1"], PASSABLE)).resolves.toEqual(new Map([["d1", "superseded"]]));
    await store(stage, delivery("d4", "a"));
    await expect(found(stage, "d4")).resolves.toMatchObject({ sequence: 4 });
    // An empty lane starts again.
    await deliver(stage);
    stage.clock.advance(1);
    await deliveries.purge({ payloads: 0, records: stage.clock.now(), limit: 9 });
    await expect(deliveries.list({ limit: 9 })).resolves.toEqual([]);
    await store(stage, delivery("d5", "a"));
    await expect(claimable(stage)).resolves.toEqual(["d5"]);
  });
}
