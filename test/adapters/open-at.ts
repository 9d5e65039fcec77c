/** Opens the store at an address of any backend. */
import { openStore } from "../../adapters/open.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../../core/clock.ts";

/** `shared` is a shared kind, and `thing` one that is watched. */
export function openAt(address: string, clock: Clock): Promise<RecordStore> {
  const kinds = { sharedKinds: ["shared"], watchedKinds: ["thing"] };
  return openStore(address, { ...kinds, clock, onWarning: () => undefined });
}
