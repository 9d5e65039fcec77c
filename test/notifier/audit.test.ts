/** What operators ask for through the calls, as the audit has it. */
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { StorageUnavailable } from "../../core/errors.ts";
import type { Notifications } from "../../notifier/operations.ts";
import { openWorld, type World } from "./stage.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

const X = { kind: "operator", id: "x" } as const;

let world: World;
beforeEach(async () => {
  world = await openWorld();
  await world.receiver("a");
});
afterEach(() => world.storage.close());

/** What was recorded of deliveries and receivers, oldest first. */
async function recorded(): Promise<unknown[]> {
  const { items: records } = await world.storage.audit.list({ limit: 100 });
  const asked = records.filter(({ action }) => /^(?:delivery|receiver)\./.test(action));
  return asked.toReversed().map(({ action, subject, actor, detail }) => [action, subject, actor, detail]);
}

/** The calls on a storage that fails before or after it has stored an audit record. */
function failing(when: "before" | "after"): Notifications {
  const { audit } = world.storage;
  return world.notificationsOn({
    audit: {
      ...audit,
      async append(event) {
        if (when === "after") await audit.append(event);
        throw new StorageUnavailable("the storage is gone");
      },
    },
  });
}

describe("the audit of notifications", () => {
  it("has a record of each thing that was asked for, with who asked and when", async () => {
    await world.add("one@a/ada");
    const { notifications } = world;
    const actor = { kind: "system", id: "nightly-job" } as const;
    const nobody = { kind: "system" };
    await notifications.pause("service:a", { reason: "Ada is moving house" }, { actor });
    await notifications.pause("service:a");
    await notifications.resume("service:a", { actor });
    await notifications.test("service:a", { actor });
    await notifications.sendNow("one", { actor });
    await notifications.discard("one", { actor });
    await notifications.redrive("one", { force: true }, { actor });
    await notifications.redriveAll({ receiver: "service:a", type: "PROFILE_CHANGED" }, { actor });
    await notifications.redriveAll();
    expect(await recorded()).toEqual([
      ["receiver.pause_requested", "service:a", actor, {}],
      ["receiver.pause_requested", "service:a", nobody, {}],
      ["receiver.resume_requested", "service:a", actor, {}],
      ["receiver.test_requested", "service:a", actor, {}],
      ["delivery.send_now_requested", "one", actor, {}],
      ["delivery.discard_requested", "one", actor, {}],
      ["delivery.redrive_requested", "one", actor, { force: true }],
      ["delivery.redrive_all_requested", "service:a", actor, { type: "PROFILE_CHANGED", force: false }],
      ["delivery.redrive_all_requested", "*", nobody, { force: false }],
    ]);
    const { items: records } = await world.storage.audit.list({ limit: 1 });
    expect(records[0]?.at).toBe(Math.floor(world.clock.now() / 1000));
  });

  it("has nothing of what was only looked at, and of deliveries and receivers that there are not", async () => {
    await world.add("one@a/ada");
    const { notifications } = world;
    await storedDeliveries(notifications);
    await notifications.find("one");
    await notifications.receivers();
    await notifications.acknowledgements("ada");
    for (const call of [
      () => notifications.redrive("none", {}, { actor: X }),
      () => notifications.sendNow("none", { actor: X }),
      () => notifications.discard("none", { actor: X }),
      () => notifications.pause("service:none", {}, { actor: X }),
      () => notifications.resume("service:none", { actor: X }),
      () => notifications.test("service:none", { actor: X }),
    ])
      await expect(call()).rejects.toMatchObject({ code: "not_found" });
    expect(await recorded()).toEqual([]);
  });

  it("nothing is done when the record can't be stored", async () => {
    await world.add("one@a/ada");
    const notifications = failing("before");
    const asked: (() => Promise<unknown>)[] = [
      () => notifications.pause("service:a"),
      () => notifications.resume("service:a"),
      () => notifications.test("service:a"),
      () => notifications.discard("one"),
      () => notifications.redrive("one"),
      () => notifications.redriveAll(),
    ];
    const before = [await storedDeliveries(world.notifications), await world.notifications.receivers()];
    for (const call of asked) await expect(call()).rejects.toThrow(StorageUnavailable);
    expect([await storedDeliveries(world.notifications), await world.notifications.receivers()]).toEqual(
      before,
    );
    expect(await recorded()).toEqual([]);
  });

  it("keeps the record of what was then not done", async () => {
    await world.add("one@a/ada");
    await expect(failing("after").discard("one", { actor: X })).rejects.toThrow(StorageUnavailable);
    expect(await recorded()).toEqual([["delivery.discard_requested", "one", X, {}]]);
    expect(await world.notifications.find("one")).toMatchObject({ state: "waiting" });
  });

  it.each(["", "shop", "service:", "service:a\n", "ada@example.com", "x".repeat(200), 7])(
    "does not take %j for a receiver, and has nothing of it",
    async (name) => {
      const { notifications } = world;
      const receiver = name as string;
      for (const call of [
        () => notifications.pause(receiver),
        () => notifications.resume(receiver),
        () => notifications.test(receiver),
        () => notifications.redriveAll({ receiver }),
      ]) {
        await expect(call()).rejects.toThrow(TypeError);
      }
      expect(await recorded()).toEqual([]);
      expect([...(await world.storage.deliveries.receivers()).keys()]).toEqual([]);
    },
  );

  it("takes no free text for what is sent again: it would be kept", async () => {
    const { notifications } = world;
    await expect(notifications.redriveAll({ account: "ada@example.com" })).rejects.toThrow(
      "delivery.account: ",
    );
    await expect(notifications.redriveAll({ type: "of Ada" as never })).rejects.toThrow("delivery.type: ");
    expect(await recorded()).toEqual([]);
  });

  it.each(["", "ada@example.com", "a b", "x".repeat(129), 7])("does not take %j for who asks", async (id) => {
    const options = { actor: { kind: "operator", id: id as string } } as const;
    const { notifications } = world;
    for (const call of [
      () => notifications.redrive("one", {}, options),
      () => notifications.redriveAll({}, options),
      () => notifications.discard("one", options),
      () => notifications.pause("service:a", {}, options),
      () => notifications.resume("service:a", options),
      () => notifications.test("service:a", options),
    ]) {
      await expect(call()).rejects.toThrow("options.actor.id: ");
    }
    expect(await recorded()).toEqual([]);
  });
});
