import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { DueReceiver } from "../../records/deliveries/delivery.ts";
import type { Storage } from "../../records/storage.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { type Answer, HOUR, MINUTE, openWorld, SECOND, type Worker, type World } from "./stage.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

let world: World;
beforeEach(async () => {
  world = await openWorld();
  for (const service of ["1", "2"]) await world.receiver(service);
});
afterEach(() => world.storage.close());

const state = async (id: string) => (await world.notifications.find(id))?.state;
const emitted = (name: string) =>
  world.emitted.filter(([each]) => each === name).map(([, argument]) => argument);

/** The storage, of which one call fails so many times. */
function failing(call: "finish" | "receiver" | "changeReceiver", times: number) {
  let left = times;
  return (storage: Storage): Storage => {
    const method = storage.deliveries[call] as (...parameters: unknown[]) => Promise<unknown>;
    const broken = (...parameters: unknown[]) => {
      left -= 1;
      return left >= 0 ? Promise.reject(new StorageUnavailable("planted")) : method(...parameters);
    };
    return { ...storage, deliveries: { ...storage.deliveries, [call]: broken } };
  };
}

/** Lets receivers answer like this; resolves when the first one is asked. */
function answering(answer: Answer): Promise<void> {
  const asked = Promise.withResolvers<void>();
  world.answer = (...parameters) => {
    asked.resolve();
    return answer(...parameters);
  };
  return asked.promise;
}

/** A worker that has claimed, and goes on when it is let. */
async function standing(): Promise<{ worker: Worker; goOn: () => void }> {
  const [asked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const worker = world.worker((storage) => {
    const { directory } = storage;
    const findEntry: typeof directory.findEntry = async (...parameters) => {
      asked.resolve();
      await released.promise;
      return directory.findEntry(...parameters);
    };
    return { ...storage, directory: { ...directory, findEntry } };
  });
  await worker.poller.pass();
  await asked.promise;
  return { worker, goOn: released.resolve };
}

describe("a worker that ends", () => {
  it("finishes attempts in flight, starts no more, and leaves the rest due", async () => {
    await world.add("d1@1/a", "d2@1/a");
    const answered = Promise.withResolvers<number>();
    const sending = answering(() => answered.promise);
    const worker = world.worker();
    await worker.poller.pass();
    await sending;
    const stopped = worker.lanes.stop(60_000);
    answered.resolve(200);
    await stopped;
    await expect(state("d1")).resolves.toBe("delivered");
    expect(world.ids()).toEqual(["d1"]);
    await world.worker().settle();
    expect(world.ids()).toEqual(["d1", "d2"]);
  });

  it("does not send what it claims while it stops, and releases it", async () => {
    await world.add("d1@1/a");
    const worker = world.worker();
    const stopped = worker.lanes.stop(60_000);
    await worker.poller.pass();
    await stopped;
    await worker.lanes.stop(60_000);
    expect(world.ids()).toEqual([]);
    await world.worker().settle();
    expect(world.ids()).toEqual(["d1"]);
  });

  it("waits for its running claims although the claim at another receiver has failed", async () => {
    await world.add("d1@1/a", "d2@2/b");
    const [answers, claimed] = [Promise.withResolvers<void>(), Promise.withResolvers<boolean>()];
    let isOver = false;
    const worker = world.worker((storage) => {
      const { deliveries } = storage;
      const claimDue: typeof deliveries.claimDue = async (due, ...more) => {
        if ((due as DueReceiver).receiver === "service:1") throw new StorageUnavailable("planted");
        await answers.promise;
        claimed.resolve(isOver);
        return deliveries.claimDue(due, ...more);
      };
      return { ...storage, deliveries: { ...deliveries, claimDue } };
    });
    const pass = worker.poller.pass().finally(() => (isOver = true));
    setImmediate(answers.resolve);
    await expect(pass).rejects.toMatchObject({ code: "storage_unavailable" });
    // Else nobody would hand it back, and it would wait for its lease to end.
    await expect(claimed.promise).resolves.toBe(false);
    await worker.lanes.stop(60_000);
    await world.worker().settle();
    expect(world.ids().toSorted()).toEqual(["d1", "d2"]);
  });

  it("releases attempts that do not end in time: they are sent again at once, with the same id, and no attempt is used up [D-NOTIFY-22]", async () => {
    await world.add("d1@1/a");
    const sending = answering(
      (_, signal) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve({ kind: "failed", code: "aborted" }), {
            once: true,
          });
        }),
    );
    const worker = world.worker();
    await worker.poller.pass();
    await sending;
    await worker.lanes.stop(0);
    await expect(world.notifications.find("d1")).resolves.toMatchObject({
      state: "waiting",
      attempts: 0,
      failures: 0,
    });
    world.answer = () => 200;
    await world.worker().settle();
    expect(world.ids()).toEqual(["d1", "d1"]);
  });

  it("without a clean end loses its lease, and another worker sends again", async () => {
    await world.add("d1@1/a", "d2@1/a");
    const sending = answering(() => new Promise(() => {}));
    await world.worker().poller.pass();
    await sending;
    world.answer = () => 200;
    const second = world.worker();
    await second.live(30 * SECOND - 1);
    expect(world.ids()).toEqual(["d1"]);
    await second.live(1);
    expect(world.ids()).toEqual(["d1", "d1", "d2"]);
  });
});

