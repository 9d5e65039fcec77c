import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { Db } from "mongodb";
import type { Claim } from "../../../adapters/deliveries.ts";
import { openMongo } from "../../../adapters/mongodb/index.ts";
import type { Storage } from "../../../adapters/storage.ts";
import {
  attempt,
  claimable,
  claimOne,
  deliver,
  heads,
  park,
  TERMS,
} from "../../../lib/testing/contract/deliveries.ts";
import { delivery, ManualClock, type Stage, START, store } from "../../../lib/testing/contract/stage.ts";
import { lanesDoWhatTheModelSays } from "../../notifier/lane-property.ts";
import { openTap, type Tap } from "../../servers/mongodb-tap.ts";
import { describeOwnMongo, type OwnMongo, startOwnMongo } from "../../servers/mongodb.ts";

describeOwnMongo("lanes in MongoDB", () => {
  let server: OwnMongo;
  let tap: Tap;
  let url: string;
  let stage: Stage;
  /** Another process on the same database. */
  let other: Storage;

  beforeAll(async () => {
    server = await startOwnMongo();
    tap = await openTap(server.url("x"));
  });
  afterAll(async () => {
    await tap.close();
    await server.close();
  });
  beforeEach(async () => {
    url = tap.url(server.nextUrl());
    const clock = new ManualClock();
    const storage = await openMongo({ url, clock });
    other = await openMongo({ url, clock });
    stage = { clock, storage };
  });
  afterEach(() => Promise.all([stage.storage.close(), other.close()]));

  const database = (): Db => server.client.db(new URL(url).pathname.slice(1));
  const lanes = () => database().collection("lanes");
  const both = (index: number): Storage => (index % 2 === 0 ? stage.storage : other);
  /** A store with nothing in it. */
  async function openNext(): Promise<Stage> {
    const clock = new ManualClock();
    return { clock, storage: await openMongo({ url: server.nextUrl(), clock }) };
  }
  /** The commands that a call sends. */
  async function sent(call: () => Promise<unknown>): Promise<string[]> {
    tap.commands.length = 0;
    await call();
    return tap.commands.map(({ name }) => name);
  }

  it("do what the model says, whatever workers, operators and crashes do in whatever order", async () => {
    await lanesDoWhatTheModelSays(openNext, { numRuns: 12, takesHint: false });
  }, 300_000);

  it("are put right from the deliveries, whatever became of their documents", async () => {
    await store(stage, ...["a1", "a2", "b1", "c1"].map((id) => delivery(id, id.slice(0, 1))));
    await park(stage);
    const { deliveries } = stage.storage;
    const harms: (() => Promise<unknown>)[] = [
      () => lanes().deleteMany({}),
      () => lanes().updateMany({}, { $unset: { due: "" } }),
      () => lanes().updateMany({}, { $inc: { "due.at": 1e9 }, $set: { failed: { receiver: "x", at: 5 } } }),
      () => lanes().updateMany({}, { $set: { "due.receiver": "service:2" } }),
      () => lanes().updateMany({}, { $set: { last_sequence: 0 } }),
    ];
    for (const harm of harms) {
      await harm();
      await expect(deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 3 });
      await expect(deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 0 });
      expect((await heads(stage)).map(({ id }) => id).toSorted()).toEqual(["a2", "b1", "c1"]);
    }
    await store(stage, delivery("a3", "a"));
    await expect(deliveries.find("a3")).resolves.toMatchObject({ sequence: 3 });
    await expect(claimable(stage)).resolves.toEqual(["a2", "b1", "c1"]);
  });

  it("that seem due with nothing to send are put right by the look at them", async () => {
    await store(stage, delivery("a1", "a"), delivery("b1", "b"));
    await deliver(stage);
    await stage.storage.deliveries.finish(await claimOne(stage), { kind: "retry", after: 60_000 });
    await lanes().updateMany({}, { $set: { due: { receiver: "service:1", at: 5 } } });
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(stage.storage.deliveries.dueReceivers()).resolves.toEqual([
      { receiver: "service:1", dueAt: START + 60_000 },
    ]);
  });

  it("are each given to one of two processes that ask for all of them, and none is left over", async () => {
    const ids = Array.from({ length: 60 }, (_, index) => `d${index}`);
    await store(stage, ...ids.map((id) => delivery(id, id)));
    const given = await Promise.all(
      [0, 1, 0, 1].map((index) => both(index).deliveries.claimDue("service:1", 30, TERMS)),
    );
    const claimed = given.flat().map((claim) => claim.delivery.id);
    expect(claimed.toSorted()).toEqual(ids.toSorted());
  });

  it("lose no head while some add to them and others finish what is in them", async () => {
    const subs = ["a", "b", "c"];
    const rounds = 12;
    let adding = true;
    const sentBy = new Map<string, number[]>();
    async function work(storage: Storage): Promise<void> {
      for (;;) {
        const wasAdding = adding;
        const claims = await storage.deliveries.claimDue("service:1", 2, TERMS);
        await Promise.all(claims.map((claim) => run(storage, claim)));
        if (claims.length > 0) continue;
        if (!wasAdding) return;
        await pause(1);
      }
    }
    async function run(storage: Storage, first: Claim): Promise<void> {
      for (let claim: Claim | undefined = first; claim !== undefined;) {
        const { sub, sequence } = claim.delivery;
        sentBy.set(sub, [...(sentBy.get(sub) ?? []), sequence]);
        const finished = await storage.deliveries.finish(
          claim,
          { kind: "delivered" },
          { attempt, lease: TERMS },
        );
        expect(finished.recorded).toBe(true);
        claim = finished.next;
      }
    }
    async function add(sub: string): Promise<void> {
      for (let round = 0; round < rounds; round += 1) {
        await store({ ...stage, storage: both(round) }, delivery(`${sub}${round}`, sub));
      }
    }
    const workers = [work(stage.storage), work(other), work(other)];
    await Promise.all(subs.map(add));
    adding = false;
    await Promise.all(workers);
    const all = Array.from({ length: rounds }, (_, index) => index + 1);
    expect(Object.fromEntries(sentBy)).toEqual(Object.fromEntries(subs.map((sub) => [sub, all])));
    await expect(other.deliveries.list({ state: "waiting", limit: 9 })).resolves.toEqual([]);
    await expect(other.deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 0 });
  }, 120_000);

  it("of a receiver that is held give one probe to several processes", async () => {
    await store(stage, ...["a", "b", "c"].map((id) => delivery(id, id)));
    await other.deliveries.changeReceiver("service:1", (state) => ({
      ...state,
      failures: 5,
      heldUntil: START,
      holdSpan: 30_000,
    }));
    const given = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        index < 5
          ? both(index).deliveries.claimDue("service:1", 9, TERMS)
          : both(index)
              .deliveries.claimLane({ receiver: "service:1", sub: "a" }, TERMS)
              .then((claim) => (claim === undefined ? [] : [claim])),
      ),
    );
    expect(given.flat()).toMatchObject([{ probe: true }]);
  });

  it("lose no change of a receiver, also when it is forgotten and comes back meanwhile", async () => {
    const steps = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        both(index).deliveries.changeReceiver("service:1", (state) => ({
          ...state,
          failures: index % 4 === 3 ? 0 : state.failures + 1,
        })),
      ),
    );
    // One after the other: each begins where another one has ended, but for the first and the last.
    const left = new Map<number, number>();
    const count = (failures: number, by: number) => left.set(failures, (left.get(failures) ?? 0) + by);
    for (const { before, after } of steps) {
      count(before.failures, -1);
      count(after.failures, 1);
    }
    const last = await stage.storage.deliveries.receiver("service:1");
    count(0, 1);
    count(last.failures, -1);
    expect([...left.values()].filter((one) => one !== 0)).toEqual([]);
  });

  it("cost a look for each receiver, however many there are of each", async () => {
    const receivers = ["group:g", "portal:p", "service:1", "service:2"];
    const all = receivers.flatMap((receiver) =>
      Array.from({ length: 25 }, (_, index) => delivery(`${receiver} ${index}`, `s${index}`, receiver)),
    );
    await store(stage, ...all);
    const { deliveries } = stage.storage;
    const due = receivers.map((receiver) => ({ receiver, dueAt: START }));
    // A look for each, one that finds no more, and one at how the receivers are.
    const first = await sent(() => expect(deliveries.dueReceivers()).resolves.toEqual(due));
    expect(first).toEqual(Array.from({ length: receivers.length + 2 }, () => "find"));
    // From then on several stretches at once: each ends with a look that finds no more.
    const second = await sent(() => expect(deliveries.dueReceivers()).resolves.toEqual(due));
    expect(second).toEqual(Array.from({ length: 2 * receivers.length + 1 }, () => "find"));
    await store(stage, delivery("new", "s", "portal:new"), delivery("last", "s", "zzz"));
    const names = (await deliveries.dueReceivers()).map(({ receiver }) => receiver);
    expect(names).toEqual([...receivers, "portal:new", "zzz"].toSorted());
  });

  it("are claimed and finished once, whichever answer of the server is lost on the way", async () => {
    const { deliveries } = stage.storage;
    const commands = ["find", "update", "findAndModify", "insert", "commitTransaction"];
    await store(stage, ...commands.map((name) => delivery(name, "a")));
    for (const [index, name] of commands.entries()) {
      tap.cutAnswerTo(name);
      const claim = await claimOne(stage);
      expect(claim).toMatchObject({ fence: index + 1, delivery: { id: name } });
      await expect(deliveries.finish(claim, { kind: "delivered" }, { attempt })).resolves.toEqual({
        recorded: true,
      });
      await expect(deliveries.find(name)).resolves.toMatchObject({ state: "delivered", attempts: 1 });
      await expect(deliveries.attempts(name)).resolves.toHaveLength(1);
    }
    await expect(deliveries.dueReceivers()).resolves.toEqual([]);
  });

  it("are claimed and finished with these ways to the server", async () => {
    await store(stage, delivery("a1", "a"), delivery("a2", "a"));
    const { deliveries } = stage.storage;
    let claim: Claim | undefined;
    const claiming = await sent(async () => {
      [claim] = await deliveries.claimDue("service:1", 1, TERMS);
    });
    expect(claiming).toEqual(["find", "find", "find", "update"]);
    const finishing = await sent(() =>
      deliveries.finish(claim!, { kind: "delivered" }, { attempt, lease: TERMS }),
    );
    expect(finishing).toEqual(["findAndModify", "insert", "find", "find", "update", "commitTransaction"]);
  });
});
