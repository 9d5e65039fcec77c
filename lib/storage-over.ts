/** The storage of a service over one record store: the rules of the directory, of artifacts and of deliveries. */
import type { RateLimiterFactory } from "../adapters/rate-limits.ts";
import type { RecordStore } from "../adapters/record-store.ts";
import type { Storage } from "../adapters/storage.ts";
import { KINDS } from "./all-kinds.ts";
import { createArtifactStore } from "./artifacts/artifact-store.ts";
import type { Clock } from "./clock.ts";
import { createDeliveryStore } from "./deliveries/delivery-store.ts";
import { LaneAccess } from "./deliveries/lane-access.ts";
import { createDirectoryStore } from "./directory/directory-store.ts";

/** Everything that a service keeps, over one record store. */
export function storageOver(store: RecordStore, rateLimits: RateLimiterFactory, clock: Clock): Storage {
  const lanes = new LaneAccess(store, clock, KINDS);
  return {
    directory: createDirectoryStore(lanes),
    artifacts: createArtifactStore(store, clock, KINDS),
    deliveries: createDeliveryStore(lanes),
    rateLimits,
    arrived: () => Promise.resolve(),
    parts: [
      {
        name: "storage",
        async ping() {
          await store.ping();
        },
      },
    ],
    close: () => store.close(),
  };
}
