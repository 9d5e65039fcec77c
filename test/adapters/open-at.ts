/** Opens the store at an address of any backend. */
import { openStores } from "../../adapters/open.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import { backendOf } from "../../config/storage-address.ts";
import { openRedis } from "../../adapters/redis/record-store.ts";
import type { Clock } from "../../core/clock.ts";

/** `shared` is a shared kind, and `thing` one that is watched. */
export async function openAt(address: string, clock: Clock): Promise<RecordStore> {
  if (backendOf(address) === "redis") return openRedis({ url: address, clock });
  const kinds = { sharedKinds: ["shared"], watchedKinds: ["thing"] };
  const { main } = await openStores({ storage: address, artifacts: address, clock, ...kinds });
  return main;
}
