import { putEntry } from "../records/rules/stage.ts";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { inSeconds } from "../../core/clock.ts";
import type { Storage } from "../../records/storage.ts";
import { HOUR, MINUTE, openWorld, receiverSettings, SECOND, unreadable, type World } from "./stage.ts";
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

describe("the worker", () => {
  it("posts stored deliveries to their receivers, with id and credentials, and records the response", async () => {
    await world.receiver("1", { signing_secret: `whsec_${"A".repeat(32)} whsec_${"B".repeat(32)}` });
    await world.add("d1@1/a");
    world.answer = () => ({ kind: "answered", status: 204, answer: "thank <b>you</b>" });
    await world.worker().settle();
    const { url, client_id, client_secret } = receiverSettings("1");
    const signing_secrets = [`whsec_${"A".repeat(32)}`, `whsec_${"B".repeat(32)}`];
    expect(world.posted).toEqual([
      {
        id: "d1",
        body: '{"secret":"payload of d1"}',
        at: 0,
        target: { url, client_id, client_secret, signing_secrets },
      },
    ]);
    await expect(world.notifications.find("d1")).resolves.toMatchObject({
      state: "delivered",
      attempts: 1,
      history: [{ number: 1, status: 204, error: null, answer: "thank <b>you</b>", duration_ms: 1 }],
    });
    const about = { id: "d1", receiver: "service:1", sub: "a", type: "PROFILE_CHANGED", attempts: 1 };
    expect(world.emitted).toEqual([["delivery.succeeded", { ...about, status: 204 }]]);
    const kept = await world.storage.deliveries.attempts("d1");
    expect(JSON.stringify(kept)).not.toContain("thank");
  });

  it("tries ten times over 75.6 hours, then parks, and continues with the next delivery of the lane [D-NOTIFY-14]", async () => {
    await world.add("d1@1/a", "d2@1/a");
    world.answer = ({ id }) => (id === "d1" ? 500 : 200);
    await world.worker().live(76 * HOUR);
    const times = [
      0,
      5 * SECOND,
      5 * MINUTE,
      30 * MINUTE,
      ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR),
    ];
    const expected = times.map((_, index) => times.slice(0, index + 1).reduce((sum, each) => sum + each, 0));
    const tries = world.posted.filter(({ id }) => id === "d1").map(({ at }) => at);
    expect(tries).toEqual(expected);
    expect((tries.at(-1) ?? 0) / HOUR).toBeCloseTo(75.585, 2);
    await expect(world.notifications.find("d1")).resolves.toMatchObject({
      state: "parked",
      reason: "attempts_used_up",
      attempts: 10,
    });
    expect(emitted("delivery.parked")).toMatchObject([
      { id: "d1", reason: "attempts_used_up", attempts: 10 },
    ]);
    expect(emitted("delivery.failed")).toHaveLength(10);
    // Its circuit had opened meanwhile: the next one is its probe.
    await expect(state("d2")).resolves.toBe("delivered");
    expect(world.posted.at(-1)).toMatchObject({ id: "d2" });
  });

  it("waits as long as Retry-After says, within bounds [D-NOTIFY-14]", async () => {
    await world.add("d1@1/a", "d2@2/a");
    world.answer = ({ id }) => ({
      kind: "answered",
      status: 503,
      answer: "",
      retryAfter: id === "d1" ? 60 : 1e6,
    });
    await world.worker().live(2 * HOUR - 1);
    const times = (wanted: string) => world.posted.filter(({ id }) => id === wanted).map(({ at }) => at);
    expect(times("d1").slice(0, 3)).toEqual([0, MINUTE, 6 * MINUTE]);
    expect(times("d2")).toEqual([0, HOUR]);
  });

  it("uses the settings of the receiver at the attempt, and parks when the receiver is removed [D-NOTIFY-5]", async () => {
    await world.add("d1@1/a", "d2@2/a", "d3@2/a");
    world.answer = () => 500;
    const worker = world.worker();
    await worker.settle();
    await world.receiver("1", { url: "https://moved.example/", client_secret: "a new secret" });
    await world.directory.services.put("2", { name: "2" });
    await worker.live(5 * SECOND);
    expect(world.posted.slice(2)).toMatchObject([
      { id: "d1", target: { url: "https://moved.example/", client_secret: "a new secret" } },
    ]);
    for (const id of ["d2", "d3"]) {
      await expect(world.notifications.find(id)).resolves.toMatchObject({
        state: "parked",
        reason: "receiver_removed",
      });
    }
    expect(emitted("delivery.parked")).toMatchObject([{ id: "d2" }, { id: "d3" }]);
  });

  it("pauses at 410 and keeps the delivery first; resume sends it at once [D-NOTIFY-14]", async () => {
    await world.add("d1@1/a", "d2@1/a", "e1@1/e", "f1@2/a");
    world.answer = ({ target }) => (target.client_id === "service 1" ? 410 : 200);
    const worker = world.worker();
    await worker.live(5 * HOUR);
    expect(world.ids().toSorted()).toEqual(["d1", "e1", "f1"]);
    expect(emitted("receiver.paused")).toEqual([
      { receiver: "service:1", reason: "it answered 410 Gone", by_operator: false },
    ]);
    await expect(world.notifications.find("d1")).resolves.toMatchObject({
      state: "waiting",
      failures: 0,
      attempts: 1,
    });
    world.answer = () => 200;
    await expect(world.notifications.resume("service:1")).resolves.toMatchObject({
      paused: false,
      waiting: 3,
    });
    await worker.settle();
    expect(world.ids().slice(3)).toEqual(expect.arrayContaining(["d1", "d2", "e1"]));
    expect(world.ids().indexOf("d2")).toBeGreaterThan(world.ids().lastIndexOf("d1"));
  });

  it("pauses a receiver whose address is refused or whose credentials can't be read, and uses up no attempt [D-NOTIFY-18]", async () => {
    await world.add("d1@1/a", "d2@2/a");
    world.answer = () => ({ kind: "refused", reason: "10.0.0.1 is a private address" });
    const entry = await world.storage.directory.findEntry("service", "2");
    if (!entry?.receiver) throw new Error("no receiver");
    await putEntry(world.storage, "service", { ...entry, receiver: unreadable(entry.receiver) });
    await world.worker().live(80 * HOUR);
    expect(world.ids()).toEqual(["d1"]);
    expect(emitted("receiver.paused")).toEqual([
      { receiver: "service:2", reason: "no key of keys.secrets opens its credentials", by_operator: false },
      { receiver: "service:1", reason: "10.0.0.1 is a private address", by_operator: false },
    ]);
    for (const [id, attempts] of [
      ["d1", 1],
      ["d2", 0],
    ] as const) {
      await expect(world.notifications.find(id)).resolves.toMatchObject({
        state: "waiting",
        failures: 0,
        attempts,
      });
    }
    await expect(world.notifications.receivers()).resolves.toMatchObject({
      items: [
        { receiver: "service:1", paused: true, reason: "10.0.0.1 is a private address", waiting: 1 },
        { receiver: "service:2", paused: true },
      ],
    });
    // A test says the same: it is for finding out why.
    await expect(world.notifications.test("service:2")).resolves.toMatchObject({
      ok: false,
      status: null,
      error: "no key of keys.secrets opens its credentials",
    });
  });

  it("parks a delivery that can't be decrypted, and sends the next", async () => {
    await world.add("d1@1/a", "d2@1/a");
    const find = world.storage.deliveries;
    const spoilt = (storage: Storage): Storage => ({
      ...storage,
      deliveries: {
        ...find,
        claimDue: async (...parameters) => {
          const claims = await find.claimDue(...parameters);
          return claims.map((claim) => {
            const delivery = Object.assign({}, claim.delivery, { payload: "AAAA" });
            return Object.assign({}, claim, { delivery });
          });
        },
      },
    });
    await world.worker(spoilt).settle();
    await expect(world.notifications.find("d1")).resolves.toMatchObject({
      state: "parked",
      reason: "payload_unreadable",
    });
    expect(world.ids()).toEqual(["d2"]);
  });
});

