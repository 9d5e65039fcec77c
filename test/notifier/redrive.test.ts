import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { DeliveryStore } from "../../records/deliveries/delivery.ts";
import { redriveMatching, SUPERSEDABLE } from "../../notifier/notifications.ts";
import { HOUR, MINUTE, openWorld, type World } from "./stage.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

let world: World;
beforeEach(async () => {
  world = await openWorld();
  for (const service of ["1", "2"]) await world.receiver(service);
});
afterEach(() => world.storage.close());

const ids = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_each, number) => `${name}${number}@1/${name}${number}`);

const lane = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_each, number) => `${name}${number}@1/a`);

it("goes on to the end when retention takes away what it has just looked at", async () => {
  const { storage, clock } = world;
  // The last one of the first page is superseded, so that it stays parked, and is old enough to be purged.
  await world.add(...ids("before", 99), "old@2/a", ...ids("behind", 50));
  await world.notifications.pause("service:1");
  await storage.deliveries.parkWaiting("service:2", "attempts_used_up", 9);
  await world.add("newer@2/a");
  await world.worker().settle();
  const old = clock.now();
  clock.advance(HOUR);
  await storage.deliveries.parkWaiting("service:1", "attempts_used_up", 500);
  const deliveries: Pick<DeliveryStore, "find" | "list" | "redrive"> = {
    ...storage.deliveries,
    async redrive(...parameters) {
      const results = await storage.deliveries.redrive(...parameters);
      await storage.deliveries.purge({ payloads: 0, records: old, limit: 9 });
      return results;
    },
  };
  const counts = await redriveMatching(deliveries, {}, SUPERSEDABLE, () => undefined);
  await expect(storage.deliveries.find("old")).resolves.toBeUndefined();
  expect(counts).toEqual({ redriven: 149, superseded: 1, waiting: 0, purged: 0, unknown: 0 });
});

it("acknowledgements are complete although retention removes records while they are read", async () => {
  const { storage, clock } = world;
  await world.add(...lane("old", 500));
  await storage.deliveries.parkWaiting("service:1", "attempts_used_up", 500);
  const old = clock.now();
  clock.advance(HOUR);
  await world.add(...lane("new", 3));
  const deliveries: DeliveryStore = {
    ...storage.deliveries,
    async list(page) {
      const found = await storage.deliveries.list(page);
      await storage.deliveries.purge({ payloads: 0, records: old, limit: 500 });
      return found;
    },
  };
  const notifications = world.notificationsOn({ deliveries });
  const acknowledgements = await notifications.acknowledgements("a");
  await expect(storage.deliveries.find("old499")).resolves.toBeUndefined();
  expect(acknowledgements.map(({ id }) => id).slice(499)).toEqual(["old499", "new0", "new1", "new2"]);
});

it("a receiver that was down for longer than all attempts gets everything after a redrive [D-NOTIFY-15]", async () => {
  const users = ["a", "b", "c"];
  await world.add(...["first", "second"].flatMap((name) => users.map((sub) => `${name}-${sub}@1/${sub}`)));
  world.answer = () => 500;
  const worker = world.worker();
  await worker.live(110 * HOUR);
  const states = async (): Promise<unknown[]> =>
    (await storedDeliveries(world.notifications)).map(({ state, failures }) => [state, failures > 5]);
  const parked = ["parked", true];
  expect(await states()).toEqual([parked, parked, parked, ...users.map(() => ["waiting", true])]);
  world.answer = () => 200;
  await world.notifications.redriveAll();
  const posted = world.posted.length;
  // The longest time between two probes.
  await worker.live(5 * MINUTE);
  expect(await storedDeliveries(world.notifications, { state: "waiting" })).toEqual([]);
  for (const sub of users) {
    expect(
      world
        .ids()
        .slice(posted)
        .filter((id) => id.endsWith(sub)),
    ).toEqual([`first-${sub}`, `second-${sub}`]);
  }
});
