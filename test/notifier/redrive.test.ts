import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { DeliveryStore } from "../../adapters/deliveries.ts";
import { createEvents } from "../../lib/events.ts";
import { createNotifications } from "../../notifier/notifications.ts";
import { redriveMatching, SUPERSEDABLE } from "../../notifier/redrive.ts";
import { HOUR, openWorld, type World } from "./stage.ts";

let world: World;
beforeEach(async () => {
  world = await openWorld();
  for (const service of ["1", "2"]) await world.receiver(service);
});
afterEach(() => world.storage.close());

const ids = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_each, number) => `${name}${number}@1/${name}${number}`);

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
  const events = createEvents((error) => {
    throw error;
  });
  const counts = await redriveMatching({ deliveries, events, wake: () => undefined }, {}, SUPERSEDABLE);
  await expect(storage.deliveries.find("old")).resolves.toBeUndefined();
  expect(counts).toEqual({ redriven: 149, superseded: 1, waiting: 0, purged: 0, unknown: 0 });
});

it("who was told is told to the end when retention takes away what was just read", async () => {
  const { storage, clock, sealer, settings } = world;
  const lane = (name: string, count: number): string[] =>
    Array.from({ length: count }, (_each, number) => `${name}${number}@1/a`);
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
  const notifications = createNotifications({
    sealer,
    settings,
    clock,
    deliveries,
    directory: storage.directory,
    events: createEvents(() => undefined),
    attempt: () => Promise.reject(new Error("nothing is to be sent")),
    wake: () => undefined,
  });
  const told = await notifications.acknowledgements("a");
  await expect(storage.deliveries.find("old499")).resolves.toBeUndefined();
  expect(told.map(({ id }) => id).slice(499)).toEqual(["old499", "new0", "new1", "new2"]);
});