describe("a receiver that fails", () => {
  const users = Array.from({ length: 20 }, (_, index) => `u${String(index).padStart(2, "0")}`);

  it("gets one delivery at a time, every 30 s rising to 5 min; the first success brings everything, oldest first [D-NOTIFY-15]", async () => {
    for (const user of users) {
      await world.add(`${user}@1/${user}`);
      world.clock.advance(1);
    }
    world.answer = ({ target }) => (target.client_id === "service 1" ? 500 : 200);
    const worker = world.worker();
    await worker.settle();
    const burst = world.posted.length;
    expect(burst).toBeGreaterThanOrEqual(5);
    expect(burst).toBeLessThanOrEqual(10);
    expect(emitted("receiver.circuit_opened")).toEqual([
      { receiver: "service:1", circuit_open_until: inSeconds(world.clock.now()) + 30 },
    ]);
    const began = world.now();
    await worker.live(20 * MINUTE);
    const probes = world.posted.slice(burst).map(({ at }) => (at - began) / SECOND);
    expect(probes).toEqual([30, 90, 210, 450, 750, 1050]);
    // Users of other receivers don't notice.
    await world.add("other@2/u00");
    await worker.settle();
    await expect(state("other")).resolves.toBe("delivered");

    world.answer = () => 200;
    const before = world.posted.length;
    await worker.live(5 * MINUTE);
    const [probe, ...rest] = world.posted.slice(before);
    expect(emitted("receiver.failing")).toEqual([{ receiver: "service:1", error: "HTTP 500" }]);
    expect(emitted("receiver.recovered")).toEqual([
      { receiver: "service:1", failures: burst + probes.length, failing_since: expect.any(Number) },
    ]);
    expect(rest.every(({ at }) => at === probe?.at)).toBe(true);
    const order = rest.map(({ id }) => id);
    expect(order).toEqual(users.filter((user) => user !== probe?.id));
    for (const user of users) await expect(state(user)).resolves.toBe("delivered");
  });

  it("uses up no attempts while the receiver is paused or its circuit is open, however long [D-NOTIFY-15, D-NOTIFY-22]", async () => {
    for (const user of users) await world.add(`${user}@1/${user}`);
    world.answer = () => 500;
    const worker = world.worker();
    await worker.live(HOUR);
    await world.notifications.pause("service:1", { reason: "maintenance" });
    const posted = world.posted.length;
    await worker.live(1000 * HOUR);
    expect(world.posted).toHaveLength(posted);
    const deliveries = await storedDeliveries(world.notifications);
    expect(deliveries.map(({ state: each }) => each)).toEqual(users.map(() => "waiting"));
    const sum = deliveries.reduce((all, { failures }) => all + failures, 0);
    expect(sum).toBe(posted);
    world.answer = () => 200;
    await world.notifications.resume("service:1");
    await worker.settle();
    expect((await storedDeliveries(world.notifications, { state: "delivered" })).length).toBe(users.length);
  });

  it("does not delay another receiver of the same worker, and uses at most its share of it [D-NOTIFY-16]", async () => {
    const open: (() => void)[] = [];
    world.answer = ({ target }) =>
      target.client_id === "service 1" ? new Promise((resolve) => open.push(() => resolve(500))) : 200;
    for (const user of users) await world.add(`h-${user}@1/${user}`, `w-${user}@2/${user}`);
    const worker = world.worker();
    for (let pass = 0; pass < 10; pass += 1) {
      await worker.poller.pass();
      await new Promise(setImmediate);
    }
    expect(open).toHaveLength(world.settings.concurrency.perReceiver);
    expect((await storedDeliveries(world.notifications, { state: "delivered" })).map(({ id }) => id)).toEqual(
      users.map((user) => `w-${user}`),
    );
    for (const end of open) end();
    await worker.settle();
  });

  it("does not delay another receiver, even together with as many failing ones as there are slots [D-NOTIFY-16]", async () => {
    const hanging = ["1", "3", "4", "5", "6", "7"];
    for (const service of hanging) await world.receiver(service);
    const open: (() => void)[] = [];
    world.answer = ({ target }) =>
      target.client_id === "service 2" ? 200 : new Promise((resolve) => open.push(() => resolve(500)));
    for (const user of users) await world.add(...hanging.map((to) => `h${to}-${user}@${to}/${user}`));
    const worker = world.worker();
    await worker.poller.pass();
    await world.add("well@2/a");
    for (let pass = 0; pass < 10; pass += 1) {
      await worker.poller.pass();
      await new Promise(setImmediate);
    }
    expect(open).toHaveLength(40);
    await expect(world.notifications.find("well")).resolves.toMatchObject({ state: "delivered" });
    world.answer = () => 200;
    for (const end of open) end();
    await worker.settle();
  });
});