describe("a worker that stands still between its claim and the POST", () => {
  it("sends nothing when another worker has the lane by now", async () => {
    await world.add("d1@1/a");
    const { worker, goOn } = await standing();
    world.clock.advance(30 * SECOND);
    await world.worker().settle();
    expect(world.ids()).toEqual(["d1"]);
    goOn();
    await worker.settle();
    expect(world.ids()).toEqual(["d1"]);
    await expect(world.notifications.find("d1")).resolves.toMatchObject({ state: "delivered", attempts: 1 });
  });

  it("takes a new lease when the rest of its lease is shorter than an attempt", async () => {
    await world.add("d1@1/a");
    const { worker, goOn } = await standing();
    world.clock.advance(20 * SECOND);
    const asked = answering(async () => {
      world.clock.advance(14 * SECOND);
      await world.worker().settle();
      return 200;
    });
    goOn();
    await asked;
    await worker.settle();
    expect(world.ids()).toEqual(["d1"]);
    await expect(world.notifications.find("d1")).resolves.toMatchObject({ state: "delivered", attempts: 1 });
  });
});

describe("a storage that fails", () => {
  it("gets the result again, so that the delivery is not repeated", async () => {
    await world.add("d1@1/a");
    await world.worker(failing("finish", 2)).settle();
    await expect(world.notifications.find("d1")).resolves.toMatchObject({ state: "delivered", attempts: 1 });
    expect(world.ids()).toEqual(["d1"]);
  });

  it("permanently does not delay the end of a worker beyond its grace period", async () => {
    await world.add("d1@1/a");
    const asked = answering(() => 200);
    const worker = world.worker(failing("finish", Infinity));
    await worker.poller.pass();
    await asked;
    // Its lease lasts for 30 s: as long it would try again.
    const began = performance.now();
    await worker.lanes.stop(100);
    expect(performance.now() - began).toBeLessThan(15 * SECOND);
    expect(emitted("fault")).toEqual([{ where: "notifications", code: "storage_unavailable" }]);
    await expect(state("d1")).resolves.toBe("waiting");
  });

  it("while it reads the state of the receiver stops nothing, and is reported as a fault", async () => {
    await world.add("d1@1/a", "d2@1/a");
    await world.worker(failing("receiver", 1)).settle();
    expect(emitted("fault")).toEqual([{ where: "notifications", code: "storage_unavailable" }]);
    await world.worker().live(MINUTE);
    expect(world.ids()).toEqual(["d1", "d2"]);
  });
});

describe("upkeep", () => {
  it("parks deliveries of a removed receiver, paused or not, and removes its state", async () => {
    await world.add("d1@1/a", "d2@1/b", "e1@2/a");
    await world.notifications.pause("service:1");
    await world.directory.services.put("1", { name: "1" });
    const worker = world.worker();
    await worker.upkeep.pass();
    expect(emitted("receiver.removed")).toEqual([{ receiver: "service:1", parked: 2 }]);
    await expect(state("d2")).resolves.toBe("parked");
    await expect(state("e1")).resolves.toBe("waiting");
    await expect(world.storage.deliveries.receivers()).resolves.toHaveProperty("size", 0);
  });

  it("does not park deliveries of a receiver that is configured again meanwhile", async () => {
    const many = Array.from({ length: 600 }, (_each, number) => `d${number}@1/${number}`);
    await world.add(...many);
    await world.directory.services.put("1", { name: "1" });
    // It returns, gets a new delivery and is paused by an operator while the first waiting one is being parked.
    const meanwhile = (storage: Storage): Storage => ({
      ...storage,
      deliveries: {
        ...storage.deliveries,
        async parkWaiting(...parameters) {
          const parked = await storage.deliveries.parkWaiting(...parameters);
          await world.receiver("1");
          await world.notifications.pause("service:1");
          return parked;
        },
      },
    });
    await world.worker(meanwhile).upkeep.pass();
    expect(await world.storage.deliveries.counts()).toMatchObject([{ waiting: 100, parked: 500 }]);
    await expect(world.storage.deliveries.receiver("service:1")).resolves.toMatchObject({ paused: true });
    expect(emitted("receiver.removed")).toEqual([{ receiver: "service:1", parked: 500 }]);
  });

  it("purges payloads after seven days and records after 90, as configured [D-NOTIFY-17]", async () => {
    await world.add("d1@1/a", "d2@2/b");
    world.answer = ({ id }) => (id === "d1" ? 200 : 500);
    const worker = world.worker();
    await worker.live(80 * HOUR);
    await expect(state("d2")).resolves.toBe("parked");
    const payload = async (id: string) => (await world.storage.deliveries.find(id))?.payload;
    world.clock.advance(7 * 24 * HOUR);
    await worker.upkeep.pass();
    await expect(payload("d1")).resolves.toBeNull();
    await expect(payload("d2")).resolves.toEqual(expect.any(String));
    world.clock.advance(80 * 24 * HOUR);
    await worker.upkeep.pass();
    await expect(payload("d2")).resolves.toEqual(expect.any(String));
    world.clock.advance(4 * 24 * HOUR);
    await worker.upkeep.pass();
    await expect(storedDeliveries(world.notifications)).resolves.toEqual([]);
  });

  it("finishes a release that a killed worker has begun", async () => {
    await world.add("d1@1/a");
    world.answer = () => 500;
    const worker = world.worker();
    await worker.settle();
    const releaseUntil = world.clock.now();
    await world.storage.deliveries.changeReceiver("service:1", (each) => ({ ...each, releaseUntil }));
    world.answer = () => 200;
    await worker.settle();
    expect(world.ids()).toEqual(["d1"]);
    await worker.upkeep.pass();
    await worker.settle();
    expect(world.ids()).toEqual(["d1", "d1"]);
  });
});
