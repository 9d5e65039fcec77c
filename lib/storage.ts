/** The storage of a service: what the configuration names, opened. */
import { openStorageWith, type StorageConfiguration } from "../adapters/open.ts";
import type { RateLimiterFactory } from "../adapters/rate-limits.ts";
import type { RecordStore } from "../adapters/record-store.ts";
import type { Storage } from "../adapters/storage.ts";
import { createArtifactStore } from "./artifacts/artifact-store.ts";
import type { Clock } from "./clock.ts";
import { createDeliveryStore } from "./deliveries/delivery-store.ts";
import { LaneAccess } from "./deliveries/lane-access.ts";
import { createDirectoryStore } from "./directory/directory-store.ts";

/** Everything that a service keeps, over one record store. */
export function storageOver(store: RecordStore, rateLimits: RateLimiterFactory, clock: Clock): Storage {
  const lanes = new LaneAccess(store, clock);
  return {
    directory: createDirectoryStore(lanes),
    artifacts: createArtifactStore(store, clock),
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

/**
 * Opens the storage that the configuration names; a backend's code is loaded when it is chosen.
 * @param onWarning told what an operator should put right. Default: nobody.
 * @throws ConfigurationError when there is no such backend, or the server there is of the wrong kind.
 * @throws StorageUnavailable when a store can't be reached or opened.
 */
export function openStorage(
  configuration: StorageConfiguration,
  onWarning?: (text: string) => void,
): Promise<Storage> {
  return openStorageWith(storageOver, configuration, onWarning);
}
