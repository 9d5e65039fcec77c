/** A delivery that joins its lane while another one is in flight, at the moment when that flight ends. */
import { describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { openSqlite } from "../../../adapters/sqlite/record-store.ts";
import { storageOver } from "../../../records/storage.ts";
import { claimOne, deliver, park, TERMS } from "../rules/deliveries.ts";
import { delivery, ManualClock, type Stage, store } from "../rules/stage.ts";

/** A storage where somebody does something between two calls of somebody else: after the next reads of a list. */
async function openInterrupted(): Promise<Stage & { interrupt: (what: () => Promise<unknown>) => void }> {
  const clock = new ManualClock();
  const records = await openSqlite({ path: ":memory:", clock });
  let pending: (() => Promise<unknown>) | undefined;
  const interrupted: RecordStore = {
    ...records,
    async list(queries) {
      const found = await records.list(queries);
      const what = pending;
      pending = undefined;
      await what?.();
      return found;
    },
  };
  return {
    clock,
    storage: storageOver(interrupted, { clock }),
    interrupt: (what) => (pending = what),
  };
}

describe("a delivery that is sent again while its lane is in flight", () => {
  it.each([
    { behind: [], sent: ["two"] },
    { behind: ["three"], sent: ["two", "three"] },
  ])("is not missed when the flight ends before $behind [D-NOTIFY-16]", async ({ behind, sent }) => {
    const stage = await openInterrupted();
    const { deliveries } = stage.storage;
    await store(stage, delivery("one", "a"), delivery("two", "a"));
    await park(stage);
    await park(stage);
    await deliveries.redrive(["one"], { supersedable: [] });
    if (behind.length > 0) await store(stage, ...behind.map((id) => delivery(id, "a")));
    const claim = await claimOne(stage);
    expect(claim.delivery.id).toBe("one");
    stage.interrupt(() => deliveries.redrive(["two"], { supersedable: [] }));
    await deliveries.finish(claim, { kind: "delivered" });
    const order = [];
    for (const _ of sent) order.push(await deliver(stage));
    expect(order).toEqual(sent);
    await expect(deliveries.claimDue("service:1", 9, TERMS)).resolves.toEqual([]);
    await stage.storage.close();
  });
});
