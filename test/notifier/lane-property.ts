/** The property of lanes: whatever happens in whatever order, the store does what the model says. */
import { expect } from "@jest/globals";
import * as fc from "fast-check";
import type { Stage } from "../lib/rules/stage.ts";
import { keyOf, laneCommands, LANES, lease, type Model, type Real, SPAN } from "./lane-commands.ts";
import { LaneModel } from "./lane-model.ts";

/** Nothing is stranded: after every lease has ended one worker alone gets through all that waits, in order. */
async function drain(model: Model, { storage, clock }: Real): Promise<void> {
  clock.advance(10 * SPAN);
  await storage.deliveries.changeReceiver("r1", (state) => ({ ...state, paused: false }));
  await expect(storage.deliveries.reconcile({ limit: 100 })).resolves.toEqual({ repaired: 0 });
  for (const lane of LANES) {
    const expected = model.lanes[lane]?.entries
      .filter(({ state }) => state === "waiting")
      .map(({ id }) => id);
    const sent: string[] = [];
    let claim = await storage.deliveries.claimLane(keyOf(lane), lease("last"));
    while (claim !== undefined) {
      sent.push(claim.delivery.id);
      const { next } = await storage.deliveries.finish(claim, { kind: "delivered" });
      claim = next ?? (await storage.deliveries.claimLane(keyOf(lane), lease("last")));
    }
    expect(sent).toEqual(expected);
  }
  await expect(storage.deliveries.dueReceivers()).resolves.toEqual([]);
  await expect(storage.deliveries.list({ state: "waiting", limit: 9 })).resolves.toEqual([]);
}

/** @param open a stage with nothing in its store, for each run. */
export async function lanesDoWhatTheModelSays(
  open: () => Promise<Stage>,
  { numRuns }: { readonly numRuns: number },
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(laneCommands, async (run) => {
      const stage = await open();
      const real: Real = { ...stage, claims: [] };
      const lanes = Object.fromEntries(LANES.map((lane) => [lane, new LaneModel()]));
      const model: Model = { lanes, paused: new Set(), now: stage.clock.now(), stored: 0 };
      try {
        await fc.asyncModelRun(() => ({ model, real }), run);
        await drain(model, real);
      } finally {
        await stage.storage.close();
      }
    }),
    { numRuns },
  );
}
