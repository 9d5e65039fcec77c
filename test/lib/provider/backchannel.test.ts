import { setTimeout as pause } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "@jest/globals";
import type { ArtifactStore } from "../../../lib/artifacts/artifact-store.ts";
import { createEvents } from "../../../lib/events.ts";
import { type Backchannel, createBackchannel } from "../../../lib/provider/backchannel.ts";

/** A function that fails once, to be called again after two seconds; what it holds is gone when nobody holds it. */
function deliverOnce(backchannel: Backchannel): {
  readonly held: WeakRef<object>;
  readonly told: Promise<void>;
} {
  const token = { is: "a logout token" };
  let calls = 0;
  const { promise: told, resolve } = Promise.withResolvers<void>();
  const send = (): Promise<void> => {
    calls += 1;
    if (calls === 1) return Promise.reject(new Error(token.is));
    resolve();
    return Promise.resolve();
  };
  void backchannel.deliver("news", send);
  return { held: new WeakRef(token), told };
}

it("keeps nothing of a client that was told at the second attempt", async () => {
  const backchannel = createBackchannel(
    {} as ArtifactStore,
    createEvents(() => undefined),
    () => undefined,
  );
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const { held, told } = deliverOnce(backchannel);
  await told;
  for (let tries = 0; held.deref() !== undefined && tries < 50; tries += 1) {
    await pause(20);
    collect();
  }
  expect(held.deref()).toBeUndefined();
  await backchannel.stop();
});
