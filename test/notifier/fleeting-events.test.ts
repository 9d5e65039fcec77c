/** Events that are only worth sending for an hour, such as sign-ins, and receivers that another process has. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { type NewDelivery, WORTH_SENDING_MS } from "../../records/deliveries/delivery.ts";
import { PAYLOAD } from "../../records/deliveries/delivery-kinds.ts";
import { closing } from "../closing.ts";
import { store } from "../records/rules/stage.ts";
import { HOUR, MINUTE, openWorld, SECOND, type World } from "./stage.ts";

const RECEIVER = {
  url: "https://crm.example/events",
  signing_secret: `whsec_${"A".repeat(32)}`,
  types: ["account.signed_in", "account.updated"],
} as const;
const CRM = "events:crm";

let world: World;
beforeEach(async () => {
  world = await openWorld({}, "sqlite::memory:", { crm: RECEIVER });
  closing(world.storage);
});

/** Stores deliveries to the receiver, in this order: `s…` is a sign-in. */
async function add(sub: string, ...ids: readonly string[]): Promise<void> {
  const now = world.clock.now();
  const deliveries = ids.map((id): NewDelivery => {
    const payload = world.sealer.seal(`delivery ${id}`, JSON.stringify({ id }));
    const updated = {
      id,
      receiver: CRM,
      sub,
      at: Math.floor(now / SECOND),
      payload,
      type: "account.updated",
    };
    const fleeting = { type: "account.signed_in", until: now + WORTH_SENDING_MS };
    return id.startsWith("s") ? Object.assign(updated, fleeting) : updated;
  });
  await store(world, ...deliveries);
}

async function found(id: string): Promise<readonly unknown[]> {
  const delivery = await world.notifications.find(id);
  return [delivery?.state, delivery?.reason];
}

const dropped = (): readonly object[] =>
  world.emitted.flatMap(([name, argument]) => (name === "delivery.dropped" ? [argument] : []));

describe("what include put into an event", () => {
  it("is kept no longer than seven days after it was delivered, also while the account is gone [D-EVENT-22]", async () => {
    await add("a", "u1", "s2");
    await add("b", "u3");
    world.answer = ({ id }) => (id === "u1" ? 200 : 500);
    const worker = world.worker();
    await worker.live(80 * HOUR);
    const payload = async (id: string) => (await world.storage.deliveries.find(id))?.payload;
    const kept = async () => Promise.all(["u1", "s2", "u3"].map(async (id) => typeof (await payload(id))));
    expect(await Promise.all(["u1", "s2", "u3"].map(async (id) => (await found(id))[0]))).toEqual([
      "delivered",
      "discarded",
      "parked",
    ]);
    expect(await kept()).toEqual(["string", "string", "string"]);
    world.clock.advance(7 * 24 * HOUR);
    await worker.upkeep.pass();
    // What is parked can still be sent.
    expect(await kept()).toEqual(["object", "object", "string"]);
    await world.notifications.discard("u3");
    world.clock.advance(7 * 24 * HOUR + SECOND);
    await worker.upkeep.pass();
    expect(await kept()).toEqual(["object", "object", "object"]);
    const { records } = await world.storage.records.store.scan(PAYLOAD.name, undefined, 10);
    expect(records).toEqual([]);
  });
});

