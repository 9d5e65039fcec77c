/** Holds several requests at the same call while something else happens. */
import { send, type Wire } from "./person.ts";
import type { Stage } from "./stage.ts";
import type { HoldOptions } from "./watched-storage.ts";

/** Sends the requests, waits until each is held at its call of this name, runs `meanwhile`, and releases them. */
export async function interleaved(
  { storage }: Pick<Stage, "storage">,
  wires: readonly Wire[],
  name: string,
  meanwhile: () => Promise<unknown> = () => Promise.resolve(),
  options: Pick<HoldOptions, "at"> = {},
): Promise<Response[]> {
  const hold = storage.hold(name, { times: wires.length, ...options });
  const answers = Promise.all(wires.map((wire) => send(wire)));
  await hold.reached;
  await meanwhile();
  hold.release();
  return answers;
}