describe("an event that is only worth sending for a while", () => {
  it("is sent without credentials, signed, like any other [D-EVENT-6]", async () => {
    await add("a", "s1", "u2");
    await world.worker().settle();
    const { url, signing_secret } = RECEIVER;
    expect(world.posted.map(({ id, target }) => [id, target])).toEqual(
      ["s1", "u2"].map((id) => [id, { url, signing_secrets: [signing_secret] }]),
    );
  });

  it("is given up after an hour, never parked, and the next of its lane is sent [D-EVENT-10]", async () => {
    await add("a", "s1", "u2");
    world.answer = ({ id }) => (id === "s1" ? 500 : 200);
    await world.worker().live(2 * HOUR);
    const tries = world.posted.filter(({ id }) => id === "s1").map(({ at }) => at);
    expect(tries).toEqual([0, 5 * SECOND, 5 * MINUTE + 5 * SECOND, 35 * MINUTE + 5 * SECOND]);
    expect(await found("s1")).toEqual(["discarded", "too_late"]);
    expect(await found("u2")).toEqual(["delivered", null]);
    expect(dropped()).toEqual([{ receiver: CRM, reason: "too_late", number: 1 }]);
    expect(world.emitted.map(([name]) => name)).not.toContain("delivery.parked");
  });

  it("is not parked when its attempts are used up sooner [D-EVENT-10]", async () => {
    world = await openWorld({ retryDelays: [1] }, "sqlite::memory:", { crm: RECEIVER });
    closing(world.storage);
    await add("a", "s1");
    await add("b", "u2");
    world.answer = () => 500;
    await world.worker().live(MINUTE);
    expect(await found("s1")).toEqual(["discarded", "attempts_used_up"]);
    expect(await found("u2")).toEqual(["parked", "attempts_used_up"]);
  });

  it("is given up while its receiver is paused; what stays worth sending waits [D-EVENT-10]", async () => {
    await add("a", "s1", "u2", "s3");
    await add("b", "s4");
    await world.notifications.pause(CRM, {});
    const worker = world.worker();
    await worker.upkeep.pass();
    expect(await found("s1")).toEqual(["waiting", "receiver_paused"]);
    world.clock.advance(HOUR);
    await add("a", "s5");
    await worker.upkeep.pass();
    for (const id of ["s1", "s3", "s4"])
      expect([id, ...(await found(id))]).toEqual([id, "discarded", "too_late"]);
    expect(await found("s5")).toEqual(["waiting", "behind"]);
    expect(dropped()).toEqual([{ receiver: CRM, reason: "too_late", number: 3 }]);
    await world.notifications.resume(CRM);
    await worker.settle();
    expect(world.ids()).toEqual(["u2", "s5"]);
  });

  it("waits for another hour when somebody sends it again [D-EVENT-10]", async () => {
    await add("a", "s1");
    await world.notifications.pause(CRM, {});
    world.clock.advance(HOUR);
    const worker = world.worker();
    await worker.upkeep.pass();
    await world.notifications.redrive("s1", {});
    world.clock.advance(59 * MINUTE);
    await worker.upkeep.pass();
    expect(await found("s1")).toEqual(["waiting", "receiver_paused"]);
    world.clock.advance(MINUTE);
    await worker.upkeep.pass();
    expect(await found("s1")).toEqual(["discarded", "too_late"]);
  });

  it("is discarded when no key opens it, and what stays worth sending is parked [D-EVENT-10]", async () => {
    const now = world.clock.now();
    const common = { receiver: CRM, sub: "a", at: 1, payload: "AAAA" };
    await store(
      world,
      { ...common, id: "s1", type: "account.signed_in", until: now + HOUR },
      { ...common, id: "u2", type: "account.updated" },
    );
    await world.worker().settle();
    expect(await found("s1")).toEqual(["discarded", "payload_unreadable"]);
    expect(await found("u2")).toEqual(["parked", "payload_unreadable"]);
  });
});

describe("a receiver of events that this process does not have", () => {
  it("gets its events from others for an hour; then what waits is parked, and sign-ins are discarded [D-EVENT-20]", async () => {
    const other = world.worker(undefined, { receivers: {} });
    await add("a", "s1", "u2");
    await other.settle();
    await other.upkeep.pass();
    expect(world.posted).toEqual([]);
    expect(await found("u2")).toEqual(["waiting", "behind"]);
    await world.worker().settle();
    expect(world.ids()).toEqual(["s1", "u2"]);
    await add("a", "s3", "u4");
    world.clock.advance(HOUR);
    await other.upkeep.pass();
    expect(await found("s3")).toEqual(["discarded", "too_late"]);
    expect(await found("u4")).toEqual(["parked", "receiver_removed"]);
  });
});
